"""The column `_metadata`, read by delta-spark and by deltamerge: the same fields, types, values and errors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

import deltamerge
from tests.e2e.hidden_columns import ASKS, REFUSED_ASKS, REFUSED_TEXTS, TEXTS, TRACKED_ASKS, TRACKED_TEXTS, in_order
from tests.effort import ALL

TRACKING, VECTORS = "'delta.enableRowTracking' = 'true'", "'delta.enableDeletionVectors' = 'true'"
# What is said of a new table behind its columns, and whether its rows are tracked.
TABLES = {
    "plain": ("", False),
    "tracked": (f"TBLPROPERTIES ({TRACKING})", True),
    "vectors": (f"TBLPROPERTIES ({VECTORS})", False),
    "tracked with vectors": (f"TBLPROPERTIES ({TRACKING}, {VECTORS})", True),
    "odd é {x} %": (f"PARTITIONED BY (p) TBLPROPERTIES ({TRACKING})", True),
    "mapped": (f"PARTITIONED BY (p) TBLPROPERTIES ({TRACKING}, 'delta.columnMapping.mode' = 'name')", True),
    "by id": (f"TBLPROPERTIES ({TRACKING}, {VECTORS}, 'delta.columnMapping.mode' = 'id')", True),
    "feature": ("TBLPROPERTIES ('delta.feature.rowTracking' = 'supported')", False),
    "suspended": ("TBLPROPERTIES ('delta.feature.rowTracking' = 'supported', 'delta.rowTrackingSuspended' = 'true')", False),
}
TRACKED = [name for name, (_, is_tracked) in TABLES.items() if is_tracked]
SHARE = 1 if ALL else 4


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Ten rows in two appends, some of which were changed, moved or deleted."""
    root, found = tmp_path_factory.mktemp("tables"), {}
    for name, (said, _) in TABLES.items():
        path = f"delta.`{root / name}`"
        spark.sql(f"CREATE TABLE {path} (id BIGINT, name STRING, p STRING) USING delta {said}")
        for start in (0, 5):
            rows = "id, concat('row ', id), if(id % 2 = 0, 'a b', 'é%/x')"
            spark.sql(f"INSERT INTO {path} SELECT /*+ COALESCE(1) */ {rows} FROM range({start}, {start + 5})")
        spark.sql(f"UPDATE {path} SET name = 'new' WHERE id IN (1, 7)")
        spark.sql(f"DELETE FROM {path} WHERE id = 3")
        found[name] = root / name
    return found


def types_of(frame: DataFrame) -> str:
    """The names and types of a frame's columns, whatever may be null."""
    return T.StructType(frame.schema.fields).simpleString()


def outcome(ask: Any) -> Any:
    """The types and rows of a frame, or the condition of the error."""
    try:
        frame = ask()
        return types_of(frame), in_order(frame)
    except PySparkException as error:
        return error.getCondition()


def part(name: str, items: Sequence[Any]) -> Sequence[Any]:
    """What a table is asked: all, or a share that the table's place decides."""
    return items[list(TABLES).index(name) % SHARE :: SHARE]


def asked(path: Path, text: str) -> str:
    return text.format(t=f"delta.`{path}`", u=f"delta.`{path}`")


@pytest.mark.parametrize("name", TABLES)
def test_texts(spark: SparkSession, tables: dict[str, Path], name: str) -> None:
    fields = [f"SELECT _metadata.{field} FROM {{t}}" for field in ("row_id", "row_index")]
    for text in part(name, [*TEXTS, *REFUSED_TEXTS, *fields]):
        query = asked(tables[name], text)
        assert outcome(lambda query=query: deltamerge.sql(spark, query)) == outcome(lambda query=query: spark.sql(query)), text


@pytest.mark.parametrize("name", TRACKED)
def test_texts_about_tracked_rows(spark: SparkSession, tables: dict[str, Path], name: str) -> None:
    for text in part(name, TRACKED_TEXTS):
        query = asked(tables[name], text)
        theirs = outcome(lambda query=query: spark.sql(query))
        assert isinstance(theirs, tuple), text
        assert outcome(lambda query=query: deltamerge.sql(spark, query)) == theirs, text


