"""Merges that add columns and fields, or widen types, on every kind of session; `tests/oracle` compares with delta-spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.exceptions import MetadataChangedException, catchable
from deltamerge.log.commit.proposal import Author
from deltamerge.log.replay.table import open_log
from deltamerge.merge import line
from deltamerge.merge.commit import commit_merge
from deltamerge.tables import DeltaMergeBuilder, DeltaTable
from tests.e2e.commits import put_commit
from tests.e2e.tables import content, make, source, version
from tests.e2e.vectors import actions_of, ask_for_vectors

ROWS = [(1, "a"), (2, "b"), (3, "c"), (4, "d")]
AUTO_MERGE = "spark.databricks.delta.schema.autoMerge.enabled"


def upsert(table: DeltaTable, frame: Any) -> DeltaMergeBuilder:
    return table.merge(frame, "t.id = s.id").withSchemaEvolution().whenMatchedUpdateAll().whenNotMatchedInsertAll()


def fields(path: Path) -> dict[str, str]:
    return {field.name: str(field.type) for field in open_log(str(path)).snapshot().schema}


@pytest.mark.usefixtures("strategy")
@pytest.mark.parametrize("vectors", [False, True], ids=["rewritten", "marked"])
def test_a_new_column_is_null_in_all_other_rows(spark: SparkSession, tmp_path: Path, vectors: bool) -> None:
    path = tmp_path / "t"
    table = make(spark, path, "id int, name string", ROWS, files=2, vectors=vectors)
    frame = source(spark, "n array<struct<v: int>>, id int", [([(7,), None], 1), (None, 3), ([], 9)])
    upsert(table, frame).execute()
    assert fields(path) == {"id": "integer", "name": "string", "n": "array<struct<v:integer>>"}
    assert content(spark, path) == [
        (1, "a", [(7,), None]),
        (2, "b", None),
        (3, "c", None),
        (4, "d", None),
        (9, None, []),
    ]
    (metadata,) = actions_of(path, version(path), "metaData")
    assert [field["nullable"] for field in json.loads(metadata["schemaString"])["fields"]] == [True] * 3
    upsert(DeltaTable.forPath(spark, str(path)).alias("t"), frame).execute()
    assert actions_of(path, version(path), "metaData") == []


@pytest.mark.usefixtures("strategy")
def test_partly_updated_rows_keep_what_is_not_assigned(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = make(spark, path, "id int, name string", ROWS)
    frame = source(spark, "id int, x int, y int", [(1, 10, 20), (2, 10, 20), (8, 10, 20)])
    merge = table.merge(frame, "t.id = s.id").withSchemaEvolution().whenMatchedUpdate("t.name = 'a'", {"X": "s.x + t.id"})
    merge.whenMatchedDelete().whenNotMatchedBySourceUpdate(set={"name": "upper(t.name)"}).execute()
    assert content(spark, path) == [(1, "a", 11), (3, "C", None), (4, "D", None)]


@pytest.mark.usefixtures("strategy")
def test_structs_keep_the_fields_that_the_source_lacks(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    schema = "id int, st struct<a: int, n: struct<p: int, q: int>>"
    table = make(spark, path, schema, [(1, (1, (2, 3))), (2, None), (3, (1, (2, 3))), (4, (9, None))])
    frame = source(spark, "id int, st struct<n: struct<r: int, p: int>>", [(1, ((5, 6),)), (2, None), (3, None), (5, ((7, 8),))])
    upsert(table, frame).execute()
    assert content(spark, path) == [
        (1, (1, (6, 3, 5))),
        (2, None),
        (3, (1, (None, 3, None))),
        (4, (9, None)),
        (5, (None, (8, None, 7))),
    ]


@pytest.mark.usefixtures("strategy")
@pytest.mark.parametrize("vectors", [False, True], ids=["rewritten", "marked"])
def test_types_widen_of_columns_and_partitions(spark: SparkSession, tmp_path: Path, vectors: bool) -> None:
    path = tmp_path / "t"
    properties = {"delta.enableTypeWidening": "true", "delta.enableDeletionVectors": str(vectors).lower()}
    frame = spark.createDataFrame([(1, 1, 10, 0.5), (2, 1, 20, None), (3, 2, 30, 1.5)], "id int, p short, n short, f float")
    deltamerge.write(frame.coalesce(1), str(path), partition_by="p", properties=properties)
    frame = source(spark, "id int, p int, n int", [(1, 70000, 80000), (9, 1, -1)])
    upsert(DeltaTable.forPath(spark, str(path)).alias("t"), frame).execute()
    assert fields(path) == {"id": "integer", "p": "integer", "n": "integer", "f": "float"}
    assert content(spark, path) == [(1, 70000, 80000, 0.5), (2, 1, 20, None), (3, 2, 30, 1.5), (9, 1, -1, None)]


@pytest.mark.usefixtures("strategy")
@pytest.mark.parametrize("mode", ["name", "id"])
def test_new_columns_of_a_mapped_table_have_names_and_ids_of_their_own(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    path = tmp_path / "t"
    frame = spark.createDataFrame([(1, (1,)), (2, None)], "id int, st struct<a: int>").coalesce(1)
    deltamerge.write(frame, str(path), properties={"delta.columnMapping.mode": mode})
    changes = source(spark, "id int, st struct<`b c`: int>, `new one` string", [(1, (5,), "x"), (3, (6,), "y")])
    upsert(DeltaTable.forPath(spark, str(path)).alias("t"), changes).execute()
    assert content(spark, path) == [(1, (1, 5), "x"), (2, None, None), (3, (None, 6), "y")]
    (metadata,) = actions_of(path, version(path), "metaData")
    assert metadata["configuration"]["delta.columnMapping.maxColumnId"] == "5"


def test_the_sessions_setting_and_sql_turn_it_on(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = make(spark, path, "id int, name string", ROWS[:1])
    clauses = "USING (SELECT 1 AS id, 2 AS {0}) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET {0} = s.{0}"
    statement = f"MERGE {{1}}INTO delta.`{path}` t {clauses}"
    with pytest.raises(AnalysisException, match="DELTA_MERGE_UNRESOLVED_EXPRESSION"):
        deltamerge.sql(spark, statement.format("x", ""))
    deltamerge.sql(spark, statement.format("x", "WITH SCHEMA EVOLUTION "))
    spark.conf.set(AUTO_MERGE, "true")
    try:
        deltamerge.sql(spark, statement.format("y", ""))
        with pytest.raises(AnalysisException, match=r"UNRESOLVED_COLUMN\.WITH_SUGGESTION"):
            table.update(set={"z": "1"})
    finally:
        spark.conf.unset(AUTO_MERGE)
    assert content(spark, path) == [(1, "a", 2, 2)]


def test_evolution_alone_is_a_commit_nothing_is_none(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = make(spark, path, "id int, name string", ROWS[:1])
    frame = source(spark, "id int, x int", [(9, 9)])
    report = table.merge(frame, "t.id = s.id").withSchemaEvolution().whenMatchedUpdateAll().run()
    assert (report.version, content(spark, path)) == (1, [(1, "a", None)])
    assert actions_of(path, 1, "add") == actions_of(path, 1, "remove") == []
    table = DeltaTable.forPath(spark, str(path)).alias("t")
    assert table.merge(frame, "t.id = s.id").withSchemaEvolution().whenMatchedUpdateAll().run().version is None
    table.merge(frame, "t.id = s.id").withSchemaEvolution().whenMatchedDelete().run()
    assert version(path) == 1


@pytest.mark.parametrize(
    ("columns", "condition"),
    [
        ("true AS name", None),
        ("true AS n", "DELTA_FAILED_TO_MERGE_FIELDS"),
        ("NULL AS x", "DELTA_MERGE_ADD_VOID_COLUMN"),
        ("1 AS `x y`", "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES"),
        ("TIMESTAMP_NTZ'2020-01-01 00:00:00' AS x", "DELTA_FEATURES_REQUIRE_MANUAL_ENABLEMENT"),
        ("INTERVAL '1' DAY AS x", "DELTA_UNSUPPORTED_DATA_TYPES"),
        ("1 AS __deltamerge_x", "DELTAMERGE_RESERVED_COLUMN_NAME"),
    ],
    ids=["text", "boolean", "void", "name", "feature", "type", "reserved"],
)
def test_what_can_not_be_added_leaves_the_table_as_it_was(
    spark: SparkSession, tmp_path: Path, columns: str, condition: str | None
) -> None:
    path = tmp_path / "t"
    table = make(spark, path, "id int, name string, n int", [(1, "a", 1)])
    merge = upsert(table, spark.sql(f"SELECT 1 AS id, {columns}").alias("s"))
    if condition is None:
        merge.execute()
        assert content(spark, path) == [(1, "true", 1)]
        return
    with pytest.raises(Exception, match=condition):
        merge.execute()
    assert version(path) == 0


def test_a_table_without_columns_takes_the_sources(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(spark, path, "id int", [])
    ask_for_vectors(path)
    first = path / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in first.read_text().splitlines()]
    actions = [action for action in actions if "add" not in action]
    for action in actions:
        if "metaData" in action:
            action["metaData"]["schemaString"] = '{"type":"struct","fields":[]}'
    put_commit(first, "\n".join(map(json.dumps, actions)) + "\n")
    table = DeltaTable.forPath(spark, str(path)).alias("t")
    merge = table.merge(source(spark, "id int, x string", [(1, "a")]), "false").whenNotMatchedInsertAll()
    with pytest.raises(AnalysisException, match="DELTA_MERGE_INTO_EMPTY_SCHEMA_TARGET"):
        merge.execute()
    merge.withSchemaEvolution().execute()
    assert content(spark, path) == [(1, "a")]


def test_two_evolutions_at_a_time_conflict(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = make(spark, path, "id int, name string", ROWS[:2])
    late = upsert(table, source(spark, "id int, x int", [(1, 1)]))
    done = line.merge(spark, open_log(str(path)), late._spec, lambda outcome, timing: (outcome, timing))
    assert done is not None
    upsert(table, source(spark, "id int, y int", [(2, 2)])).execute()
    with pytest.raises(MetadataChangedException, match="DELTA_METADATA_CHANGED"):
        catchable(commit_merge)(*done, Author("test"))
    assert content(spark, path) == [(1, "a", None), (2, "b", 2)]


def test_an_object_made_before_a_column_came_or_went_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = make(spark, path, "id int, st struct<a: int>", [(1, (1,))])
    nested = source(spark, "id int, st struct<b: int>", [(1, (2,))])
    upsert(table, nested).execute()
    upsert(table, source(spark, "id int, x int", [(1, 3)])).execute()
    for merge in (upsert(table, nested), table.merge(nested, "t.id = s.id").whenMatchedDelete()):
        with pytest.raises(AnalysisException, match=r"DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS(.|\n)*additional field\(s\): x"):
            merge.execute()
    table.update(set={"x": "x + 1"})
    assert content(spark, path) == [(1, (1, 2), 4)]


def test_evolution_adds_no_column_that_the_feed_needs(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = make(spark, path, "id int, name string", ROWS[:2])
    first = path / "_delta_log" / f"{0:020d}.json"
    lines = [json.loads(line) for line in first.read_text().splitlines()]
    for action in lines:
        if "metaData" in action:
            action["metaData"]["configuration"]["delta.enableChangeDataFeed"] = "true"
        if "protocol" in action:
            action["protocol"] = {"minReaderVersion": 1, "minWriterVersion": 4}
    put_commit(first, "\n".join(map(json.dumps, lines)) + "\n")
    table = DeltaTable.forPath(spark, str(path)).alias("t")
    with pytest.raises(AnalysisException, match="_change_type"):
        upsert(table, source(spark, "id int, _change_type string", [(1, "x")])).execute()
    upsert(table, source(spark, "id int, kind string", [(1, "x")])).execute()
    assert content(spark, path)[0] == (1, "a", "x")
