"""MERGE as text: the same merges as the builder's, by path and by name."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, ParseException
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.errors import DeltaMergeError
from deltamerge.tables import DeltaTable
from tests.e2e.catalog import listed
from tests.e2e.tables import conf


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
    assert not [row.tableName for row in spark.sql("SHOW TABLES").collect() if "deltamerge" in row.tableName]


@pytest.mark.parametrize(
    ("source", "condition", "value"),
    [
        ("changes AS delta", "t.id = delta.`id`", "delta.`n`"),
        ("(SELECT id, named_struct('n', n) AS delta FROM changes) s", "t.id = s.id", "delta.`n`"),
        ("(SELECT delta.`id`, delta.`n` FROM changes delta, delta.`{path}` d WHERE delta.`id` = d.id) s", "t.id = s.id", "s.`n`"),
    ],
    ids=["alias", "struct", "alias in a query"],
)
def test_a_column_of_what_is_called_delta_is_no_path(
    spark: SparkSession, path: str, changes: str, source: str, condition: str, value: str
) -> None:
    text = f"MERGE INTO delta.`{path}` t USING {source.format(path=path)} ON {condition} WHEN MATCHED THEN UPDATE SET n = {value}"
    deltamerge.sql(spark, text)
    assert rows(spark, path) == [(1, "a", 10), (2, "b", 21)]


@pytest.fixture
def older(spark: SparkSession, path: str) -> str:
    """The table when version 0 is no more its newest."""
    DeltaTable.forPath(spark, path).update(set={"n": "n + 100"})
    return path


TRAVELS = [
    "VERSION AS OF 0",
    "FOR SYSTEM_VERSION AS OF '0' x",
    "TIMESTAMP AS OF '{at}'",
    "FOR SYSTEM_TIME AS OF TIMESTAMP'{at}' AS x",
]


@pytest.mark.parametrize("travel", [*TRAVELS, "TIMESTAMP AS OF timestamp_millis({ms}) x"])
def test_queries_read_a_version_or_time(spark: SparkSession, older: str, travel: str) -> None:
    (at,) = DeltaTable.forPath(spark, older).history().where("version = 0").selectExpr("string(timestamp)").first()
    (ms,) = spark.sql(f"SELECT unix_millis(TIMESTAMP'{at}')").first()
    query = f"SELECT id, n + 1 AS n FROM delta.`{older}` {travel.format(at=at, ms=ms)} WHERE id = 1"
    deltamerge.sql(spark, f"MERGE INTO delta.`{older}` t USING ({query}) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = s.n")
    assert rows(spark, older) == [(1, "a", 11), (2, "b", 120)]


@pytest.mark.parametrize(
    "source", ["delta.`{path}@v0` s", "(SELECT * FROM delta.`{path}@v0`) s", "(TABLE delta.`{path}@{at}`) s"]
)
def test_a_path_may_say_its_version_or_time(spark: SparkSession, older: str, source: str) -> None:
    history = DeltaTable.forPath(spark, older).history().where("version = 0")
    (at,) = history.selectExpr("date_format(timestamp, 'yyyyMMddHHmmssSSS')").first()
    source = source.format(path=older, at=at)
    deltamerge.sql(spark, f"MERGE INTO delta.`{older}` t USING {source} ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = s.n")
    assert rows(spark, older) == [(1, "a", 10), (2, "b", 20)]


def test_a_table_whose_path_looks_like_a_version_is_that_table(spark: SparkSession, older: str) -> None:
    deltamerge.write(spark.createDataFrame([(1, 7)], "id int, n int"), f"{older}@v0")
    text = f"MERGE INTO delta.`{older}` t USING delta.`{older}@v0` s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = s.n"
    deltamerge.sql(spark, text)
    assert rows(spark, older) == [(1, "a", 7), (2, "b", 120)]


def test_scalar_queries_and_parameters_read_a_version(spark: SparkSession, older: str, changes: str) -> None:
    query = f"(SELECT max(n) FROM delta.`{older}` VERSION AS OF :v)"
    text = f"MERGE INTO delta.`{older}` t USING changes s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = {query}"
    deltamerge.sql(spark, text, {"v": 0})
    assert rows(spark, older) == [(1, "a", 110), (2, "b", 20)]


@pytest.mark.parametrize(
    ("name", "kind", "condition"),
    [
        ("delta.`{path}` VERSION AS OF 7", AnalysisException, "DELTA_VERSION_NOT_FOUND"),
        ("delta.`{path}` VERSION AS OF 'x'", IllegalArgumentException, "DELTA_TIME_TRAVEL_INVALID_BEGIN_VALUE"),
        ("delta.`{path}` TIMESTAMP AS OF 'x'", AnalysisException, "INVALID_TIME_TRAVEL_TIMESTAMP_EXPR.INPUT"),
        ("delta.`{path}` TIMESTAMP AS OF '2000-01-01'", AnalysisException, "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION"),
        ("delta.`{path}@v0` VERSION AS OF 0", AnalysisException, "DELTA_UNSUPPORTED_TIME_TRAVEL_MULTIPLE_FORMATS"),
        (
            "delta.`{path}` VERSION AS OF 0 WITH ('timestampAsOf' = '2000-01-01')",
            AnalysisException,
            "MULTIPLE_TIME_TRAVEL_SPEC",
        ),
        ("delta.`{path}` WITH (versionAsOf 0, timestampAsOf 'x')", AnalysisException, "INVALID_TIME_TRAVEL_SPEC"),
        ("delta.`{path}` WITH (versionAsOf 0, 'versionAsOf' = 1)", ParseException, "DUPLICATE_KEY"),
        ("delta.`{path}` WITH (timestampAsOf '2000-01-01')", AnalysisException, "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION"),
        ("delta.`{path}` WITH ('readChangeFeed' = 'true')", IllegalArgumentException, "DELTAMERGE_UNKNOWN_OPTION"),
        ("delta.`{path}@20009999000000000`", AnalysisException, "DELTA_TIMESTAMP_INVALID"),
    ],
)
def test_versions_that_are_not_there(spark: SparkSession, older: str, name: str, kind: type[Exception], condition: str) -> None:
    query = f"SELECT * FROM {name.format(path=older)}"
    text = f"MERGE INTO delta.`{older}` t USING ({query}) s ON t.id = s.id WHEN MATCHED THEN DELETE"
    with pytest.raises(kind, match=condition):
        deltamerge.sql(spark, text)


@pytest.mark.parametrize(
    ("name", "kind"), [("delta.`{path}` VERSION AS OF 0", ParseException), ("delta.`{path}@v0`", AnalysisException)]
)
def test_a_target_has_no_version(spark: SparkSession, older: str, changes: str, name: str, kind: type[Exception]) -> None:
    text = f"MERGE INTO {name.format(path=older)} t USING changes s ON t.id = s.id WHEN MATCHED THEN DELETE"
    with pytest.raises(kind):
        deltamerge.sql(spark, text)
    assert rows(spark, older) == [(1, "a", 110), (2, "b", 120)]


@pytest.mark.parametrize(
    "query", ["(FROM c SELECT max(n))", "(TABLE c)", "(WITH d AS (SELECT n FROM c) SELECT max(n) FROM d)", "((SELECT n FROM c))"]
)
def test_with_queries_are_known_to_each_query(spark: SparkSession, path: str, changes: str, query: str) -> None:
    source = "(WITH d AS (SELECT * FROM changes) SELECT d.id FROM d, c) s"
    deltamerge.sql(
        spark,
        f"""WITH c AS (SELECT 5 AS n) MERGE INTO delta.`{path}` t USING {source} ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET n = {query};;""",
    )
    assert rows(spark, path) == [(1, "a", 10), (2, "b", 5)]


def test_names_that_expressions_make(spark: SparkSession, path: str, changes: str) -> None:
    deltamerge.sql(
        spark,
        """MERGE INTO IDENTIFIER(:table) t USING IDENTIFIER('chan' || 'ges') s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET IDENTIFIER('t.n') = IDENTIFIER('s.n'), t.IDENTIFIER('name') = s.name
        WHEN NOT MATCHED THEN INSERT (IDENTIFIER('id')) VALUES (s.id)""",
        {"table": f"delta.`{path}`"},
    )
    assert rows(spark, path) == [(1, "a", 10), (2, "B", 21), (3, None, None)]


@pytest.mark.parametrize("expression", ["'a b'", "1", "NULL"])
def test_an_expression_that_makes_no_name_is_refused(spark: SparkSession, path: str, changes: str, expression: str) -> None:
    text = f"MERGE INTO delta.`{path}` t USING changes s ON t.id = s.id WHEN MATCHED THEN UPDATE SET IDENTIFIER({expression}) = 1"
    with pytest.raises(ParseException, match=r"PARSE_SYNTAX_ERROR.*IDENTIFIER"):
        deltamerge.sql(spark, text)


def test_the_target_as_its_own_source(spark: SparkSession, path: str) -> None:
    deltamerge.sql(
        spark,
        f"MERGE INTO delta.`{path}` t USING delta.`{path}` s ON t.id = s.id + 1 WHEN MATCHED THEN UPDATE SET n = s.n",
    )
    assert rows(spark, path) == [(1, "a", 10), (2, "b", 10)]


@pytest.mark.local(reason="Spark makes the catalog's table, without a connector to the store")
def test_a_table_of_the_catalog(spark: SparkSession, path: str, changes: str) -> None:
    with listed(spark, {"listed": path.replace("'", "\\'")}):
        deltamerge.sql(spark, "MERGE INTO listed USING changes ON listed.id = changes.id WHEN MATCHED THEN DELETE")
        DeltaTable.forName(spark, "default.listed").alias("t").merge(
            spark.table("changes").alias("s"), "t.id = s.id"
        ).whenNotMatchedInsertAll().execute()
        assert rows(spark, path) == [(1, "a", 10), (2, "B", 21), (3, "C", 30)]


@pytest.mark.local(reason="Spark makes the catalog's table, without a connector to the store")
@pytest.mark.parametrize("target", ["listed", "default.listed", "spark_catalog.default.listed"])
def test_a_table_of_the_catalog_by_more_or_less_of_its_name(spark: SparkSession, path: str, target: str) -> None:
    deltamerge.write(spark.sql("SELECT 2 AS id, 21 AS n"), f"{path}2")
    place = path.replace("'", "\\'")
    with listed(spark, {"listed": place, "listed2": f"{place}2"}):
        deltamerge.sql(
            spark,
            f"""MERGE INTO {target} USING default.listed2 ON spark_catalog.default.listed.id = spark_catalog.default.listed2.id
            WHEN MATCHED AND Default.listed.n > 1 THEN UPDATE SET
                spark_catalog.default.listed.n = default.listed.n + listed2.n, default.listed.name = 'k', listed.id = 2""",
        )
        assert rows(spark, path) == [(1, "a", 10), (2, "k", 41)]
        query = "SELECT id, n FROM default.listed VERSION AS OF 0"
        deltamerge.sql(spark, f"MERGE INTO {target} t USING ({query}) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = s.n")
        assert rows(spark, path) == [(1, "a", 10), (2, "k", 20)]


@pytest.mark.local(reason="Spark writes and reads the other format, without a connector to the store")
def test_sources_by_name_and_path(spark: SparkSession, path: str, changes: str, tmp_path: Path) -> None:
    files = tmp_path / "files"
    spark.table("changes").write.parquet(str(files))
    spark.sql(f'CREATE TABLE plain USING parquet LOCATION "{files}"')
    merge = f"MERGE INTO delta.`{path}` t USING {{0}} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = t.n + s.n"
    try:
        for source in (f"parquet.`{files}`", "plain", "default.plain"):
            assert deltamerge.sql(spark, merge.format(source)).first()["num_updated_rows"] == 1
    finally:
        spark.sql("DROP TABLE plain")
    assert rows(spark, path) == [(1, "a", 10), (2, "b", 20 + 3 * 21)]


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


def test_parameters_called_like_keywords(spark: SparkSession, path: str, changes: str) -> None:
    deltamerge.sql(
        spark,
        f"""MERGE INTO delta.`{path}` t USING changes s ON t.id = s.id AND s.n > :when AND s.n > :then
        WHEN MATCHED AND s.n > :then THEN UPDATE SET n = (:end + 1), name = :case""",
        {"when": 1, "then": 2, "end": 3, "case": "c"},
    )
    assert rows(spark, path) == [(1, "a", 10), (2, "c", 4)]


@pytest.mark.parametrize(
    "type", ["struct<a:int,b:array<struct<c:string>>>", "STRUCT<date:DATE, `x y`:map<string,struct<id:int>>>"]
)
def test_the_colon_of_a_fields_type_is_no_marker(spark: SparkSession, path: str, type: str) -> None:
    text = (
        f"MERGE INTO delta.`{path}` t USING (SELECT 2 AS id, CAST(NULL AS {type}) AS st) s ON t.id = s.id AND t.id>:low "
        f"WHEN MATCHED AND CAST(NULL AS {type}) IS NULL THEN UPDATE SET n =:n"
    )
    deltamerge.sql(spark, text, args={"low": 1, "n": 5})
    assert rows(spark, path) == [(1, "a", 10), (2, "b", 5)]


@pytest.mark.parametrize("value", [object(), {1, 2}, 1j, np.int64(1), Decimal("NaN"), 2**63, timedelta.max], ids=repr)
def test_a_parameter_that_has_no_literal_is_refused(spark: SparkSession, path: str, changes: str, value: object) -> None:
    text = f"MERGE INTO delta.`{path}` t USING changes s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = :n"
    with pytest.raises(IllegalArgumentException, match=rf"\[INVALID_SQL_ARG\].*{type(value).__name__}"):
        deltamerge.sql(spark, text, args={"n": value})


def test_variables_stand_for_settings_wherever_they_are(spark: SparkSession, path: str, changes: str) -> None:
    settings = {"folder": path, "whole": "delta.`${folder}`", "it": "changes", "least": "3", "step": "100"}
    with conf(spark, settings):
        deltamerge.sql(
            spark,
            """MERGE INTO ${whole} t USING ${hivevar:it} AS s ON t.id = s.id
            WHEN MATCHED THEN UPDATE SET name = '${least}${none}', n = t.n + ${spark:step}
            WHEN NOT MATCHED AND s.id >= ${hiveconf:least} THEN INSERT *""",
        )
    assert rows(spark, path) == [(1, "a", 10), (2, "3", 120), (3, "C", 30)]


def test_a_whole_statement_may_be_a_variable(spark: SparkSession, path: str, changes: str) -> None:
    text = f"MERGE INTO delta.`{path}` t USING changes s ON t.id = s.id WHEN MATCHED THEN DELETE"
    with conf(spark, {"statement": text}):
        deltamerge.sql(spark, "${statement}")
    assert rows(spark, path) == [(1, "a", 10)]


def test_text_in_parameters_and_unsubstituted_text_keep_their_dollars(spark: SparkSession, path: str, changes: str) -> None:
    text = f"MERGE INTO delta.`{path}` t USING changes s ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = "
    with conf(spark, {"least": "3"}):
        deltamerge.sql(spark, f"{text} :given", {"given": "${least}"})
        assert rows(spark, path)[1] == (2, "${least}", 20)
        with conf(spark, {"spark.sql.variable.substitute": "false"}):
            deltamerge.sql(spark, f"{text} '${{least}}!'")
        assert rows(spark, path)[1] == (2, "${least}!", 20)


def test_variables_that_lead_back_to_themselves_are_refused(spark: SparkSession, path: str, changes: str) -> None:
    text = f"MERGE INTO delta.`{path}` t USING ${{one}} s ON t.id = s.id WHEN MATCHED THEN DELETE"
    with (
        conf(spark, {"one": "${other}", "other": "${one}"}),
        pytest.raises(DeltaMergeError, match="one -> other -> one") as raised,
    ):
        deltamerge.sql(spark, text)
    assert raised.value.getCondition() == "DELTAMERGE_CIRCULAR_VARIABLE"


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
