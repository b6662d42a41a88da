"""Random merges about partition types, years and time zones: `python -m tests.oracle.zoned --seeds 0:300 --log FILE`.

A case is SQL text with values of all years, for the cases' notation has Python's alone. delta-spark loses some values itself
(docs/differences.md): these are left out, and where a zone's name leads it astray it gets the same zone by another name.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import deltamerge
from deltamerge.tables import DeltaTable
from tests.oracle.engines import copy_table
from tests.oracle.seeds import run_seeds
from tests.oracle.test_evolution import failure

# By Spark's name, and as delta-spark gets it: it writes wrong times where a zone's name has both letters and a colon, and
# where an offset has seconds, of which none is here.
ZONES = {
    "UTC": "UTC", "America/Los_Angeles": "America/Los_Angeles", "Asia/Kathmandu": "Asia/Kathmandu", "PST": "PST", "EST": "EST",
    "+05:30": "+05:30", "+5:30": "+05:30", "-18:00": "-18:00", "Z": "Z", "GMT+2": "GMT+2", "UTC+01:00": "+01:00",
    "UT-3": "-03:00", "GMT0": "GMT0", "Australia/Lord_Howe": "Australia/Lord_Howe",
}  # fmt: skip
_DAYS = ("2020-01-01", "2020-07-01", "1970-01-01", "0001-01-01", "1582-10-10", "9999-12-31", "+10000-01-01", "+99999-12-31",
         "0000-02-29", "-0044-03-15", "2021-06-30")  # fmt: skip
_SECONDS = (0, 1_577_836_800, 1_593_604_800, 1_583_661_600, -2_208_988_800, -62_135_510_400, 253_402_300_799, 253_402_300_800,
            253_402_340_000, 327_416_976_550, -62_135_596_800)  # fmt: skip
_BEFORE_YEAR_1 = (-62_135_596_801, -100_000_000_000)
_TEXTS = ("a", "b", "", "é", "x/y=%z", "2020-01-01", "null", "NULL", " a ", "日本", "a\tb", "O''k", '"', "[0]", "{1}", "^", "#?")
_LITERALS: dict[str, tuple[str, ...]] = {
    "date": tuple(f"DATE'{day}'" for day in _DAYS),
    "timestamp": tuple(f"timestamp_micros({seconds * 1_000_000 + more}L)" for seconds in _SECONDS for more in (0, 999_999)),
    "timestamp_ntz": tuple(
        f"CAST('{day} {hour}' AS TIMESTAMP_NTZ)" for day in _DAYS for hour in ("00:00:00", "23:59:59.999999", "02:30:00.5")
    ),
    "string": tuple(f"'{text}'" for text in _TEXTS),
    "int": ("0", "1", "-5", "2147483647", "-2147483648"),
    "bigint": ("0", "9223372036854775807L", "-1L"),
    "tinyint": ("0Y", "127Y", "-128Y"),
    "boolean": ("true", "false"),
    "float": ("0.0F", "-0.0F", "0.1F", "float('NaN')", "float('-Infinity')", "1.0E20F", "1.0E-5F"),
    "double": ("0.0D", "-0.0D", "0.1D", "double('NaN')", "double('Infinity')", "1.0E100D", "1234567.0D", "1.0E7D"),
    "decimal(5,2)": ("0.00", "1.50", "-999.99"),
    "decimal(38,18)": ("0.000000000000000001", "-1.5", "12345678901234567890.123456789012345678"),
}
_TIMED = ("date", "timestamp", "timestamp", "timestamp_ntz")


class Zoned:
    """The random merge of a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(f"zoned {seed}")
        self.zone, self.made_in = rng.choice(list(ZONES)), rng.choice(list(ZONES.values()))
        parts = [rng.choice(_TIMED), *rng.sample(list(_LITERALS), rng.choice((0, 0, 1)))]
        self.parts = [(f"p{number}", type) for number, type in enumerate(parts)]
        self.columns = [("id", "int"), ("v", rng.choice(tuple(_LITERALS))), *self.parts]
        self.pools = {name: rng.sample(_LITERALS[type], min(4, len(_LITERALS[type]))) for name, type in self.columns[2:]}
        self.with_offset = rng.random() < 0.6
        self.rows = [self.row(number) for number in range(rng.choice((3, 8, 14)))]
        self.source = [self.row(number) for number in sorted(rng.sample(range(18), rng.choice((1, 4, 9))))]
        self.on, self.clauses = self.condition(), self.clause_list()
        self.properties = {"delta.enableDeletionVectors": str(rng.random() < 0.4).lower()}
        self.properties |= {"delta.enableChangeDataFeed": "true"} if rng.random() < 0.2 else {}
        self.properties |= {"delta.checkpointInterval": "1"} if rng.random() < 0.2 else {}
        self.settings = {
            "spark.deltamerge.strategy": rng.choice(("auto", "auto", "join", "route", "meet")),
            "spark.deltamerge.rewriteShare": rng.choice(("1", "0.5", "0")),
        }

    def row(self, number: int) -> tuple[str, ...]:
        return (str(number), *(self.value(name, type) for name, type in self.columns[1:]))

    def value(self, name: str, type: str) -> str:
        if self.rng.random() < 0.1:
            return f"CAST(NULL AS {type})"
        more = tuple(f"timestamp_micros({seconds}000000L)" for seconds in _BEFORE_YEAR_1) if type == "timestamp" else ()
        return f"CAST({self.rng.choice(self.pools.get(name, _LITERALS[type] + more))} AS {type})"

    def condition(self) -> str:
        rng, shape = self.rng, self.rng.random()
        name, type = rng.choice(self.parts)
        same = [f"t.{column} <=> s.{column}" for column, _ in self.parts]
        if shape < 0.35:
            return "t.id = s.id"
        if shape < 0.55:
            return f"t.id = s.id AND t.{name} {rng.choice(('=', '<=>', '>=', '<>'))} s.{name}"
        if shape < 0.8:
            return f"t.id = s.id AND {self.test('t', name, type)}"
        return " AND ".join(["t.id = s.id", *same])

    def test(self, alias: str, name: str, type: str) -> str:
        rng = self.rng
        value = rng.choice(self.pools[name])
        options = [f"{alias}.{name} {rng.choice(('=', '<', '>', '<=', '>=', '<=>', '<>'))} {value}", f"{alias}.{name} IS NULL"]
        options += [f"{alias}.{name} IN ({value}, {rng.choice(self.pools[name])})", f"NOT ({alias}.{name} = {value})"]
        if type == "timestamp":
            options += [f"{alias}.{name} >= '2020-01-01'", f"CAST({alias}.{name} AS DATE) = DATE'2020-07-01'"]
        if type in ("date", "timestamp_ntz"):
            options += [f"{alias}.{name} >= '2020-01-01'", f"year({alias}.{name}) > 9999"]
        return rng.choice(options)

    def clause_list(self) -> str:
        rng = self.rng
        name, type = rng.choice(self.parts)
        moved = rng.choice((f"s.{name}", f"t.{name}", self.value(name, type)))
        matched = rng.choice(("UPDATE SET *", f"UPDATE SET {name} = {moved}", "UPDATE SET v = s.v", "DELETE"))
        found = [f"WHEN MATCHED AND {self.test(rng.choice('ts'), name, type)} THEN DELETE"] if rng.random() < 0.3 else []
        found += [f"WHEN MATCHED THEN {matched}"] if rng.random() < 0.85 else []
        found += ["WHEN NOT MATCHED THEN INSERT *"] if rng.random() < 0.7 or not found else []
        if rng.random() < 0.3:
            found.append(f"WHEN NOT MATCHED BY SOURCE AND {self.test('t', name, type)} THEN DELETE")
        return " ".join(found)

    @property
    def target_query(self) -> str:
        """The table's rows."""
        return _query(self.columns, self.rows)

    def statement(self, path: Path) -> str:
        """The merge into the table at a path."""
        source = _query(self.columns, self.source)
        return f"MERGE INTO delta.`{path}` t USING ({source}) s ON {self.on} {self.clauses}"

    def __str__(self) -> str:
        """The case as one screen of SQL."""
        made = f"in {self.made_in}, texts {'with' if self.with_offset else 'without'} offset, {self.properties}"
        return f"made {made}\n{self.target_query}\nin {self.zone}, {self.settings}\n{self.statement(Path('t'))}"


