"""`spark.read.format("delta")`, `spark.read.table` and `spark.table` in an active session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, UnsupportedOperationException
from pyspark.sql import DataFrame, SparkSession

import deltamerge
from deltamerge.activation import reader as module
from deltamerge.spark.pyspark.plain import plain_reader
from deltamerge.tables import DeltaTable
from tests.e2e.catalog import listed
from tests.e2e.tables import conf, make, noted


@pytest.fixture(autouse=True)
def active(spark: SparkSession) -> Iterator[None]:
    """The session is active for the time of the test."""
    deltamerge.activate(spark)
    yield
    deltamerge.deactivate(spark)


@pytest.fixture
def path(spark: SparkSession, tmp_path: Path) -> str:
    """Row 1 in version 0, rows 2 and 3 since version 1, row 3 gone in version 2."""
    place = tmp_path / "t"
    make(spark, place, "id int, n int", [(1, 10)], properties={"delta.enableChangeDataFeed": "true"})
    make(spark, place, "id int, n int", [(2, 20), (3, 30)])
    DeltaTable.forPath(spark, str(place)).delete("id = 3")
    return str(place)


def ids(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.collect())


@pytest.mark.connect
def test_a_table_is_loaded(spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scans = noted(monkeypatch, module, "delta_frame")
    assert isinstance(spark.read, type(plain_reader(spark)))
    assert ids(spark.read.format("delta").load(path)) == [1, 2]
    assert ids(spark.read.load(path, format="Delta", versionAsOf=1)) == [1, 2, 3]
    assert ids(spark.read.format("delta").option("path", path).option("VERSIONASOF", "0").load()) == [1]
    assert ids(spark.read.options(anything=True).format("delta").load([f"{path}@v1"])) == [1, 2, 3]
    assert ids(spark.table(f"delta.`{path}`")) == ids(spark.read.table(f"delta.`{path}@v2`")) == [1, 2]
    assert len(scans) == 6
    with conf(spark, {"spark.sql.sources.default": "delta"}):
        assert ids(spark.read.load(path)) == [1, 2]


def test_a_table_is_loaded_as_of_a_time(spark: SparkSession, path: str) -> None:
    (at,) = DeltaTable.forPath(spark, path).history().where("version = 1").selectExpr("string(timestamp)").first()
    (compact,) = spark.sql(f"SELECT date_format(TIMESTAMP'{at}', 'yyyyMMddHHmmssSSS')").first()
    assert 1 in ids(spark.read.format("delta").option("timestampAsOf", at).load(path))
    assert 1 in ids(spark.read.format("delta").load(f"{path}@{compact}"))
    with pytest.raises(AnalysisException, match="DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION"):
        spark.read.format("delta").option("timestampAsOf", "2001-01-01").load(path)


def test_changes_are_loaded(spark: SparkSession, path: str) -> None:
    def changes(**options: Any) -> list[tuple[Any, ...]]:
        found = spark.read.format("delta").options(readChangeFeed=True, **options).load(path)
        return sorted(tuple(row) for row in found.select("_commit_version", "id", "_change_type").collect())

    assert changes(startingVersion=1) == [(1, 2, "insert"), (1, 3, "insert"), (2, 3, "delete")]
    assert changes(startingVersion="0", endingVersion=0) == [(0, 1, "insert")]
    assert (2, 3, "delete") in changes(startingTimestamp="2001-01-01")
    legacy = spark.read.format("delta").option("readChangeData", "true").option("startingVersion", 2)
    assert ids(legacy.load(path)) == ids(legacy.table(f"delta.`{path}`")) == [3]
    with pytest.raises(AnalysisException, match="DELTA_NO_START_FOR_CDC_READ"):
        changes()


def test_tables_of_the_catalog_are_read(spark: SparkSession, path: str) -> None:
    with listed(spark, {"read_by_name": path}):
        assert ids(spark.table("read_by_name")) == ids(spark.read.table("default.read_by_name")) == [1, 2]
        assert ids(spark.read.option("versionAsOf", 0).table("read_by_name")) == [1]
        feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 2)
        assert ids(feed.table("read_by_name")) == [3]


def test_other_formats_are_sparks(spark: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "csv")
    spark.range(2).write.csv(place)
    assert ids(spark.read.schema("id int").option("header", "false").csv(place)) == [0, 1]
    assert ids(spark.read.load(place, "csv", "id int")) == [0, 1]
    spark.range(3).createOrReplaceTempView("three")
    try:
        assert ids(spark.table("three")) == ids(spark.read.table("three")) == [0, 1, 2]
    finally:
        spark.catalog.dropTempView("three")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.table("not_there").collect()


def test_no_option_is_silently_ignored(spark: SparkSession, path: str, caplog: pytest.LogCaptureFixture) -> None:
    for near, meant in (("versonAsOf", "versionAsOf"), ("version", "versionAsOf"), ("readChangesFeed", "readChangeFeed")):
        with pytest.raises(IllegalArgumentException, match=rf"(?s)DELTAMERGE_UNKNOWN_OPTION.*{near.lower()}.*mean {meant}\?"):
            spark.read.format("delta").option(near, 1).load(path)
    options = {"header": "true", "startingVersion": "1", "fs.s3a.access.key": "k", "versionAsOf": "0"}
    assert ids(spark.read.format("delta").options(**options).load(path)) == [1]
    assert [record.getMessage() for record in caplog.records if record.name == "deltamerge.activation"] == [
        "These options say nothing to a Delta table that is read, and are ignored: header, startingVersion."
    ]


def test_what_cannot_be_is_refused(spark: SparkSession, path: str) -> None:
    def load(*given: Any, **options: Any) -> DataFrame:
        return spark.read.format("delta").options(**options).load(*given)

    with pytest.raises(UnsupportedOperationException, match="DELTA_UNSUPPORTED_SCHEMA_DURING_READ"):
        spark.read.schema("id int").format("delta").load(path)
    with pytest.raises(AnalysisException, match="MULTIPLE_LOAD_PATH"):
        load([path, path])
    with pytest.raises(IllegalArgumentException, match="DELTAMERGE_NO_PATH"):
        load()
    with pytest.raises(AnalysisException, match="DELTAMERGE_SEVERAL_PATHS"):
        load(path, path=path)
    with pytest.raises(IllegalArgumentException, match="DELTA_TIME_TRAVEL_INVALID_BEGIN_VALUE"):
        load(path, versionAsOf="newest")
    with pytest.raises(IllegalArgumentException, match="DELTA_ONEOF_IN_TIMETRAVEL"):
        load(path, versionAsOf=0, timestampAsOf="2024-01-01")
    with pytest.raises(IllegalArgumentException, match="DELTA_ILLEGAL_OPTION"):
        load(path, readChangeFeed="yes")
    with pytest.raises(AnalysisException, match="DELTA_VERSION_INVALID"):
        load(path, readChangeFeed=True, startingVersion="latest")
    for feed_of in ({"versionAsOf": 0}, {}):
        with pytest.raises(AnalysisException, match="DELTA_UNSUPPORTED_TIME_TRAVEL_VIEWS"):
            load(path if feed_of else f"{path}@v0", readChangeFeed=True, startingVersion=0, **feed_of)
    with pytest.raises(AnalysisException, match="DELTA_UNSUPPORTED_TIME_TRAVEL_MULTIPLE_FORMATS"):
        load(f"{path}@v0", versionAsOf=0)
    with pytest.raises(AnalysisException, match="DELTA_MISSING_DELTA_TABLE"):
        load(f"{path}/nothing")


@pytest.mark.local(reason="the catalog's table is on a local disk")
def test_options_of_a_query_name_a_version(spark: SparkSession, tmp_path: Path) -> None:
    for count in (2, 3):
        deltamerge.write(spark.range(count), str(tmp_path / "t"), mode="overwrite")
    with listed(spark, {"optioned": tmp_path / "t"}):
        for name in (f"delta.`{tmp_path / 't'}`", "optioned"):
            for options, count in (("'versionAsOf' = '0'", 2), ("versionAsOf 1", 3), ("'versionAsOf' = '0', 'other' = 1", 2)):
                assert deltamerge.sql(spark, f"SELECT id FROM {name} WITH ({options}) x").count() == count
