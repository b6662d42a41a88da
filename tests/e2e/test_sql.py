"""MERGE as text: the same merges as the builder's, by path and by name."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.errors import DeltaMergeError
from deltamerge.tables import DeltaTable


@pytest.fixture
def path(spark: SparkSession, tmp_path: Path) -> str:
    """Rows 1 and 2."""
    found = str(tmp_path / "it's a table")
    deltamerge.write(spark.createDataFrame([(1, "a", 10), (2, "b", 20)], "id int, name string, n int"), found)
    return found


@pytest.fixture
def changes(spark: SparkSession) -> Iterator[str]:
    """A view of rows 2 and 3."""
    spark.createDataFrame([(2, "B", 21), (3, "C", 30)], "id int, name string, n int").createOrReplaceTempView("changes")
    yield "changes"
    spark.catalog.dropTempView("changes")


def rows(spark: SparkSession, path: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in deltamerge.read(spark, path).collect())


def test_upsert_from_a_view(spark: SparkSession, path: str, changes: str) -> None:
    found = deltamerge.sql(
        spark,
        f"""MERGE INTO delta.`{path}` AS t USING {changes} AS s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET name = upper(s.name), t.n = t.n + s.n
        WHEN NOT MATCHED THEN INSERT *""",
    )
    assert [row.asDict() for row in found.collect()] == [
        {"num_affected_rows": 2, "num_updated_rows": 1, "num_deleted_rows": 0, "num_inserted_rows": 1}
    ]
    assert rows(spark, path) == [(1, "a", 10), (2, "B", 41), (3, "C", 30)]


def test_names_without_aliases(spark: SparkSession, path: str, changes: str) -> None:
    deltamerge.sql(spark, f"MERGE INTO delta.`{path}` USING changes ON delta.`{path}`.id = changes.id WHEN MATCHED THEN DELETE")
    assert rows(spark, path) == [(1, "a", 10)]


def test_except_leaves_columns_alone(spark: SparkSession, path: str, changes: str) -> None:
    deltamerge.sql(
        spark,
        f"""MERGE INTO delta.`{path}` t USING changes s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET * EXCEPT (name) WHEN NOT MATCHED THEN INSERT * EXCEPT (n)""",
    )
    assert rows(spark, path) == [(1, "a", 10), (2, "b", 21), (3, "C", None)]


def test_a_query_over_delta_paths_and_ctes(spark: SparkSession, path: str, changes: str) -> None:
    deltamerge.sql(
        spark,
        f"""WITH latest AS (SELECT * FROM changes WHERE id = 2)
        MERGE INTO delta.`{path}` t
        USING (SELECT l.id, l.n + d.n AS n FROM latest l JOIN delta.`{path}` d ON l.id = d.id) s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET n = s.n, name = (SELECT max(name) FROM latest)
        WHEN NOT MATCHED BY SOURCE THEN UPDATE SET n = (SELECT count(*) FROM delta.`{path}`), name = DEFAULT""",
    )
    assert rows(spark, path) == [(1, None, 2), (2, "B", 41)]
    assert not [table.name for table in spark.catalog.listTables() if "deltamerge" in table.name]


def test_the_target_as_its_own_source(spark: SparkSession, path: str) -> None:
    deltamerge.sql(
        spark,
        f"MERGE INTO delta.`{path}` t USING delta.`{path}` s ON t.id = s.id + 1 WHEN MATCHED THEN UPDATE SET n = s.n",
    )
    assert rows(spark, path) == [(1, "a", 10), (2, "b", 10)]


def test_a_table_of_the_catalog(spark: SparkSession, path: str, changes: str) -> None:
    spark.sql(f'CREATE TABLE listed USING parquet LOCATION "{path}"')
    try:
        deltamerge.sql(spark, "MERGE INTO listed USING changes ON listed.id = changes.id WHEN MATCHED THEN DELETE")
        DeltaTable.forName(spark, "default.listed").alias("t").merge(
            spark.table("changes").alias("s"), "t.id = s.id"
        ).whenNotMatchedInsertAll().execute()
        assert rows(spark, path) == [(1, "a", 10), (2, "B", 21), (3, "C", 30)]
    finally:
        spark.sql("DROP TABLE listed")


@pytest.mark.parametrize(
    ("arguments", "marker"),
    [({"n": 7, "name": "it's \\ \n"}, (":n", ":name")), ([7, "it's \\ \n"], ("?", "?"))],
    ids=["named", "positional"],
)
def test_parameters(spark: SparkSession, path: str, changes: str, arguments: object, marker: tuple[str, str]) -> None:
    text = (
        f"MERGE INTO delta.`{path}` t USING changes s ON t.id = s.id "
        f"WHEN MATCHED THEN UPDATE SET n = {marker[0]}, name = {marker[1]}"
    )
    deltamerge.sql(spark, text, args=arguments)  # type: ignore[arg-type]
    assert rows(spark, path) == [(1, "a", 10), (2, "it's \\ \n", 7)]


@pytest.mark.parametrize("value", [None, True, 2**40, -1, 0.1, Decimal("1.50"), date(2020, 2, 29), [1, 2], {"a": 1}, b"\x00\xff"])
def test_each_kind_of_parameter_is_what_spark_makes_of_it(spark: SparkSession, value: object) -> None:
    from deltamerge.spark.literals import literal_of

    ours = spark.sql(f"SELECT {literal_of(value)} AS v").collect()[0].v
    assert ours == value
    assert type(ours) is type(value) or isinstance(value, bytes)


def test_explain_gives_the_plan_and_changes_nothing(spark: SparkSession, path: str, changes: str) -> None:
    (row,) = deltamerge.sql(
        spark, f"EXPLAIN MERGE INTO delta.`{path}` t USING changes s ON t.id = s.id WHEN MATCHED THEN DELETE"
    ).collect()
    assert "keys:              id = source.id" in row.plan
    assert DeltaTable.forPath(spark, path).history().count() == 1


def test_other_statements_are_sparks_with_their_own_errors(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException, match="UNBOUND_SQL_PARAMETER") as caught:
        deltamerge.sql(spark, "SELECT 'MERGE' AS word, :n AS n", args={}).collect()
    assert not isinstance(caught.value, DeltaMergeError)


def test_other_statements_are_sparks(spark: SparkSession) -> None:
    assert deltamerge.sql(spark, "SELECT 'MERGE' AS word, :n AS n", args={"n": 1}).collect() == [("MERGE", 1)]


@pytest.mark.parametrize(
    ("text", "kind", "condition"),
    [
        ("MERGE INTO {t} t USING changes s ON t.id = s.id", ParseException, "MERGE_WITHOUT_WHEN"),
        ("MERGE INTO {t} t USING changes s ON t.id = = s.id WHEN MATCHED THEN DELETE", ParseException, "PARSE_SYNTAX_ERROR"),
        (
            "MERGE INTO {t} t USING nowhere s ON t.id = s.id WHEN MATCHED THEN DELETE",
            AnalysisException,
            "TABLE_OR_VIEW_NOT_FOUND",
        ),
        (
            "MERGE INTO nowhere t USING changes s ON t.id = s.id WHEN MATCHED THEN DELETE",
            AnalysisException,
            "TABLE_OR_VIEW_NOT_FOUND",
        ),
        (
            "MERGE INTO changes t USING changes s ON t.id = s.id WHEN MATCHED THEN DELETE",
            AnalysisException,
            "DELTA_TABLE_ONLY_OPERATION",
        ),
        ("MERGE INTO {t} t USING changes s ON t.id = :p WHEN MATCHED THEN DELETE", AnalysisException, "UNBOUND_SQL_PARAMETER"),
        (
            "MERGE INTO {t} t USING changes s ON t.id = s.id WHEN MATCHED THEN UPDATE SET nam = 'x'",
            AnalysisException,
            "DELTA_MERGE_UNRESOLVED_EXPRESSION",
        ),
    ],
)
def test_errors(spark: SparkSession, path: str, changes: str, text: str, kind: type[Exception], condition: str) -> None:
    with pytest.raises(kind, match=condition):
        deltamerge.sql(spark, text.format(t=f"delta.`{path}`"))
    assert rows(spark, path) == [(1, "a", 10), (2, "b", 20)]
