"""`deltamerge.activate`: Spark's own methods on Delta tables, in a session without delta-spark's JAR."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, ParseException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import deltamerge
from deltamerge.activation import switch as module
from deltamerge.spark.pyspark.plain import is_replaced
from tests.e2e.catalog import listed
from tests.e2e.tables import content, make, noted

CHANGES = {"delta.enableChangeDataFeed": "true"}


@pytest.fixture(autouse=True)
def active(spark: SparkSession) -> Iterator[None]:
    """The session is active for the time of the test."""
    deltamerge.activate(spark)
    yield
    deltamerge.deactivate(spark)


@pytest.fixture
def path(spark: SparkSession, tmp_path: Path) -> Path:
    """Rows 1, 2 and 3, of which 1 came first."""
    place = tmp_path / "it's a table"
    make(spark, place, "id int, name string, n int", [(1, "a", 10)], properties=CHANGES)
    make(spark, place, "id int, name string, n int", [(2, "b", 20), (3, "c", 30)])
    return place


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.collect()))


def test_rows_are_merged_deleted_and_updated(spark: SparkSession, path: Path) -> None:
    source = spark.createDataFrame([(3, 31), (4, 40)], "id int, n int")
    merged = spark.sql(
        f"""MERGE INTO delta.`{path}` t USING {{changes}} s ON t.id = s.id AND t.name <> {{not_this}}
        WHEN MATCHED THEN UPDATE SET n = s.n WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, s.n)""",
        changes=source,
        not_this="it's",
    )
    assert rows(merged) == [(2, 1, 0, 1)]
    assert content(spark, path) == [(1, "a", 10), (2, "b", 20), (3, "c", 31), (4, None, 40)]
    updated = spark.sql(f"UPDATE delta.`{path}` AS t SET t.n = t.n + :more, name = DEFAULT WHERE t.id <= 2;", {"more": 5})
    assert [row.asDict() for row in updated.collect()] == [{"num_affected_rows": 2}]
    deleted = spark.sql(f"WITH none AS (SELECT 1) DELETE FROM delta.`{path}` WHERE delta.`{path}`.n > ?", [30])
    assert [row.asDict() for row in deleted.collect()] == [{"num_affected_rows": 2}]
    assert content(spark, path) == [(1, None, 15), (2, None, 25)]
    assert rows(spark.sql(f"DELETE FROM delta.`{path}`")) == [(2,)]
    history = spark.sql(f"DESCRIBE HISTORY '{str(path).replace(chr(39), chr(92) + chr(39))}' LIMIT 4")
    assert [row.operation for row in history.collect()] == ["DELETE", "DELETE", "UPDATE", "MERGE"]
    assert not [row for row in spark.sql("SHOW TABLES").collect() if "deltamerge" in row.tableName]


@pytest.mark.connect
def test_queries_live_longer_than_the_names_in_them(spark: SparkSession, path: Path) -> None:
    query = spark.sql(
        f"""WITH old AS (SELECT * FROM delta.`{path}` VERSION AS OF 0)
        SELECT new.id, old.n, '{{}}' AS braces FROM delta.`{path}` AS new LEFT JOIN old ON new.id = old.id WHERE new.id < :end""",
        {"end": 3},
    )
    assert not [row for row in spark.sql("SHOW TABLES").collect() if "deltamerge" in row.tableName or "pyspark" in row.tableName]
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 1")
    assert rows(query) == rows(query.where("true")) == [(1, 10, "{}"), (2, None, "{}")]
    query.createOrReplaceTempView("of_that_version")
    try:
        assert spark.sql("SELECT count(*) FROM of_that_version").collect()[0][0] == 2
    finally:
        spark.catalog.dropTempView("of_that_version")
    ids = spark.sql(f"SELECT {{t.id}} FROM {{t}} WHERE id IN (SELECT id FROM delta.`{path}`)", t=spark.range(9))
    assert rows(ids) == [(2,), (3,)]
    assert rows(spark.sql(f"TABLE delta.`{path}`")) == [(2, "b", 20), (3, "c", 30)]
    assert "parquet" in spark.sql(f"EXPLAIN SELECT * FROM delta.`{path}@v0`").collect()[0][0].lower()


def test_rows_go_to_other_tables(spark: SparkSession, path: Path) -> None:
    spark.sql(f"CREATE TABLE others USING parquet AS SELECT id, n FROM delta.`{path}` WHERE id < 3")
    try:
        spark.sql(f"INSERT INTO TABLE others SELECT id, n FROM delta.`{path}` WHERE id = 3")
        assert rows(spark.sql("SELECT * FROM others")) == [(1, 10), (2, 20), (3, 30)]
    finally:
        spark.sql("DROP TABLE others")


def test_changes_are_a_table(spark: SparkSession, path: Path) -> None:
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 2")
    name = f"delta.`{path}`".replace("'", "\\'")
    found = spark.sql(f"SELECT c.id, _change_type FROM table_changes('{name}', 1, 1 + 1) c WHERE c.id <> 3")
    assert rows(found) == [(2, "delete"), (2, "insert")]
    literal = str(path).replace("'", "\\'")
    since = spark.sql(f"SELECT id, _commit_version FROM table_changes_by_path('{literal}', :start)", {"start": 2})
    assert rows(since) == [(2, 2)]
    with pytest.raises(AnalysisException, match="INCORRECT_NUMBER_OF_ARGUMENTS"):
        spark.sql(f"SELECT * FROM table_changes_by_path('{literal}')")
    with pytest.raises(IllegalArgumentException, match="DELTA_CDC_READ_NULL_RANGE_BOUNDARY"):
        spark.sql(f"SELECT * FROM table_changes_by_path('{literal}', NULL)")
    with pytest.raises(AnalysisException, match="DELTA_UNSUPPORTED_EXPRESSION"):
        spark.sql(f"SELECT * FROM table_changes_by_path('{literal}', true)")


@pytest.mark.parametrize(
    "text",
    [
        "CREATE VIEW kept AS SELECT * FROM {}",
        "ALTER VIEW kept AS SELECT * FROM {}",
        "CACHE TABLE kept AS SELECT * FROM {}",
        "ANALYZE TABLE {} COMPUTE STATISTICS",
    ],
)
def test_what_would_keep_a_text_is_refused(spark: SparkSession, path: Path, text: str) -> None:
    with pytest.raises(AnalysisException, match="DELTAMERGE_UNSUPPORTED_STATEMENT") as caught:
        spark.sql(text.format(f"delta.`{path}`"))
    assert text.split(maxsplit=1)[0] in str(caught.value)


def test_mistakes_are_shown(spark: SparkSession, path: Path) -> None:
    with pytest.raises(ParseException, match="SET expected"):
        spark.sql(f"UPDATE delta.`{path}` WHERE id = 1")
    with pytest.raises(ParseException, match="whole number"):
        spark.sql(f"DESCRIBE HISTORY delta.`{path}` LIMIT many")
    with pytest.raises(AnalysisException, match="nowhere"):
        spark.sql(f"DELETE FROM delta.`{path}` WHERE nowhere = 1")
    with pytest.raises(AnalysisException, match="DELTA_MISSING_DELTA_TABLE"):
        spark.sql(f"DESCRIBE HISTORY delta.`{path}/not`")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql("UPDATE not_there SET a = 1")
    spark.range(1).createOrReplaceTempView("some_view")
    try:
        with pytest.raises(AnalysisException, match="DELTA_TABLE_ONLY_OPERATION"):
            spark.sql("DESCRIBE DETAIL some_view")
    finally:
        spark.catalog.dropTempView("some_view")
    assert len(content(spark, path)) == 3


def test_tables_of_the_catalog(spark: SparkSession, path: Path) -> None:
    place = path.with_name("listed")
    make(spark, place, "id int, n int", [(1, 10), (2, 20)])
    with listed(spark, {"numbers": place}):
        assert rows(spark.sql("SELECT id FROM numbers VERSION AS OF 0 WHERE numbers.n > 10")) == [(2,)]
        assert rows(spark.sql("UPDATE numbers SET n = numbers.n + 1 WHERE id = 2")) == [(1,)]
        assert rows(spark.sql("SELECT default.numbers.n FROM default.numbers")) == [(10,), (21,)]
        assert rows(spark.sql("SELECT * FROM {ids} NATURAL JOIN numbers", ids=spark.createDataFrame([(2,)], "id int"))) == [
            (2, 21)
        ]
        detail = spark.sql("DESC DETAIL numbers").collect()[0]
        assert (detail.name, detail.numFiles) == ("spark_catalog.default.numbers", 1)
        assert rows(spark.sql("DELETE FROM numbers WHERE id = 1")) == [(1,)]
        assert content(spark, place) == [(2, 21)]


def test_statements_of_spark_stay_its_own(spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = noted(monkeypatch, module, "run_sql")
    assert rows(spark.sql("SELECT {id} + ? FROM {t}", [1], id=F.col("id"), t=spark.range(1, 2))) == [(2,)]
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql("DELETE FROM not_there")
    with pytest.raises(ParseException):
        spark.sql("SELEC 1")
    with pytest.raises(KeyError):
        spark.sql("SELECT * FROM {t}", other=spark.range(1))
    del calls[:]
    spark.sql(f"MERGE INTO delta.`{path}` t USING (SELECT * FROM delta.`{path}`) s ON t.id = s.id WHEN MATCHED THEN DELETE")
    assert len(calls) == 1  # the library asks Spark, not itself


def test_it_is_undone(spark: SparkSession, path: Path) -> None:
    deltamerge.activate(spark)  # once more changes nothing
    deltamerge.deactivate(spark)
    deltamerge.deactivate(spark)
    assert not is_replaced(type(spark), "sql")
    with pytest.raises(AnalysisException):
        spark.sql(f"SELECT * FROM delta.`{path}`").collect()
    deltamerge.activate(spark)
    assert spark.sql(f"SELECT * FROM delta.`{path}`").count() == 3


@pytest.mark.classic
def test_sessions_are_apart(spark: SparkSession, path: Path, caplog: pytest.LogCaptureFixture) -> None:
    other = spark.newSession()
    with pytest.raises(AnalysisException):
        other.sql(f"DELETE FROM delta.`{path}`")
    deltamerge.activate(other)
    deltamerge.deactivate(spark)
    assert other.sql(f"SELECT * FROM delta.`{path}`").count() == 3
    deltamerge.deactivate(other)
    assert not [record for record in caplog.records if record.name.startswith("deltamerge")]


@pytest.mark.classic
def test_the_batches_of_a_stream_have_it(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"id": 3, "n": 33}\n{"id": 4, "n": 44}\n')

    def upsert(batch: Any, _: int) -> None:
        batch.createOrReplaceTempView("batch")
        batch.sparkSession.sql(
            f"MERGE INTO delta.`{path}` t USING batch s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = s.n "
            "WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, s.n)"
        )

    stream = spark.readStream.schema("id int, n int").json(str(tmp_path / "in"))
    stream.writeStream.foreachBatch(upsert).trigger(availableNow=True).start().awaitTermination()
    assert [row[0::2] for row in content(spark, path)] == [(1, 10), (2, 20), (3, 33), (4, 44)]


def test_delta_spark_keeps_all_but_merges(
    spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("deltamerge.activation.sessions.has_extension", lambda _: True)
    with caplog.at_level(logging.WARNING, "deltamerge.activation"):
        deltamerge.activate(spark)
    assert "delta-spark's extension" in caplog.text
    with pytest.raises(AnalysisException):
        spark.sql(f"DELETE FROM delta.`{path}`")
    spark.sql(f"MERGE INTO delta.`{path}` t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE")
    assert [row[0] for row in content(spark, path)] == [2, 3]
