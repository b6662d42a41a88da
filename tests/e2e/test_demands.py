"""Tables with constraints, generated and default columns, on every kind of session; `tests/oracle` compares with delta-spark."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import deltamerge
from deltamerge.exceptions import DeltaInvariantViolationException
from deltamerge.tables import DeltaTable
from tests.e2e.commits import put_commit
from tests.e2e.refusals import refused
from tests.e2e.vectors import ask_for_vectors


@pytest.fixture
def path(spark: SparkSession, tmp_path: Path) -> str:
    """Rows (1, 5, 10), (2, 6, 12): n > 0, twice = 2 * n, and n is 7 by default."""
    found = tmp_path / "t"
    rows = spark.sql("SELECT * FROM VALUES (1, 5, 10), (2, 6, 12) AS v(id, n, twice)")
    deltamerge.write(rows, str(found))
    field = {"type": "integer", "nullable": True}
    fields = [
        {"name": "id", **field, "metadata": {}},
        {"name": "n", **field, "metadata": {"CURRENT_DEFAULT": "3 + 4"}},
        {"name": "twice", **field, "metadata": {"delta.generationExpression": "n * 2"}},
    ]
    metadata = {
        "id": "0",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": {"delta.constraints.positive": "n > 0"},
    }
    features = ["appendOnly", "invariants", "checkConstraints", "generatedColumns", "allowColumnDefaults"]
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": features}
    lines = [{"commitInfo": {"operation": "ALTER"}}, {"protocol": protocol}, {"metaData": metadata}]
    (found / "_delta_log" / f"{1:020d}.json").write_text("\n".join(map(json.dumps, lines)))
    return str(found)


def rows(spark: SparkSession, path: str) -> list[tuple[int, ...]]:
    return sorted(tuple(row) for row in deltamerge.read(spark, path).collect())


def merge(spark: SparkSession, path: str, source: str, clauses: str) -> None:
    deltamerge.sql(spark, f"MERGE INTO delta.`{path}` t USING (SELECT {source}) s ON t.id = s.id {clauses}")


@pytest.mark.usefixtures("strategy")
def test_generated_and_default_columns_fill_themselves(spark: SparkSession, path: str) -> None:
    merge(spark, path, "1 AS id, 8 AS n", "WHEN MATCHED THEN UPDATE SET n = s.n")
    merge(spark, path, "3 AS id, 9 AS n", "WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, s.n)")
    merge(spark, path, "4 AS id", "WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)")
    merge(spark, path, "2 AS id", "WHEN MATCHED THEN UPDATE SET n = DEFAULT")
    deltamerge.write(spark.sql("SELECT 5 AS id"), path, mode="append")
    assert rows(spark, path) == [(1, 8, 16), (2, 7, 14), (3, 9, 18), (4, 7, 14), (5, 7, 14)]


@pytest.mark.usefixtures("strategy")
@pytest.mark.parametrize(
    ("source", "clauses", "values"),
    [
        ("1 AS id, 0 AS n", "WHEN MATCHED THEN UPDATE SET n = s.n", "positive (n > 0) violated by row with values:\n - n : 0"),
        ("1 AS id", "WHEN MATCHED THEN UPDATE SET n = NULL", " - n : null"),
        ("9 AS id", "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET n = -t.n", " - n : -"),
        ("9 AS id, 1 AS n, 3 AS twice", "WHEN NOT MATCHED THEN INSERT *", "Generated Column"),
    ],
    ids=["updated", "null", "by source", "generated"],
)
def test_a_row_that_violates_is_shown(spark: SparkSession, path: str, source: str, clauses: str, values: str) -> None:
    with pytest.raises(DeltaInvariantViolationException) as caught:
        merge(spark, path, source, clauses)
    assert caught.value.condition == "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"
    assert values in str(caught.value)
    assert rows(spark, path) == [(1, 5, 10), (2, 6, 12)]


def test_deleted_rows_demand_nothing_and_updates_are_checked(spark: SparkSession, path: str) -> None:
    table = DeltaTable.forPath(spark, path)
    with pytest.raises(DeltaInvariantViolationException):
        table.update(set={"n": "n - 5"})
    table.update("id = 2", {"n": "n + 1"})
    table.delete("id = 1")
    assert rows(spark, path) == [(2, 7, 14)]
    with pytest.raises(DeltaInvariantViolationException):
        deltamerge.write(spark.sql("SELECT 5 AS id, -1 AS n"), path, mode="append")


def test_rows_that_a_join_leaves_out_need_not_fit(spark: SparkSession, path: str) -> None:
    merge(spark, path, "* FROM VALUES (1, -5), (3, 9) AS v(id, n)", "WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, s.n)")
    offered = spark.sql("SELECT * FROM VALUES (4, 3, 6), (5, -1, -2) AS v(id, n, twice)")
    wanted = spark.sql("SELECT 4 AS id")
    deltamerge.write(offered.join(wanted, "id", "left_semi"), path, mode="append")
    deltamerge.write(offered.join(wanted, "id").withColumn("id", offered["id"] + 2), path, mode="append")
    assert rows(spark, path) == [(1, 5, 10), (2, 6, 12), (3, 9, 18), (4, 3, 6), (6, 3, 6)]


@pytest.mark.local(reason="the table's log is edited in place")
def test_constraints_are_asked_in_their_order(spark: SparkSession, path: str) -> None:
    log = Path(path) / "_delta_log" / f"{1:020d}.json"
    guarded = '"delta.constraints.a": "n <> 0", "delta.constraints.b": "10 / n > 1"'
    log.write_text(log.read_text().replace('"delta.constraints.positive": "n > 0"', guarded))
    with pytest.raises(DeltaInvariantViolationException, match="constraint a "):
        deltamerge.write(spark.sql("SELECT 5 AS id, 0 AS n"), path, mode="append")
    with pytest.raises(DeltaInvariantViolationException, match="constraint a "):
        merge(spark, path, "1 AS id, 0 AS n", "WHEN MATCHED THEN UPDATE SET n = s.n")
    with pytest.raises(DeltaInvariantViolationException, match="constraint b "):
        deltamerge.write(spark.sql("SELECT 5 AS id, 10 AS n"), path, mode="append")


def test_explain_says_why_spark_joins(spark: SparkSession, path: str) -> None:
    source = spark.sql("SELECT 1 AS id, 8 AS n").alias("s")
    plan = DeltaTable.forPath(spark, path).alias("t").merge(source, "t.id = s.id").whenMatchedUpdate(set={"n": "s.n"}).explain()
    assert "constraints and generated columns" in plan


@pytest.mark.local(reason="the table's log is edited in place")
def test_a_constraint_about_a_column_that_is_gone_is_named_before_anything_runs(
    spark: SparkSession, path: str, untouchable: DataFrame
) -> None:
    log = Path(path) / "_delta_log" / f"{1:020d}.json"
    log.write_text(log.read_text().replace('"n > 0"', '"gone > 0"'))
    words = ("positive", "gone > 0")
    table = DeltaTable.forPath(spark, path).alias("t")
    merge = table.merge(untouchable, "t.id = s.id")
    with refused(Path(path), DeltaInvariantViolationException, "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", *words, hint="Drop"):
        merge.whenMatchedUpdate(set={"n": "s.n"}).execute()
    with refused(Path(path), DeltaInvariantViolationException, "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", *words):
        deltamerge.write(untouchable.select("id", "n"), path, mode="append")
    table.merge(spark.range(1).selectExpr("1 AS id").alias("s"), "t.id = s.id").whenMatchedDelete().execute()
    assert rows(spark, path) == [(2, 6, 12)]


@pytest.fixture
def full(spark: SparkSession, tmp_path: Path) -> str:
    """Rows 1 and 2 with arrays `a` and maps `m` that must not hold nulls."""
    return strict(spark, tmp_path / "t", "(1, array(1), map('k', 1)), (2, array(2), map())")


def strict(spark: SparkSession, folder: Path, values: str) -> str:
    """A table of rows (id, a, m) whose arrays and maps must not hold nulls from now on."""
    rows = spark.sql(f"SELECT id, a, CAST(m AS map<string,int>) AS m FROM VALUES {values} v(id, a, m)")
    deltamerge.write(rows.coalesce(1), str(folder))
    log = folder / "_delta_log" / f"{0:020d}.json"
    text = log.read_text()
    edited = text.replace('ontainsNull\\":true', 'ontainsNull\\":false')
    assert text.count("true") - edited.count("true") == 2
    put_commit(log, edited)
    return str(folder)


@pytest.mark.local(reason="the schema is changed by a commit written with files")
@pytest.mark.usefixtures("strategy")
@pytest.mark.parametrize("vectors", [False, True], ids=["rewritten", "marked"])
@pytest.mark.parametrize(
    ("changes", "clause", "name"),
    [
        ("2 AS id, array(5, null) AS a", "WHEN MATCHED THEN UPDATE SET a = s.a", "a.element"),
        ("2 AS id, map('k', CAST(null AS INT)) AS m", "WHEN MATCHED THEN UPDATE SET m = s.m", "m.value"),
        ("9 AS id, array(1) AS a, map('k', CAST(null AS INT)) AS m", "WHEN NOT MATCHED THEN INSERT *", "m.value"),
    ],
)
def test_a_null_where_an_array_or_map_must_have_none_is_refused(
    spark: SparkSession, full: str, vectors: bool, changes: str, clause: str, name: str
) -> None:
    """Readers would take it for a value: 0, or that of the element before."""
    if vectors:
        ask_for_vectors(Path(full))
    with refused(Path(full), DeltaInvariantViolationException, "DELTA_NOT_NULL_CONSTRAINT_VIOLATED", name):
        merge(spark, full, changes, clause)
    merge(spark, full, "2 AS id, array(5, 6) AS a, map('k', 7) AS m", "WHEN MATCHED THEN UPDATE SET *")
    found = {row["id"]: (row["a"], row["m"]) for row in deltamerge.read(spark, full).collect()}
    assert found == {1: ([1], {"k": 1}), 2: ([5, 6], {"k": 7})}


@pytest.mark.local(reason="the schema is changed by a commit written with files")
@pytest.mark.usefixtures("strategy")
def test_a_null_that_another_writer_left_in_an_array_is_copied(spark: SparkSession, tmp_path: Path) -> None:
    """A merge that has nothing to do with it must not fail for it. Readers differ in what they make of it."""
    path = strict(spark, tmp_path / "t", "(1, array(1), map('k', 1)), (2, array(2, null), null)")
    merge(spark, path, "1 AS id, array(5) AS a", "WHEN MATCHED THEN UPDATE SET a = s.a")
    actions = [json.loads(line) for line in (tmp_path / "t" / "_delta_log" / f"{1:020d}.json").read_text().splitlines()]
    (name,) = [action["add"]["path"] for action in actions if "add" in action]
    rows = pq.read_table(tmp_path / "t" / name, columns=["id", "a"]).sort_by("id").to_pylist()
    assert rows == [{"id": 1, "a": [5]}, {"id": 2, "a": [2, None]}]


@pytest.mark.local(reason="the schema is changed by a commit written with files")
@pytest.mark.usefixtures("strategy")
def test_a_null_that_another_writer_left_is_not_taken_for_a_value(spark: SparkSession, tmp_path: Path) -> None:
    path = strict(spark, tmp_path / "t", "(1, array(1), map('k', 1)), (2, array(2, null), null)")
    with refused(Path(path), DeltaInvariantViolationException, "DELTA_NOT_NULL_CONSTRAINT_VIOLATED", "a.element"):
        merge(spark, path, "2 AS id", "WHEN MATCHED THEN UPDATE SET a = array_append(t.a, 3)")


@pytest.mark.local(reason="the schema is changed by a commit written with files")
def test_an_array_that_must_not_hold_nulls_may_be_set_to_itself_and_appended(spark: SparkSession, full: str) -> None:
    merge(spark, full, "1 AS id", "WHEN MATCHED THEN UPDATE SET a = array_append(t.a, t.id + 1), m = t.m")
    assert deltamerge.read(spark, full).where("id = 1").collect()[0][1:] == ([1, 2], {"k": 1})
    merge(spark, full, "1 AS id, array(7L) AS a, map('k', 8Y) AS m", "WHEN MATCHED THEN UPDATE SET *")
    assert deltamerge.read(spark, full).where("id = 1").collect()[0][1:] == ([7], {"k": 8})
    with refused(Path(full), DeltaInvariantViolationException, "DELTA_NOT_NULL_CONSTRAINT_VIOLATED", "a.element"):
        deltamerge.write(spark.sql("SELECT 4 AS id, array(1, null) AS a"), full, mode="append")
    deltamerge.write(spark.sql("SELECT 4 AS id, array(8) AS a"), full, mode="append")
    assert deltamerge.read(spark, full).where("id = 4").collect()[0][1:] == ([8], None)


def test_default_is_a_value_of_an_insert(spark: SparkSession, path: str) -> None:
    for said in (
        "VALUES (3, DEFAULT, DEFAULT), (4, 1 + 1, DEFAULT);",
        "(n, id) VALUES (DEFAULT, 5)",
        "(id) VALUES (DEFAULT)",
        "(id) SELECT 6",
    ):
        deltamerge.sql(spark, f"INSERT INTO delta.`{path}` {said}")
    found = [tuple(row) for row in deltamerge.read(spark, path).where("id IS NULL OR id > 2").collect()]
    assert sorted(found, key=str) == [(3, 7, 14), (4, 2, 4), (5, 7, 14), (6, 7, 14), (None, 7, 14)]