def _query(columns: list[tuple[str, str]], rows: list[tuple[str, ...]]) -> str:
    names = ", ".join(name for name, _ in columns)
    return f"SELECT * FROM VALUES {', '.join('(' + ', '.join(row) + ')' for row in rows)} AS x({names})"


def difference(spark: SparkSession, case: Zoned, folder: Path) -> str | None:
    """What is different between the two engines on a case, with the case; None when nothing is."""
    place = Path(tempfile.mkdtemp(dir=folder))
    changed = {"spark.sql.session.timeZone", "spark.databricks.delta.write.utcTimestampPartitionValues", *case.settings}
    before = {name: spark.conf.get(name, None) for name in changed}
    try:
        found = _difference(spark, case, place)
        return None if found is None else f"{case}\n{found}"
    except Exception:
        return f"{case}\nbroken {traceback.format_exc()[-1500:]}"
    finally:
        for name, value in before.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)
        shutil.rmtree(place, ignore_errors=True)


def _difference(spark: SparkSession, case: Zoned, folder: Path) -> str | None:
    theirs, ours = folder / "theirs", folder / "ours"
    _make(spark, case, theirs)
    copy_table(theirs, ours)
    for name, value in case.settings.items():
        spark.conf.set(name, value)
    _zone(spark, case.zone)
    previewed = failure(lambda: str(_builder(spark, case, ours).preview()))
    found = failure(lambda: deltamerge.sql(spark, case.statement(ours)).collect())
    _zone(spark, ZONES[case.zone])
    expected = failure(lambda: spark.sql(case.statement(theirs)).collect())
    if found != expected or previewed != found:
        return f"ours: {found}, preview: {previewed}, theirs: {expected}"
    for zone in dict.fromkeys((case.zone, "UTC")):
        _zone(spark, ZONES[zone])
        wanted = _rows(spark.read.format("delta").load(str(theirs)), case)
        by_theirs = _rows(spark.read.format("delta").load(str(ours)), case)
        _zone(spark, zone)
        if case.with_offset or zone == case.zone:
            read = {"ours": _rows(deltamerge.read(spark, str(ours)), case), "ours by delta-spark": by_theirs}
            read["theirs by us"] = _rows(deltamerge.read(spark, str(theirs)), case)
            for name, rows in read.items():
                if rows != wanted:
                    return f"{name} in {zone}: only there {rows - wanted}, only theirs {wanted - rows}"
    return _unfiltered(spark, case, theirs)


