"""Which sources are Parquet files that workers may read in Spark's place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

import deltamerge
from deltamerge.spark.source_files import SourceFile, shares, source_files
from deltamerge.tables import DeltaTable
from deltamerge.worker.store import DataStore
from tests.e2e.tables import conf

SCHEMA = "k long, v int, w string, d decimal(10,2)"
STORE = DataStore("file", "/")
pytestmark = pytest.mark.local(reason="sources lie on a disk")


@pytest.fixture(scope="module")
def place(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two Parquet files of 10 rows in all."""
    folder = tmp_path_factory.mktemp("sources") / "a folder with = and %41"
    rows = spark.range(10).selectExpr("id AS k", "CAST(id AS int) AS v", "CONCAT('w', id) AS w", "CAST(id AS decimal(10,2)) AS d")
    rows.repartition(2).write.parquet(str(folder))
    return folder


WHOLE: dict[str, Callable[[SparkSession, str], DataFrame]] = {
    "all": lambda spark, place: spark.read.parquet(place),
    "given a schema": lambda spark, place: spark.read.schema(SCHEMA).parquet(place),
    "some columns": lambda spark, place: spark.read.parquet(place).select("w", "k"),
    "dropped": lambda spark, place: spark.read.parquet(place).drop("d"),
    "alias": lambda spark, place: spark.read.parquet(place).alias("s"),
    "text": lambda spark, place: spark.sql(f"SELECT * FROM parquet.`{place}`"),
    "several paths": lambda spark, place: spark.read.parquet(*sorted(map(str, Path(place).glob("*.parquet")))),
    "pattern": lambda spark, place: spark.read.parquet(f"{place.replace('%', '?')}/part*"),
}
OTHER: dict[str, Callable[[SparkSession, str], DataFrame]] = {
    "filtered": lambda spark, place: spark.read.parquet(place).where("k > 3"),
    "filtered by what is in all rows": lambda spark, place: spark.read.parquet(place).where("k IS NOT NULL"),
    "renamed": lambda spark, place: spark.read.parquet(place).withColumnRenamed("v", "x"),
    "swapped": lambda spark, place: spark.read.parquet(place).selectExpr("CAST(v AS long) AS k", "CAST(k AS int) AS v", "w", "d"),
    "swapped names": lambda spark, place: spark.read.parquet(place).selectExpr("w AS x", "k AS v", "v AS k"),
    "computed": lambda spark, place: spark.read.parquet(place).withColumn("v", F.col("v") + 1),
    "constant": lambda spark, place: spark.read.parquet(place).withColumn("x", F.lit(1)),
    "limited": lambda spark, place: spark.read.parquet(place).limit(4),
    "sampled": lambda spark, place: spark.read.parquet(place).sample(0.5),
    "path given twice": lambda spark, place: spark.read.parquet(place, place),
    "folder and file": lambda spark, place: spark.read.parquet(place, str(next(Path(place).glob("*.parquet")))),
    "twice": lambda spark, place: spark.read.parquet(place).union(spark.read.parquet(place)),
    "distinct": lambda spark, place: spark.read.parquet(place).distinct(),
    "checkpointed": lambda spark, place: spark.read.parquet(place).localCheckpoint(),
    "file names": lambda spark, place: spark.read.parquet(place).select("k", "_metadata.file_name"),
    "nested": lambda spark, place: spark.read.parquet(place).select(F.struct("k", "v").alias("k")),
    "local": lambda spark, place: spark.createDataFrame([(1, 2)], "k long, v int"),
}


@pytest.mark.parametrize("name", WHOLE)
def test_frames_that_are_files(spark: SparkSession, place: Path, name: str) -> None:
    frame = WHOLE[name](spark, str(place))
    found = source_files(frame, frame.schema, STORE)
    assert sorted(Path(file.name.removeprefix("file://")) for file in found) == sorted(place.glob("*.parquet"))
    assert sum(file.rows for file in found) == frame.count() == 10
    assert all(file.bytes > 0 and file.groups == 1 for file in found)


@pytest.mark.parametrize("name", OTHER)
def test_frames_that_are_more_than_files(spark: SparkSession, place: Path, name: str) -> None:
    frame = OTHER[name](spark, str(place))
    assert source_files(frame, frame.schema, STORE) == ()


