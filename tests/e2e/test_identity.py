"""Tables with identity columns, on every kind of session; `tests/oracle` compares with delta-spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, ArithmeticException
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.exceptions import MetadataChangedException, catchable
from deltamerge.log.commit.proposal import Author
from deltamerge.log.replay.table import open_log
from deltamerge.merge import line
from deltamerge.merge.commit import commit_merge
from deltamerge.tables import DeltaMergeBuilder, DeltaTable
from tests.e2e.tables import content, source, version
from tests.e2e.vectors import actions_of

INSERT = {"k": "s.k", "v": "s.v"}


def make(path: Path, explicit: bool = False, vectors: bool = False, start: int = 10, **properties: str) -> None:
    """An empty table: id GENERATED AS IDENTITY (START WITH `start` INCREMENT BY 3), k, v."""
    keys = {"start": start, "step": 3, "allowExplicitInsert": explicit}
    fields = [
        {"name": "id", "type": "long", "nullable": True, "metadata": {f"delta.identity.{k}": v for k, v in keys.items()}},
        {"name": "k", "type": "integer", "nullable": True, "metadata": {}},
        {"name": "v", "type": "string", "nullable": True, "metadata": {}},
    ]
    metadata = {
        "id": "0",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": {"delta.enableDeletionVectors": str(vectors).lower(), **properties},
    }
    features = ["identityColumns", "deletionVectors", "checkConstraints"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features[1:2], "writerFeatures": features}
    log = path / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020d}.json").write_text("\n".join(map(json.dumps, [{"protocol": protocol}, {"metaData": metadata}])) + "\n")


def mark(path: Path) -> Any:
    return open_log(str(path)).snapshot().schema.fields[0].metadata.get("delta.identity.highWaterMark")


def merge(spark: SparkSession, path: Path, frame: Any) -> DeltaMergeBuilder:
    return DeltaTable.forPath(spark, str(path)).alias("t").merge(frame, "t.k = s.k")


@pytest.mark.usefixtures("strategy")
@pytest.mark.parametrize("vectors", [False, True], ids=["rewritten", "marked"])
def test_inserted_rows_get_the_next_numbers(spark: SparkSession, tmp_path: Path, vectors: bool) -> None:
    path = tmp_path / "t"
    make(path, vectors=vectors)
    frame = source(spark, "k int, v string", [(1, "a"), (2, "b")])
    merge(spark, path, frame).whenNotMatchedInsert(values=INSERT).execute()
    assert ([row[0] for row in content(spark, path)], mark(path)) == ([10, 13], 13)
    changes = source(spark, "k int, v string", [(1, "x"), (3, "c"), (4, "d"), (5, "e")])
    builder = merge(spark, path, changes).whenMatchedUpdate(set={"v": "s.v"})
    builder = builder.whenNotMatchedInsert("s.k = 5", {"k": "s.k"}).whenNotMatchedInsert(values=INSERT)
    builder.whenNotMatchedBySourceDelete().execute()
    rows = {row[1]: (row[0], row[2]) for row in content(spark, path)}
    assert sorted(rows[k][0] for k in (3, 4, 5)) == [16, 19, 22]
    assert [rows[k][1] for k in (1, 3, 4, 5)] == ["x", "c", "d", None]
    assert mark(path) == 22
    assert len(actions_of(path, version(path), "metaData")) == 1
    merge(spark, path, changes).whenMatchedUpdate(set={"v": "'y'"}).whenNotMatchedInsert(values=INSERT).execute()
    assert actions_of(path, version(path), "metaData") == []


def test_many_inserting_tasks_share_no_number(spark: SparkSession, tmp_path: Path, limit: Callable[..., None]) -> None:
    path = tmp_path / "t"
    make(path)
    limit(insert_task_bytes=2_000)
    spark.conf.set("spark.deltamerge.strategy", "join")
    frame = spark.range(1_000).selectExpr("CAST(id AS INT) AS k", "CAST(id AS STRING) AS v").alias("s")
    merge(spark, path, frame).whenNotMatchedInsert(values=INSERT).execute()
    spark.conf.unset("spark.deltamerge.strategy")
    numbers = [row[0] for row in content(spark, path)]
    assert len(actions_of(path, 1, "add")) > 1
    assert len(set(numbers)) == len(numbers) == 1_000
    assert {(number - 10) % 3 for number in numbers} == {0}
    assert (min(numbers) >= 10, max(numbers)) == (True, mark(path))


def test_appended_rows_get_numbers_beyond_the_mark(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(path)
    frame = spark.createDataFrame([(k,) for k in range(6)], "k int").repartition(3)
    seen: set[int] = set()
    for mode in ("append", "append", "overwrite"):
        deltamerge.write(frame, str(path), mode=mode)
        numbers = {row[0] for row in content(spark, path)} - (seen if mode == "append" else set())
        assert (len(numbers), {(number - 10) % 3 for number in numbers}, mark(path)) == (6, {0}, max(numbers))
        assert min(numbers) > max(seen, default=9)
        seen |= numbers


@pytest.mark.classic
def test_few_appended_rows_get_numbers_without_gaps(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(path)
    deltamerge.write(spark.range(0, 6, 1, 3).selectExpr("CAST(id AS INT) AS k"), str(path), mode="append")
    assert (sorted(row[0] for row in content(spark, path)), mark(path)) == ([10, 13, 16, 19, 22, 25], 25)


@pytest.mark.usefixtures("strategy")
def test_by_default_takes_values_and_goes_on_behind_them(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(path, explicit=True)
    given = source(spark, "id long, k int, v string", [(200, 1, "a"), (201, 2, "b")])
    merge(spark, path, given).whenNotMatchedInsertAll().execute()
    assert (content(spark, path), mark(path)) == ([(200, 1, "a"), (201, 2, "b")], None)
    frame = source(spark, "id long, k int, v string", [(300, 3, "c"), (301, 4, "d")])
    builder = merge(spark, path, frame).whenNotMatchedInsert("s.k = 3", {"id": "s.id", "k": "s.k"})
    builder.whenNotMatchedInsert(values=INSERT).execute()
    rows = {row[1]: row[0] for row in content(spark, path)}
    assert (rows[3], rows[4], mark(path)) == (300, 10, 301)
    deltamerge.write(spark.sql("SELECT 5 AS k"), str(path), mode="append")
    assert {row[1]: row[0] for row in content(spark, path)}[5] == 304


@pytest.mark.parametrize(
    ("clauses", "condition"),
    [
        ("WHEN NOT MATCHED THEN INSERT *", "DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED"),
        ("WHEN NOT MATCHED THEN INSERT (ID, k) VALUES (NULL, 1)", "DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED"),
        ("WHEN MATCHED THEN UPDATE SET *", "DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED"),
        ("WHEN MATCHED THEN UPDATE SET id = t.id", "DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED"),
        ("WHEN NOT MATCHED BY SOURCE THEN UPDATE SET id = 1", "DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED"),
    ],
)
def test_values_are_refused(spark: SparkSession, tmp_path: Path, clauses: str, condition: str) -> None:
    path = tmp_path / "t"
    make(path)
    with pytest.raises(AnalysisException, match=condition):
        deltamerge.sql(spark, f"MERGE INTO delta.`{path}` t USING (SELECT 1L AS id, 1 AS k, 'a' AS v) s ON t.k = s.k {clauses}")
    with pytest.raises(AnalysisException, match="DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED"):
        DeltaTable.forPath(spark, str(path)).update(set={"id": "1"})
    with pytest.raises(AnalysisException, match="DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED"):
        deltamerge.write(spark.sql("SELECT 1L AS Id, 1 AS k"), str(path), mode="append")
    assert version(path) == 0


def test_constraints_see_the_numbers(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(path, **{"delta.constraints.low": "id < 14"})
    frame = source(spark, "k int, v string", [(1, "a"), (2, "b")])
    merge(spark, path, frame).whenNotMatchedInsert(values=INSERT).execute()
    for write in (
        lambda: merge(spark, path, source(spark, "k int, v string", [(3, "")])).whenNotMatchedInsert(values=INSERT).execute(),
        lambda: deltamerge.write(spark.sql("SELECT 3 AS k"), str(path), mode="append"),
    ):
        with pytest.raises(Exception, match=r"DELTA_VIOLATE_CONSTRAINT_WITH_VALUES[^$]*id : 16"):
            write()
    assert mark(path) == 13


@pytest.mark.usefixtures("strategy")
def test_a_column_without_numbers_left_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(path, start=(1 << 63) - 3)
    one, two = (source(spark, "k int, v string", [(k, "") for k in range(count)]) for count in (1, 2))
    with pytest.raises(ArithmeticException, match="ARITHMETIC_OVERFLOW"):
        merge(spark, path, two).whenNotMatchedInsert(values=INSERT).execute()
    merge(spark, path, one).whenNotMatchedInsert(values=INSERT).execute()
    assert content(spark, path) == [((1 << 63) - 3, 0, "")]


def test_two_merges_never_give_the_same_number(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(path)
    late = merge(spark, path, source(spark, "k int, v string", [(1, "a")])).whenNotMatchedInsert(values=INSERT)
    done = line.merge(spark, open_log(str(path)), late._spec, lambda outcome, timing: (outcome, timing))
    assert done is not None
    deltamerge.write(spark.sql("SELECT 2 AS k"), str(path), mode="append")
    with pytest.raises(MetadataChangedException, match="DELTA_METADATA_CHANGED"):
        catchable(commit_merge)(*done, Author("test"))
    late.execute()
    assert sorted(row[0] for row in content(spark, path)) == [10, 13]


def test_a_column_goes_on_behind_given_values_when_it_is_synced(spark: SparkSession, tmp_path: Path) -> None:
    name = f"delta.`{tmp_path / 't'}`"
    columns = "id BIGINT GENERATED BY DEFAULT AS IDENTITY (START WITH 5 INCREMENT BY -5), n INT"
    deltamerge.sql(spark, f"CREATE TABLE {name} ({columns}) USING delta")
    deltamerge.sql(spark, f"ALTER TABLE {name} ALTER COLUMN id SYNC IDENTITY")
    deltamerge.sql(spark, f"INSERT INTO {name} VALUES (-7, 1)")
    deltamerge.sql(spark, f"ALTER TABLE {name} ALTER COLUMN id SYNC IDENTITY")
    deltamerge.sql(spark, f"INSERT INTO {name} (n) VALUES (2)")
    assert content(spark, tmp_path / "t") == [(-15, 2), (-7, 1)]
    with pytest.raises(AnalysisException, match="DELTA_IDENTITY_COLUMNS_ALTER_NON_IDENTITY_COLUMN"):
        deltamerge.sql(spark, f"ALTER TABLE {name} ALTER COLUMN n SYNC IDENTITY")
