"""Every type through write, read and merge; and data files as other and older writers have left them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import deltamerge
from deltamerge.log.replay.table import open_log
from deltamerge.spark.read.snapshot import arrow_frame
from deltamerge.tables import DeltaTable
from tests.e2e.tables import conf, content, make

TYPES = {
    "b": ("byte", [1, -128, None]),
    "sh": ("short", [1, 32767, None]),
    "i": ("int", [1, -(2**31), None]),
    "l": ("long", [1, 2**63 - 1, None]),
    "f": ("float", [0.5, float("-inf"), None]),
    "d": ("double", [0.1, 1e300, None]),
    "t": ("boolean", [True, False, None]),
    "s": ("string", ["a", "", None]),
    "bin": ("binary", [b"a", b"\xff", None]),
    "da": ("date", [date(1, 1, 1), date(9999, 12, 31), None]),
    "ts": ("timestamp", [datetime(1500, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999), None]),
    "nt": ("timestamp_ntz", [datetime(1, 1, 1), datetime(2020, 1, 1, 0, 0, 0, 1), None]),
    "d5": ("decimal(5,2)", [Decimal("1.25"), Decimal("-999.99"), None]),
    "d18": ("decimal(18,6)", [Decimal("1.250000"), Decimal("-999999999999.999999"), None]),
    "d38": ("decimal(38,10)", [Decimal("1.2500000000"), Decimal("9" * 28), None]),
    "st": ("struct<a: int, b: struct<c: date, d: array<string>>>", [(1, (date(1999, 1, 1), ["x", None])), (None, None), None]),
    "ar": ("array<struct<x: decimal(10,2), y: binary>>", [[(Decimal("1.00"), b"y"), None], [], None]),
    "ma": ("map<string, map<int, struct<z: timestamp>>>", [{"k": {1: (datetime(2020, 1, 1),)}}, {}, None]),
}
COLUMNS = ", ".join(f"{name} {type}" for name, (type, _) in TYPES.items())


def frame_of_types(spark: SparkSession, start: int) -> DataFrame:
    """Three rows of every type, with keys from `start`."""
    rows = [(start + n, *(values[n] for _, values in TYPES.values())) for n in range(3)]
    return spark.createDataFrame(rows, f"k int, {COLUMNS}").coalesce(1)


def rows(frame: DataFrame) -> Counter[str]:
    return Counter(map(repr, frame.collect()))


def both_readers(spark: SparkSession, path: Path) -> Counter[str]:
    """The rows by Spark's Parquet reader, which are those of the Arrow scan."""
    found = rows(deltamerge.read(spark, str(path)))
    assert rows(arrow_frame(spark, open_log(str(path)).snapshot())) == found
    return found


def adopt(path: Path, schema: str, changes: Mapping[str, list[str]] | None = None) -> None:
    """Make the Parquet files of a folder a Delta table of `schema`, the JSON of Spark's schema, whose columns were widened."""
    value = json.loads(schema)
    for field in value["fields"]:
        if field["name"] in (changes or {}):
            steps = changes[field["name"]]
            field["metadata"]["delta.typeChanges"] = [{"fromType": old, "toType": new} for old, new in pairwise(steps)]
    names = sorted({"typeWidening"} if changes else set()) + (["timestampNtz"] if '"timestamp_ntz"' in schema else [])
    protocol: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": 2}
    if names:
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": names, "writerFeatures": names}
    metadata = {
        "id": "1",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(value),
        "partitionColumns": [],
        "configuration": {},
    }
    actions: list[dict[str, Any]] = [{"protocol": protocol}, {"metaData": metadata}]
    for file in sorted(path.glob("*.parquet")):
        add = {"path": file.name, "partitionValues": {}, "size": file.stat().st_size, "modificationTime": 0, "dataChange": True}
        actions.append({"add": add})
    (path / "_delta_log").mkdir()
    (path / "_delta_log" / f"{0:020d}.json").write_text("\n".join(map(json.dumps, actions)))


def delete_one(spark: SparkSession, path: Path, key: int) -> None:
    """Merge one row away, so that the file of the others is read and written again."""
    source = spark.createDataFrame([(key,)], "k int").alias("s")
    DeltaTable.forPath(spark, str(path)).alias("t").merge(source, "t.k = s.k").whenMatchedDelete().execute()