def test_partitions_are_no_columns_of_files(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(4).selectExpr("id AS k", "id % 2 AS p", "id AS v")
    rows.write.partitionBy("p").parquet(str(tmp_path / "parts"))
    frame = spark.read.parquet(str(tmp_path / "parts"))
    for found in (frame, frame.select("k", "v"), frame.where("p = 1").select("k", "v")):
        assert source_files(found, found.schema, STORE) == () or found.columns == ["k", "v"]
    rows.write.parquet(str(tmp_path / "both" / "v=7"))
    both = spark.read.parquet(str(tmp_path / "both"))
    assert {row.v for row in both.collect()} == {7}
    assert source_files(both, both.schema, STORE) == ()


def test_other_formats_and_tables_are_no_parquet_files(spark: SparkSession, tmp_path: Path, place: Path) -> None:
    spark.read.parquet(str(place)).write.orc(str(tmp_path / "orc"))
    spark.read.parquet(str(place)).drop("d").write.json(str(tmp_path / "json"))
    for frame in (spark.read.orc(str(tmp_path / "orc")), spark.read.json(str(tmp_path / "json"))):
        assert source_files(frame, frame.schema, STORE) == ()


def test_a_delta_table_is_what_its_reader_makes_of_it(spark: SparkSession, tmp_path: Path, place: Path) -> None:
    deltamerge.write(spark.read.parquet(str(place)).where("k > 5"), str(tmp_path / "t"))
    DeltaTable.forPath(spark, str(tmp_path / "t")).delete("k = 7")
    frame = deltamerge.read(spark, str(tmp_path / "t"))
    found = source_files(frame, frame.schema, STORE)
    assert sum(file.rows for file in found) in (0, 3)


SETTINGS = {
    "spark.sql.caseSensitive": "true",
    "spark.sql.parquet.binaryAsString": "true",
    "spark.sql.parquet.int96TimestampConversion": "true",
    "spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.legacy.parquet.nanosAsLong": "true",
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_that_change_what_files_hold(spark: SparkSession, place: Path, name: str) -> None:
    with conf(spark, {name: SETTINGS[name]}):
        frame = spark.read.parquet(str(place))
        assert source_files(frame, frame.schema, STORE) == ()


@pytest.mark.parametrize("reads", ["true", "false"])
def test_columns_that_are_found_by_ids(spark: SparkSession, place: Path, reads: str) -> None:
    named, by_id = (T.StructType([T.StructField("k", T.LongType(), True, found)]) for found in ({}, {"parquet.field.id": 7}))
    with conf(spark, {"spark.sql.parquet.fieldId.read.enabled": reads}):
        for schema in (named, by_id):
            frame = spark.read.schema(schema).parquet(str(place))
            assert bool(source_files(frame, frame.schema, STORE)) is (schema is named)


def test_names_that_could_be_read_otherwise(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("_tmp_metadata_row_index", "a.b", "a,b", "a:b", "k#1L", "ä", "a)b", "struct<k"):
        rows = spark.range(3).withColumnRenamed("id", name)
        with conf(spark, {"spark.sql.caseSensitive": "false"}):
            try:
                rows.write.parquet(str(tmp_path / name.encode().hex()))
            except Exception:
                continue
            frame = spark.read.parquet(str(tmp_path / name.encode().hex()))
            assert source_files(frame, frame.schema, STORE) == (), name


def test_a_file_that_is_gone_or_no_parquet(spark: SparkSession, tmp_path: Path, place: Path) -> None:
    spark.read.parquet(str(place)).coalesce(1).write.parquet(str(tmp_path / "gone"))
    frame = spark.read.schema(SCHEMA).parquet(str(tmp_path / "gone"))
    (file,) = (tmp_path / "gone").glob("*.parquet")
    file.write_bytes(b"PAR1 this is none PAR1")
    assert source_files(frame, frame.schema, STORE) == ()
    file.unlink()
    assert source_files(frame, frame.schema, STORE) == ()


def test_too_many_files_are_left_to_spark(spark: SparkSession, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltamerge.spark.source_files._MOST_FILES", 1)
    frame = spark.read.parquet(str(place))
    assert source_files(frame, frame.schema, STORE) == ()


def test_bytes_are_those_of_the_columns_that_are_read(spark: SparkSession, place: Path) -> None:
    frame = spark.read.parquet(str(place))
    sizes = [sum(f.bytes for f in source_files(part, part.schema, STORE)) for part in (frame, frame.select("k"))]
    metadata = [pq.ParquetFile(file).metadata.row_group(0) for file in place.glob("*.parquet")]
    assert sizes[0] == sum(group.total_byte_size for group in metadata)
    assert sizes[1] == sum(group.column(0).total_uncompressed_size for group in metadata)


def test_shares_are_of_about_the_same_bytes() -> None:
    large = SourceFile("large", 1000, 300 << 20, 10, (1, 1))
    small = [SourceFile(f"small {n}", 10, 20 << 20, 4, (1, 1)) for n in range(5)]
    one = SourceFile("one group", 10, 200 << 20, 1, (1, 1))
    found = [[(task.name, task.share) for task in bin] for bin in shares([large, *small, one])]
    assert found == [
        [("small 0", (0, 1)), ("small 1", (0, 1)), ("small 2", (0, 1))],
        [("small 3", (0, 1)), ("small 4", (0, 1))],
        [("one group", (0, 1))],
        *[[("large", (part, 5))] for part in range(5)],
    ]
