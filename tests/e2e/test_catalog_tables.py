"""Tables of the catalog that DataFrames make, and what statements and `spark.catalog` say of them and do with them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import deltamerge
from deltamerge.tables import DeltaTable

pytestmark = pytest.mark.local  # a catalog's own tables are in its warehouse


@pytest.fixture
def active(spark: SparkSession) -> Iterator[SparkSession]:
    deltamerge.activate(spark)
    yield spark
    for row in spark.sql("SHOW TABLES LIKE 'made_*'").collect():
        spark.sql(f"DROP TABLE {row.tableName}")
    deltamerge.deactivate(spark)


@pytest.fixture
def rows(active: SparkSession) -> DataFrame:
    return active.range(3).selectExpr("id", "int(id % 2) AS p")


def told(spark: SparkSession, name: str) -> tuple[str, str | None]:
    """What history calls the last commit of a table, and its isManaged."""
    row = spark.sql(f"DESCRIBE HISTORY {name} LIMIT 1").first()
    return row.operation, row.operationParameters.get("isManaged")


def place(spark: SparkSession, name: str) -> Path:
    found = {row.col_name: row.data_type for row in spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()}
    return Path(found["Location"].removeprefix("file:"))


def condition(action: Callable[[], Any]) -> str | None:
    with pytest.raises(PySparkException) as caught:
        action()
    return caught.value.getCondition()


def test_save_as_table(active: SparkSession, rows: DataFrame) -> None:
    def write(mode: str = "error") -> Any:
        return rows.write.format("delta").mode(mode)

    write().partitionBy("p").option("delta.appendOnly", "false").option("userMetadata", "why").saveAsTable("made_t")
    assert told(active, "made_t") == ("CREATE TABLE AS SELECT", "true")
    assert active.sql("DESCRIBE HISTORY made_t").first().userMetadata == "why"
    detail = active.sql("DESCRIBE DETAIL made_t").first()
    assert (detail.partitionColumns, detail.properties) == (["p"], {"delta.appendOnly": "false"})
    assert condition(lambda: write().saveAsTable("made_t")) == "TABLE_OR_VIEW_ALREADY_EXISTS"
    write("ignore").saveAsTable("made_t")
    assert active.table("made_t").count() == 3
    write("append").saveAsTable("made_t")
    assert active.table("made_t").count() == 6
    rows.limit(1).write.format("delta").mode("overwrite").saveAsTable("made_t")
    assert told(active, "made_t") == ("CREATE OR REPLACE TABLE AS SELECT", "true")
    detail = active.sql("DESCRIBE DETAIL made_t").first()
    assert (active.table("made_t").count(), detail.partitionColumns) == (1, ["p"])
    assert condition(lambda: write("overwrite").option("path", "/elsewhere").saveAsTable("made_t")) == (
        "DELTA_TABLE_LOCATION_MISMATCH"
    )


def test_a_table_at_a_place(active: SparkSession, rows: DataFrame, tmp_path: Path) -> None:
    rows.write.format("delta").option("path", str(tmp_path / "t")).clusterBy("p").saveAsTable("made_t")
    assert told(active, "made_t") == ("CREATE TABLE AS SELECT", "false")
    assert active.sql("DESCRIBE DETAIL made_t").first().clusteringColumns == ["p"]
    active.sql("DROP TABLE made_t")
    assert DeltaTable.isDeltaTable(active, str(tmp_path / "t"))
    taken = rows.write.format("delta").option("path", str(tmp_path / "t"))
    assert condition(lambda: taken.saveAsTable("made_t")) == "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION"
    assert not active.catalog.tableExists("made_t")
    taken.mode("overwrite").saveAsTable("made_t")
    assert active.sql("DESCRIBE HISTORY made_t").count() == 2
    assert active.table("made_t").count() == 3


def test_write_to(active: SparkSession, rows: DataFrame) -> None:
    def write(frame: DataFrame = rows) -> Any:
        return frame.writeTo("made_t").using("delta")

    assert condition(lambda: write().replace()) == "TABLE_OR_VIEW_NOT_FOUND"
    write().partitionedBy(F.col("p")).tableProperty("delta.appendOnly", "false").tableProperty("comment", "c").create()
    assert told(active, "made_t") == ("CREATE TABLE AS SELECT", "true")
    detail = active.sql("DESCRIBE DETAIL made_t").first()
    assert (detail.partitionColumns, detail.properties, detail.description) == (["p"], {"delta.appendOnly": "false"}, "c")
    assert condition(lambda: write().create()) == "TABLE_OR_VIEW_ALREADY_EXISTS"
    write(active.table("made_t").select((F.col("id") + 10).alias("id"))).replace()
    assert told(active, "made_t") == ("REPLACE TABLE AS SELECT", "true")
    assert sorted(row.id for row in active.table("made_t").collect()) == [10, 11, 12]
    write().createOrReplace()
    assert told(active, "made_t") == ("CREATE OR REPLACE TABLE AS SELECT", "true")
    years = write().partitionedBy(F.partitioning.years("id"))
    assert condition(years.createOrReplace) == "DELTA_OPERATION_NOT_ALLOWED"


def test_a_failed_table_leaves_nothing(active: SparkSession, rows: DataFrame) -> None:
    failing = rows.withColumn("x", F.raise_error(F.lit("no")).cast("int"))
    with pytest.raises(PySparkException):
        failing.write.format("delta").saveAsTable("made_t")
    assert not active.catalog.tableExists("made_t")
    rows.write.format("delta").saveAsTable("made_t")
    assert active.table("made_t").count() == 3


def test_dropping_deletes_what_is_the_catalogs_own(active: SparkSession) -> None:
    active.sql("CREATE TABLE made_t USING delta AS SELECT 1 AS id")
    folder = place(active, "made_t")
    assert folder.exists()
    active.sql("DROP TABLE made_t")
    assert not folder.exists()
    assert condition(lambda: active.sql("DROP TABLE made_t").collect()) == "TABLE_OR_VIEW_NOT_FOUND"
    active.sql("DROP TABLE IF EXISTS made_t")
    assert condition(lambda: active.sql("DROP TABLE delta.`/some/path`")) == "DELTA_OPERATION_NOT_ALLOWED"


def test_what_is_said_of_a_table(active: SparkSession) -> None:
    active.sql("CREATE TABLE made_t (id INT COMMENT 'key', p STRING) USING delta PARTITIONED BY (p)")
    described = [tuple(row) for row in active.sql("DESCRIBE TABLE made_t").collect()]
    assert described == [
        ("id", "int", "key"),
        ("p", "string", None),
        ("# Partition Information", "", ""),
        ("# col_name", "data_type", "comment"),
        ("p", "string", None),
    ]
    assert ("Type", "MANAGED", "") in [tuple(row) for row in active.sql("DESC EXTENDED made_t").collect()]
    assert [row.info_value for row in active.sql("DESCRIBE made_t id").collect()] == ["id", "int", "key"]
    assert condition(lambda: active.sql("DESCRIBE made_t nix")) == "COLUMN_NOT_FOUND"
    assert [row.col_name for row in active.sql("SHOW COLUMNS IN made_t IN default").collect()] == ["id", "p"]
    assert active.catalog.tableExists("made_t")
    assert not active.catalog.tableExists("made_nix")
    assert [(column.name, column.isPartition) for column in active.catalog.listColumns("made_t")] == [("id", False), ("p", True)]
    assert active.catalog.getTable("made_t").tableType == "MANAGED"


@pytest.fixture(params=["name", "path"])
def small(request: pytest.FixtureRequest, active: SparkSession) -> str:
    """A table of one row, by its name or its path."""
    active.sql("CREATE TABLE made_t USING delta AS SELECT 1 AS id")
    return "made_t" if request.param == "name" else f"delta.`{place(active, 'made_t')}`"


def test_nothing_is_kept_by_a_tables_name(active: SparkSession, small: str) -> None:
    catalog = active.catalog
    for action in (
        lambda: catalog.cacheTable(small),
        lambda: active.sql(f"CACHE TABLE {small}"),
        lambda: active.sql(f"CACHE LAZY TABLE {small} OPTIONS ('storageLevel' = 'DISK_ONLY')"),
    ):
        assert condition(action) == "DELTAMERGE_UNSUPPORTED_STATEMENT"
    assert not catalog.isCached(small)
    assert active.sql(f"REFRESH TABLE {small}").columns == active.sql(f"UNCACHE TABLE {small}").columns == []
    catalog.refreshTable(small)
    active.table(small).cache()
    assert catalog.isCached(small)
    catalog.uncacheTable(small)
    assert not catalog.isCached(small)
    assert active.sql("UNCACHE TABLE IF EXISTS delta.`/there/is/none`").columns == []
    for action in (lambda: active.sql("UNCACHE TABLE made_nix").collect(), lambda: catalog.refreshTable("made_nix")):
        assert condition(action) == "TABLE_OR_VIEW_NOT_FOUND"


def test_partitions(active: SparkSession) -> None:
    active.sql("CREATE TABLE made_t (id INT, p STRING, q DATE) USING delta PARTITIONED BY (p, q)")
    assert active.sql("SHOW PARTITIONS made_t").dtypes == [("p", "string"), ("q", "date")]
    active.sql("INSERT INTO made_t VALUES (1, 'a', DATE'2020-01-01'), (2, NULL, DATE'2020-01-02'), (3, 'a', DATE'2020-01-02')")

    def shown(which: str = "") -> list[str]:
        return sorted(f"{row.p} {row.q}" for row in active.sql(f"SHOW PARTITIONS made_t {which}").collect())

    assert shown() == ["None 2020-01-02", "a 2020-01-01", "a 2020-01-02"]
    assert shown("PARTITION (q = '2020-01-02')") == ["None 2020-01-02", "a 2020-01-02"]
    assert shown("PARTITION (q = '2020-01-02', p = null)") == ["None 2020-01-02"]
    assert condition(lambda: shown("PARTITION (id = 1)")) == "DELTA_SHOW_PARTITION_IN_NON_PARTITIONED_COLUMN"
    assert condition(lambda: shown("PARTITION (p)")) == "PARSE_SYNTAX_ERROR"


def test_another_name(active: SparkSession, tmp_path: Path) -> None:
    active.sql("CREATE TABLE made_t USING delta AS SELECT 1 AS id")
    active.sql(f"CREATE TABLE made_u (id INT) USING delta LOCATION '{tmp_path / 'u'}'")
    before = place(active, "made_t")
    active.sql("ALTER TABLE made_t RENAME TO made_v")
    active.sql("ALTER TABLE default.made_u RENAME TO default.made_w")
    assert (place(active, "made_v").name, before.exists(), place(active, "made_w")) == ("made_v", False, tmp_path / "u")
    active.sql("INSERT INTO made_v VALUES (2)")
    assert active.table("made_v").count() == 2
    assert condition(lambda: active.sql("SHOW PARTITIONS made_v")) == "DELTA_SHOW_PARTITION_IN_NON_PARTITIONED_TABLE"
    for statement, expected in {
        "ALTER TABLE made_v RENAME TO made_w": "TABLE_OR_VIEW_ALREADY_EXISTS",
        "ALTER TABLE made_t RENAME TO made_x": "TABLE_OR_VIEW_NOT_FOUND",
        f"ALTER TABLE delta.`{tmp_path}` RENAME TO made_x": "DELTA_OPERATION_NOT_ALLOWED",
    }.items():
        assert condition(lambda text=statement: active.sql(text).collect()) == expected  # type: ignore[misc]


def test_truncate(active: SparkSession, rows: DataFrame) -> None:
    rows.write.format("delta").saveAsTable("made_t")
    assert condition(lambda: active.sql("TRUNCATE TABLE made_t PARTITION (p = 1)")) == (
        "DELTA_TRUNCATE_TABLE_PARTITION_NOT_SUPPORTED"
    )
    active.sql("TRUNCATE TABLE made_t")
    assert active.table("made_t").count() == 0


LIKE = """CREATE TABLE {t} (id INT NOT NULL COMMENT 'key', c CHAR(3), p STRING DEFAULT 'x') USING delta PARTITIONED BY (p)
COMMENT 'why' TBLPROPERTIES ('delta.appendOnly' = 'true', 'a' = 'b', 'delta.feature.allowColumnDefaults' = 'supported')"""


def test_a_table_like_another_one(active: SparkSession, tmp_path: Path) -> None:
    active.sql(LIKE.format(t="made_s"))
    active.sql("INSERT INTO made_s VALUES (1, 'a', 'y')")
    active.sql("CREATE TABLE made_t LIKE made_s")
    assert told(active, "made_t") == ("CREATE TABLE", "true")
    active.sql(f"CREATE TABLE made_u LIKE made_s USING DELTA TBLPROPERTIES ('c' = 'd') LOCATION '{tmp_path / 'u'}'")
    assert told(active, "made_u") == ("CREATE TABLE", "false")
    source = active.sql("DESCRIBE DETAIL made_s").first()
    for name, more in (("made_t", {}), ("made_u", {"c": "d"})):
        detail = active.sql(f"DESCRIBE DETAIL {name}").first()
        assert (detail.description, detail.partitionColumns) == ("why", ["p"])
        assert detail.properties == {**source.properties, **more}
        assert detail.tableFeatures == source.tableFeatures
        assert active.table(name).schema.simpleString() == active.table("made_s").schema.simpleString()
        active.sql(f"INSERT INTO {name} (id, c) VALUES (2, 'b')")
        assert [tuple(row) for row in active.table(name).collect()] == [(2, "b  ", "x")]
    active.sql("CREATE TABLE IF NOT EXISTS made_t LIKE made_s")
    assert condition(lambda: active.sql("CREATE TABLE made_t LIKE made_s")) == "TABLE_OR_VIEW_ALREADY_EXISTS"
    assert condition(lambda: active.sql("CREATE TABLE made_v LIKE made_nix USING delta")) == "TABLE_OR_VIEW_NOT_FOUND"
    assert condition(lambda: active.sql("CREATE TABLE made_v LIKE made_nix").collect()) == "TABLE_OR_VIEW_NOT_FOUND"


def test_a_table_like_one_of_another_format(active: SparkSession) -> None:
    active.sql("CREATE TABLE made_p (id INT) USING parquet")
    active.sql("CREATE TABLE made_q LIKE made_p")
    assert active.table("made_q").columns == ["id"]
    active.sql("CREATE TABLE made_s (id INT) USING delta")
    for text in ("LIKE made_p USING delta", "LIKE made_s USING parquet", "LIKE made_s STORED AS orc"):
        assert condition(lambda text=text: active.sql(f"CREATE TABLE made_t {text}")) == "DELTA_OPERATION_NOT_ALLOWED"
    assert not active.catalog.tableExists("made_t")


def test_an_external_table(active: SparkSession, tmp_path: Path) -> None:
    active.sql(f"CREATE EXTERNAL TABLE made_t (id INT) USING delta LOCATION '{tmp_path / 't'}'")
    assert told(active, "made_t") == ("CREATE TABLE", "false")
    active.sql("DROP TABLE made_t")
    assert (tmp_path / "t" / "_delta_log").exists()
    active.sql(f"CREATE EXTERNAL TABLE made_t USING delta LOCATION '{tmp_path / 'u'}' AS SELECT 1 AS id")
    assert [tuple(row) for row in active.table("made_t").collect()] == [(1,)]
    assert condition(lambda: active.sql("CREATE EXTERNAL TABLE made_u (id INT) USING delta")) == "DELTA_OPERATION_NOT_ALLOWED"


def test_a_table_made_by_the_catalog(active: SparkSession, rows: DataFrame, tmp_path: Path) -> None:
    made = active.catalog.createTable("made_t", source="delta", schema=rows.schema, description="why")
    assert (made.schema, made.collect()) == (rows.schema, [])
    assert told(active, "made_t") == ("CREATE TABLE", "true")
    assert active.sql("DESCRIBE DETAIL made_t").first().description == "why"
    rows.write.insertInto("made_t")
    assert active.table("made_t").count() == 3
    rows.write.format("delta").save(str(tmp_path / "u"))
    found = active.catalog.createTable("default.made_u", str(tmp_path / "u"), "Delta")
    assert (found.count(), told(active, "made_u")[1]) == (3, None)
    again = condition(lambda: active.catalog.createTable("made_t", source="delta", schema=rows.schema))
    assert again == "TABLE_OR_VIEW_ALREADY_EXISTS"
    other = condition(lambda: active.catalog.createTable("made_v", str(tmp_path / "u"), "delta", schema=active.range(1).schema))
    assert other == "DELTA_CREATE_TABLE_SCHEME_MISMATCH"
    assert condition(lambda: active.catalog.createTable("made_v", source="delta", foo="bar")) == "DELTA_OPERATION_NOT_ALLOWED"
    assert active.catalog.createTable("made_w", source="parquet", schema=rows.schema).count() == 0


def test_tables_made_at_once_have_their_own_columns(active: SparkSession) -> None:
    """In the catalog, too: what SHOW TABLE EXTENDED shows of a table is what another session, or Hive, sees of it."""

    def make(thread: int) -> None:
        for number in range(6):
            name = f"{thread}_{number}"
            active.sql(f"CREATE TABLE made_{name} USING delta AS SELECT {number} AS n_{name}, 'a' AS {'abc'[thread]}")

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(make, range(3)))
    for row in active.sql("SHOW TABLE EXTENDED LIKE 'made_*'").collect():
        name = row.tableName.removeprefix("made_")
        columns = [f"n_{name}", "abc"[int(name[0])]]
        assert active.table(row.tableName).columns == columns
        assert re.findall(r"\|-- (\w+):", row.information) == columns


def test_the_catalog_tells_properties_and_recovers_no_partitions(active: SparkSession) -> None:
    active.sql("CREATE TABLE made_t (id INT) USING delta TBLPROPERTIES ('k' = 'v', 'delta.appendOnly' = 'true')")
    told = getattr(active.catalog, "getTableProperties", None)
    if told is not None:  # from PySpark 4.2 on
        found = told("made_t")
        assert (found["k"], found["delta.appendOnly"]) == ("v", "true")
    assert condition(lambda: active.catalog.recoverPartitions("made_t")) == "DELTA_OPERATION_NOT_ALLOWED"