def test_every_type_is_written_read_and_merged(spark: SparkSession, tmp_path: Path, strategy: str) -> None:
    path = tmp_path / "t"
    deltamerge.write(frame_of_types(spark, 0), str(path))
    assert both_readers(spark, path) == rows(frame_of_types(spark, 0))
    changes = frame_of_types(spark, 1).alias("s")
    table = DeltaTable.forPath(spark, str(path)).alias("t")
    table.merge(changes, "t.k = s.k").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    expected = frame_of_types(spark, 0).where("k = 0").union(frame_of_types(spark, 1))
    assert both_readers(spark, path) == rows(expected)
    assert [f.dataType for f in deltamerge.read(spark, str(path)).schema] == [f.dataType for f in expected.schema]


def test_a_null_struct_of_fields_that_are_never_null(spark: SparkSession, tmp_path: Path, strategy: str) -> None:
    struct = "named_struct('a', 1, 'l', array(named_struct('b', 2)))"
    frame = spark.sql(f"SELECT 1 k, {struct} s UNION ALL SELECT 2, null UNION ALL SELECT 3, null")
    deltamerge.write(frame.where("k < 3"), str(tmp_path / "t"))
    table = DeltaTable.forPath(spark, str(tmp_path / "t")).alias("t")
    merge = table.merge(frame.alias("s"), "t.k = s.k").whenNotMatchedInsertAll()
    merge.whenMatchedUpdate("t.k = 2", {"s": struct}).whenMatchedUpdate(set={"s": "null"}).execute()
    assert both_readers(spark, tmp_path / "t") == rows(
        spark.sql(f"SELECT 1 k, null s UNION ALL SELECT 2, {struct} UNION ALL SELECT 3, null")
    )


LEGACY = {
    "spark.sql.parquet.writeLegacyFormat": "true",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
    "spark.sql.parquet.int96RebaseModeInWrite": "LEGACY",
}


@pytest.mark.parametrize("kind", ["INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"])
@pytest.mark.local(reason="Spark writes the files, without a connector to the store")
def test_files_of_older_sparks_are_read_right(spark: SparkSession, tmp_path: Path, strategy: str, kind: str) -> None:
    frame = frame_of_types(spark, 0).drop("nt", "bin")
    if kind == "TIMESTAMP_MILLIS":
        frame = frame.withColumn("ts", F.date_trunc("second", "ts"))
    with conf(spark, {**LEGACY, "spark.sql.parquet.outputTimestampType": kind}):
        frame.write.parquet(str(tmp_path / "t"))
    expected = rows(frame)
    adopt(tmp_path / "t", frame.schema.json())
    assert both_readers(spark, tmp_path / "t") == expected
    delete_one(spark, tmp_path / "t", 2)
    assert both_readers(spark, tmp_path / "t") == rows(frame.where("k <> 2"))


WIDENED = [
    ("by", "byte", ["short", "integer", "long"]),
    ("sh", "short", ["integer", "double"]),
    ("it", "integer", ["decimal(12,2)"]),
    ("lo", "long", ["decimal(23,3)"]),
    ("fl", "float", ["double"]),
    ("de", "decimal(5,2)", ["decimal(10,4)", "decimal(38,10)"]),
    ("dt", "date", ["timestamp_ntz"]),
]


@pytest.mark.local(reason="Spark writes the files, without a connector to the store")
def test_files_of_narrower_types_are_widened(spark: SparkSession, tmp_path: Path, strategy: str) -> None:
    old = spark.range(4).select(F.col("id").cast("int").alias("k"), *[_narrow(name, type) for name, type, _ in WIDENED])
    new = old.select("k", *[F.col(name).cast(_ddl(steps[-1])).alias(name) for name, _, steps in WIDENED])
    old.coalesce(1).write.parquet(str(tmp_path / "t"))
    adopt(tmp_path / "t", new.schema.json(), {name: [type, *steps] for name, type, steps in WIDENED})
    assert both_readers(spark, tmp_path / "t") == rows(new)
    table = DeltaTable.forPath(spark, str(tmp_path / "t")).alias("t")
    source = new.where("k = 1").withColumn("by", F.lit(2**40)).alias("s")
    table.merge(source, "t.k = s.k AND t.fl = s.fl").whenMatchedUpdateAll().execute()
    assert both_readers(spark, tmp_path / "t") == rows(new.where("k <> 1").union(source))


def _narrow(name: str, type: str) -> Any:
    value = F.date_add(F.lit(date(2020, 1, 1)), F.col("id").cast("int")) if type == "date" else (F.col("id") / 10)
    value = value if type in ("date", "float") or type.startswith("decimal") else F.col("id")
    return F.when(F.col("id") < 3, value.cast(_ddl(type))).alias(name)