@pytest.mark.parametrize("name", TABLES)
def test_frames(spark: SparkSession, tables: dict[str, Path], name: str) -> None:
    path = str(tables[name])
    for what, ask in part(name, [*ASKS.items(), *REFUSED_ASKS.items()]):
        theirs = outcome(lambda ask=ask: ask(spark.read.format("delta").load(path)))
        assert outcome(lambda ask=ask: ask(deltamerge.read(spark, path))) == theirs, what


@pytest.mark.parametrize("name", TRACKED)
def test_frames_of_tracked_rows(spark: SparkSession, tables: dict[str, Path], name: str) -> None:
    path = str(tables[name])
    for what, ask in part(name, [*TRACKED_ASKS.items()]):
        theirs = outcome(lambda ask=ask: ask(spark.read.format("delta").load(path)))
        assert isinstance(theirs, tuple), what
        assert outcome(lambda ask=ask: ask(deltamerge.read(spark, path))) == theirs, what


def test_a_copied_table_has_the_times_of_its_log(spark: SparkSession, tables: dict[str, Path], tmp_path: Path) -> None:
    for name in ("plain", "tracked with vectors"):
        (tmp_path / name).mkdir()
        for file in tables[name].rglob("*"):
            target = tmp_path / name / file.relative_to(tables[name])
            target.parent.mkdir(parents=True, exist_ok=True)
            if file.is_file():
                target.write_bytes(file.read_bytes())
        text = f"SELECT id, _metadata.file_modification_time FROM delta.`{tmp_path / name}`"
        assert outcome(lambda text=text: deltamerge.sql(spark, text)) == outcome(lambda text=text: spark.sql(text))


def test_a_column_of_this_name(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT, _metadata STRUCT<row_id: INT>) USING delta TBLPROPERTIES ({TRACKING})")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, struct(7)), (2, struct(8))")
    for text in ("SELECT _metadata, id", "SELECT _metadata.row_id", "SELECT _metadata.file_path", "SELECT *"):
        asked = f"{text} FROM delta.`{path}`"
        assert outcome(lambda asked=asked: deltamerge.sql(spark, asked)) == outcome(lambda asked=asked: spark.sql(asked)), text
    asks = [
        lambda d: d.select("_metadata.row_id", "id"),
        lambda d: d.select("__metadata.row_id", "id"),
        lambda d: d.select(d.metadataColumn("_metadata")["row_id"].alias("r"), "id"),
        lambda d: d.where("__metadata.row_id > 0"),
    ]
    for number, ask in enumerate(asks):
        theirs = outcome(lambda ask=ask: ask(spark.read.format("delta").load(str(path))))
        assert outcome(lambda ask=ask: ask(deltamerge.read(spark, str(path)))) == theirs, number


def test_rows_that_are_merged_by_it(spark: SparkSession, tables: dict[str, Path], tmp_path: Path) -> None:
    found = []
    for number, run in enumerate((spark.sql, lambda text: deltamerge.sql(spark, text))):
        target = f"delta.`{tmp_path / str(number)}`"
        spark.sql(f"CREATE TABLE {target} (id BIGINT, r BIGINT, f STRING) USING delta")
        source = f"SELECT id, _metadata.row_id AS r, _metadata.file_name AS f FROM delta.`{tables['tracked']}`"
        run(f"INSERT INTO {target} {source} WHERE _metadata.row_id < 5")
        clauses = "WHEN MATCHED THEN UPDATE SET f = 'same' WHEN NOT MATCHED THEN INSERT *"
        run(f"MERGE INTO {target} t USING ({source}) s ON t.r = s.r {clauses}")
        found.append(in_order(spark.sql(f"SELECT * FROM {target}")))
    assert found[1] == found[0]
