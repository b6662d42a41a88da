"""Operations to be raced: what wins, what comes second, and how one is put between the other's read and its commit.

The table of every race has the columns id, p, v, its rows in four files, two in each partition. The transaction that
comes second looks for row 1, and may insert row 5; the winner changes "here" that row, "beside" another row of its file, "near"
another file of the partition, "away" another partition.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

Row = tuple[int, int, int]
Rows = Counter[Row]
Change = Callable[[Rows], Rows]

BASE: Rows = Counter((start + n, start // 100, 0) for start in (0, 10, 100, 110) for n in range(5))
SOURCE = ((1, 0, 3), (5, 0, 3))
# In each place: a row, an id that no row has, the partition.
PLACES = {"here": (1, 5, 0), "beside": (2, 50, 0), "near": (11, 50, 0), "away": (101, 500, 1)}


def _add(*rows: Row) -> Change:
    return lambda before: before + Counter(rows)


def _replace(p: int | None, *rows: Row) -> Change:
    return lambda before: Counter(row for row in before.elements() if p not in (None, row[1])) + Counter(rows)


def _update(key: int, value: int) -> Change:
    return lambda before: Counter((i, p, v + value if i == key else v) for i, p, v in before.elements())


def _delete(key: int) -> Change:
    return lambda before: Counter(row for row in before.elements() if row[0] != key)


def _insert(row: Row) -> Change:
    return lambda before: before if any(found[0] == row[0] for found in before) else before + Counter([row])


def _upsert(key: int, row: Row) -> Change:
    """Update `key`, insert `row` or update its like."""

    def change(before: Rows) -> Rows:
        exists = any(found[0] == row[0] for found in before)
        return _update(row[0], row[2])(_update(key, row[2])(before)) if exists else _update(key, row[2])(before + Counter([row]))

    return change


def _unchanged(before: Rows) -> Rows:
    return before


@dataclass(frozen=True)
class Winner:
    """What commits in between: delta-spark's SQL, `TABLE_` standing for the table, and what that does to the rows."""

    sql: str
    change: Change = _unchanged


def _winners() -> dict[str, Winner]:
    found = {}
    update, insert = "WHEN MATCHED THEN UPDATE SET v = t.v + s.v ", "WHEN NOT MATCHED THEN INSERT *"
    for place, (key, new, p) in PLACES.items():
        row, old, made = f"({new}L, {p}L, 7L)", (key, p, 7), (new, p, 7)
        merge = f"MERGE INTO TABLE_ t USING (VALUES ({key}L, {p}L, 7L), {row} AS x(id, p, v)) s ON t.id = s.id AND t.p = {p} "
        found[f"delete {place}"] = Winner(f"DELETE FROM TABLE_ WHERE p = {p} AND id = {key}", _delete(key))
        if place != "beside":
            found[f"append {place}"] = Winner(f"INSERT INTO TABLE_ VALUES ({key}L, {p}L, 7L), {row}", _add(old, made))
        if place != "near":
            found[f"merge {place}"] = Winner(merge + update + insert, _upsert(key, made))
            found[f"update {place}"] = Winner(f"UPDATE TABLE_ SET v = v + 7 WHERE p = {p} AND id = {key}", _update(key, 7))
        if place in ("here", "away"):
            found |= {
                f"merge insert {place}": Winner(merge + insert, _insert(made)),
                f"replace {place}": Winner(f"INSERT INTO TABLE_ REPLACE WHERE p = {p} VALUES {row}", _replace(p, made)),
                f"optimize {place}": Winner(f"OPTIMIZE TABLE_ WHERE p = {p}"),
            }
    feature = "ALTER TABLE TABLE_ SET TBLPROPERTIES ('delta.feature.{}' = 'supported')"
    return found | {
        "overwrite": Winner("INSERT OVERWRITE TABLE_ SELECT 5L, 0L, 7L", _replace(None, (5, 0, 7))),
        "property": Winner("ALTER TABLE TABLE_ SET TBLPROPERTIES ('delta.logRetentionDuration' = 'interval 9 days')"),
        "column": Winner("ALTER TABLE TABLE_ ADD COLUMNS (w BIGINT)"),
        "harmless feature": Winner(feature.format("vacuumProtocolCheck")),
        "constraint feature": Winner(feature.format("checkConstraints")),
        "row id feature": Winner(feature.format("rowTracking")),
        "row tracking": Winner("ALTER TABLE TABLE_ SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')"),
    }