def _ddl(type: str) -> str:
    return {"integer": "int"}.get(type, type)


def test_void_columns_stay_out_of_files_and_come_back_null(spark: SparkSession, tmp_path: Path, strategy: str) -> None:
    frame = spark.range(3).select(
        F.col("id").cast("int").alias("k"),
        F.lit(None).alias("v"),
        F.struct(F.lit(None).alias("w"), F.col("id").alias("x")).alias("s"),
    )
    deltamerge.write(frame.coalesce(1), str(tmp_path / "t"))
    stored = [pq.read_schema(pa.BufferReader(file.read_bytes())) for file in (tmp_path / "t").glob("*.parquet")]
    assert all(schema.names == ["k", "s"] and schema.field("s").type.num_fields == 1 for schema in stored)
    assert both_readers(spark, tmp_path / "t") == rows(frame)
    delete_one(spark, tmp_path / "t", 0)
    assert both_readers(spark, tmp_path / "t") == rows(frame.where("k > 0"))


@pytest.mark.parametrize(
    ("column", "named"),
    [
        ("array(null)", "array<void>"),
        ("map('a', null)", "map<string,void>"),
        ("map()", "map<void,void>"),
        ("struct(null as n)", "struct<n:void>"),
        ("interval '1' year", "interval year"),
        ("interval '1' day", "interval day"),
    ],
)
def test_types_that_no_file_can_hold_are_refused_by_name(spark: SparkSession, tmp_path: Path, column: str, named: str) -> None:
    with pytest.raises(PySparkException, match=named) as caught:
        deltamerge.write(spark.range(1).select("id", F.expr(column).alias("c")), str(tmp_path / "t"))
    assert caught.value.getCondition() == "DELTA_UNSUPPORTED_DATA_TYPES"
    assert not (tmp_path / "t").exists()


@pytest.mark.local(reason="Spark writes the files, without a connector to the store")
def test_two_level_lists_and_missing_columns(spark: SparkSession, tmp_path: Path) -> None:
    moment = datetime(2020, 1, 1, tzinfo=UTC)
    table = pa.table({"k": pa.array([1], pa.int32()), "l": [[1, 2]], "ts": pa.array([moment], pa.timestamp("ms", "UTC"))})
    (tmp_path / "t").mkdir()
    pq.write_table(table, tmp_path / "t" / "a.parquet", use_compliant_nested_type=False)
    pq.write_table(table.select(["k"]), tmp_path / "t" / "b.parquet")
    schema = spark.createDataFrame([], "k int, l array<long>, ts timestamp, gone struct<x: int>").schema
    adopt(tmp_path / "t", schema.json())
    assert both_readers(spark, tmp_path / "t") == Counter(
        {
            f"Row(k=1, l=[1, 2], ts={moment.replace(tzinfo=None)!r}, gone=None)": 1,
            "Row(k=1, l=None, ts=None, gone=None)": 1,
        }
    )


INTERVALS = {
    "of months": ("INTERVAL '1-2' YEAR TO MONTH", "s.i"),
    "of the calendar": ("make_interval(1, 2, 0, 0)", "s.i"),
    "of days": ("INTERVAL '425' DAY", "s.i"),
    "of days and times": ("INTERVAL '425 00:00:00' DAY TO SECOND", "s.i"),
    "nested": ("named_struct('in', map('k', array(INTERVAL '14' MONTH)))", "s.i.in['k'][0]"),
}


@pytest.mark.parametrize("name", list(INTERVALS))
def test_intervals_of_the_source_are_added_to_dates(spark: SparkSession, tmp_path: Path, name: str) -> None:
    given, interval = INTERVALS[name]
    table = make(spark, tmp_path / "t", "id int, d date", [(1, date(2020, 1, 1)), (2, date(2020, 1, 31))])
    changes = spark.sql(f"SELECT id, {given} AS i, timestamp'2020-01-01' AS at FROM VALUES (2), (3) AS v(id)").alias("s")
    merge = table.merge(changes, "t.id = s.id").whenMatchedUpdate("s.at > t.d - 99", {"d": f"CAST(t.d + {interval} AS DATE)"})
    report = merge.whenNotMatchedInsert(values={"id": "s.id", "d": f"CAST(DATE'2020-01-31' + {interval} AS DATE)"}).run()
    assert (report.updated, report.inserted) == (1, 1)
    day = date(2021, 3, 31)
    assert content(spark, tmp_path / "t") == [(1, date(2020, 1, 1)), (2, day), (3, day)]