def _unfiltered(spark: SparkSession, case: Zoned, path: Path) -> str | None:
    """A condition about a partition column that finds other rows by our reading than by Spark's."""
    _zone(spark, ZONES[case.zone])
    frame = spark.read.format("delta").load(str(path))
    for name, type in case.parts:
        test = case.test("x", name, type)
        wanted, found = (_rows(read.alias("x").where(test), case) for read in (frame, deltamerge.read(spark, str(path))))
        if wanted != found:
            return f"where {test}: only ours {found - wanted}, only theirs {wanted - found}"
    return None


def _builder(spark: SparkSession, case: Zoned, path: Path) -> Any:
    """The merge by the builder: only its preview is asked for, which must not fail where the merge does not."""
    source = spark.sql(_query(case.columns, case.source)).alias("s")
    table = DeltaTable.forPath(spark, str(path)).alias("t")
    return table.merge(source, case.on).whenMatchedUpdateAll().whenNotMatchedInsertAll()


def _make(spark: SparkSession, case: Zoned, path: Path) -> None:
    """The table, by delta-spark."""
    _zone(spark, case.made_in if case.with_offset else ZONES[case.zone])
    spark.conf.set("spark.databricks.delta.write.utcTimestampPartitionValues", str(case.with_offset).lower())
    columns = ", ".join(f"{name} {type}" for name, type in case.columns)
    properties = ", ".join(f"'{name}' = '{value}'" for name, value in case.properties.items())
    names = ", ".join(name for name, _ in case.parts)
    spark.sql(f"CREATE TABLE delta.`{path}` ({columns}) USING delta PARTITIONED BY ({names}) TBLPROPERTIES ({properties})")
    spark.sql(f"INSERT INTO delta.`{path}` {case.target_query}")
    spark.conf.unset("spark.databricks.delta.write.utcTimestampPartitionValues")


def _zone(spark: SparkSession, zone: str) -> None:
    spark.conf.set("spark.sql.session.timeZone", zone)


_SHOWN: dict[str, Callable[[str], str]] = {
    "timestamp": lambda name: f"unix_micros({name})",
    "date": lambda name: f"unix_date({name})",
}


def _rows(frame: DataFrame, case: Zoned) -> Counter[str]:
    shown = [_SHOWN.get(type, lambda name: f"CAST({name} AS STRING)")(name) for name, type in case.columns]
    return Counter(map(repr, frame.selectExpr(*shown).collect()))


def main() -> None:
    """Run the seeds of the command line; the exit code says whether all were alike."""
    sys.exit(1 if run_seeds(__doc__, lambda spark, seed, folder: difference(spark, Zoned(seed), folder)) else 0)


if __name__ == "__main__":
    main()