WINNERS = _winners()


@dataclass(frozen=True)
class Engine:
    """A table as one of the engines has it, and how that engine writes a frame into it."""

    table: Any
    write: Callable[[DataFrame, str], Any]

    def merge(self, source: DataFrame, condition: str = "t.id = s.id AND t.p = 0") -> Any:
        """A merge builder of the source."""
        return self.table.alias("t").merge(source.alias("s"), condition)


@dataclass(frozen=True)
class Second:
    """What begins first and commits last; `run` gets the source's rows, and text to add to a search condition."""

    run: Callable[[Engine, DataFrame, str], Any]
    change: Change


_SET = {"v": "t.v + s.v"}

SECONDS = {
    "append": Second(lambda t, s, _: t.write(s, "append"), _add(*SOURCE)),
    "overwrite": Second(lambda t, s, _: t.write(s, "overwrite"), _replace(None, *SOURCE)),
    "delete": Second(lambda t, _, more: t.table.delete(f"p = 0 AND id = 1{more}"), _delete(1)),
    "update": Second(lambda t, _, more: t.table.update(f"p = 0 AND id = 1{more}", {"v": "v + 3"}), _update(1, 3)),
    "merge": Second(
        lambda t, s, _: t.merge(s).whenMatchedUpdate(set=_SET).whenNotMatchedInsertAll().execute(), _upsert(1, (5, 0, 3))
    ),
    "merge by key": Second(
        lambda t, s, _: t.merge(s, "t.id = s.id").whenMatchedUpdate(set=_SET).whenNotMatchedInsertAll().execute(),
        _upsert(1, (5, 0, 3)),
    ),
    "merge insert": Second(lambda t, s, _: t.merge(s).whenNotMatchedInsertAll().execute(), _insert((5, 0, 3))),
    "merge delete": Second(
        lambda t, s, _: t.merge(s).whenMatchedDelete().execute(), lambda before: _delete(1)(_delete(5)(before))
    ),
}


def make_base(spark: SparkSession, path: Path) -> None:
    """The table before the race, in one commit for each file of a partition."""
    for first in (0, 10):
        rows = (
            spark.range(first, first + 5)
            .union(spark.range(first + 100, first + 105))
            .selectExpr("id", "id div 100 AS p", "0L AS v")
        )
        writer = rows.coalesce(1).write.format("delta").mode("append").partitionBy("p")
        writer.option("delta.enableDeletionVectors", "true").save(str(path))


def copy_at(table: Path, target: Path, level: str) -> None:
    """A copy of a table as if it had been made with an isolation level.

    Set so, as delta-spark obeys WriteSerializable where a table says so, but lets nobody say it.
    """
    shutil.copytree(table, target, copy_function=os.link, ignore=shutil.ignore_patterns("*.crc"))
    for log in (target / "_delta_log").glob("*.json"):
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        for action in actions:
            if "metaData" in action:
                action["metaData"]["configuration"]["delta.isolationLevel"] = level
        log.unlink()
        log.write_text("".join(json.dumps(action) + "\n" for action in actions))


def injector(made: Path, table: Path) -> Callable[[], None]:
    """A function that puts what `made` has, data files before commits, into `table`; workers get it by value."""
    names = sorted(
        (str(f.relative_to(made)) for f in made.rglob("*") if f.is_file()), key=lambda name: ("_delta_log" in name, name)
    )
    pairs = [(str(made / name), str(table / name)) for name in names if not (table / name).exists()]

    def inject() -> None:
        for source, target in pairs:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            if not os.path.exists(target):
                os.link(source, target)

    return inject


CONFLICTS: Mapping[str, str] = {
    "ConcurrentAppendException": "append",
    "ConcurrentDeleteReadException": "read",
    "ConcurrentDeleteDeleteException": "delete",
    "MetadataChangedException": "metadata",
    "ProtocolChangedException": "protocol",
}


def outcome(run: Callable[[], Any]) -> str:
    """The name of the conflict that a transaction ended with, shortened; "ok" when it was committed."""
    try:
        run()
    except Exception as error:
        name = type(error).__name__
        if name not in CONFLICTS:
            raise
        return CONFLICTS[name]
    return "ok"
