"""Which sources are Parquet files that workers, or this process, may read in Spark's place, and that the rows are the same."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

import deltamerge
from deltamerge.budgets import Budgets
from deltamerge.errors import DeltaMergeError
from deltamerge.merge import line
from deltamerge.spark.pyspark import adapter
from deltamerge.spark.session.jobs import collect
from deltamerge.spark.source import inspect, parquet_files
from deltamerge.spark.source.facts import SourceFile
from deltamerge.spark.source.parquet_files import read_files, shares, visible_here
from deltamerge.spark.source.parquet_files import source_files as files_of
from deltamerge.tables import DeltaTable
from deltamerge.worker.scan.outcomes import SourceUnreadable
from deltamerge.worker.scan.store import DataStore
from tests.e2e.counting import jobs_of
from tests.e2e.tables import conf, content, make, noted

SCHEMA = "k long, v int, w string, d decimal(10,2)"


def source_files(frame: DataFrame, schema: T.StructType, store: DataStore) -> tuple[SourceFile, ...]:
    """The files of a source, of whose columns no bounds are read."""
    return files_of(frame, schema, store, (), Budgets())


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


def test_too_many_files_are_left_to_spark(spark: SparkSession, place: Path) -> None:
    frame = spark.read.parquet(str(place))
    assert files_of(frame, frame.schema, STORE, (), Budgets(source_files=1)) == ()


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
    found = [[(task.name, task.share) for task in bin] for bin in shares([large, *small, one], 64 << 20)]
    assert found == [
        [("small 0", (0, 1)), ("small 1", (0, 1)), ("small 2", (0, 1))],
        [("small 3", (0, 1)), ("small 4", (0, 1))],
        [("one group", (0, 1))],
        *[[("large", (part, 5))] for part in range(5)],
    ]


ODD = """SELECT id AS k, CAST(id AS byte) AS b, CAST(id AS short) AS h, CAST(id AS int) AS i, IF(id % 3 = 0, NULL, id / 7) AS d,
    CAST(id / 3 AS float) AS f, CAST(id AS decimal(38,9)) AS big, CAST(id AS decimal(9,2)) AS small, id % 2 = 0 AS even,
    IF(id % 5 = 0, NULL, CONCAT('ä', id)) AS w, BINARY(STRING(id)) AS raw, DATE_ADD(DATE'1969-12-01', CAST(id AS int)) AS day,
    TIMESTAMP_MICROS(id * 1234567 - 90000000) AS at, TIMESTAMP_NTZ'2024-03-10 02:30:00.123456' AS local, CAST(NULL AS int) AS none
    FROM RANGE(100)"""


def here(frame: DataFrame, at_most: int = 1 << 30) -> pa.Table | None:
    """A frame's rows, read without Spark, a part in each thread."""
    budgets = Budgets(collected_bytes=at_most, source_read_bytes=1)
    files = source_files(frame, frame.schema, STORE)
    found = read_files(files, frame.schema, STORE, budgets) if files else None
    return found if isinstance(found, pa.Table) else None


@pytest.mark.parametrize("times", ["INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"])
def test_rows_read_here_are_spark_s(spark: SparkSession, tmp_path: Path, times: str) -> None:
    with conf(spark, {"spark.sql.parquet.outputTimestampType": times, "spark.sql.session.timeZone": "America/New_York"}):
        spark.sql(ODD).repartition(3).write.option("parquet.block.size", "1024").parquet(str(tmp_path / "odd"))
        frame = spark.read.parquet(str(tmp_path / "odd"))
        found, expected = here(frame), collect(frame, "test", frame.schema)
    # Milliseconds are left to Spark.
    assert (found is None) == (times == "TIMESTAMP_MILLIS")
    if found is not None:
        assert found.schema.equals(expected.schema)
        assert found.sort_by("k").equals(expected.sort_by("k"))
        assert found.num_rows == 100


def test_rows_that_are_not_read_here(spark: SparkSession, tmp_path: Path, place: Path) -> None:
    frame = spark.read.parquet(str(place))
    found = here(frame)
    assert found is not None
    assert found.sort_by("k")["w"].to_pylist() == [f"w{n}" for n in range(10)]
    assert here(frame, at_most=found.nbytes // 2) is None
    assert here(frame.where("k > 3")) is None
    pq.write_table(pa.table({"day": pa.array([-300_000], pa.date32())}), tmp_path / "ancient.parquet")
    assert here(spark.read.parquet(str(tmp_path / "ancient.parquet"))) is None
    pq.write_table(pa.table({"w": ["x" * 100] * 100_000}), tmp_path / "packed.parquet")
    packed = spark.read.parquet(str(tmp_path / "packed.parquet"))
    assert sum(file.bytes for file in source_files(packed, packed.schema, STORE)) < 1_000_000
    assert here(packed, at_most=1_000_000) is None
    spark.range(3).write.parquet(str(tmp_path / "changing"))
    changing = spark.read.parquet(str(tmp_path / "changing"))
    files = source_files(changing, changing.schema, STORE)
    for file in (tmp_path / "changing").glob("*.parquet"):
        pq.write_table(pa.table({"id": pa.array([7], pa.int64())}), file)
    assert isinstance(read_files(files, changing.schema, STORE, Budgets()), SourceUnreadable)


def test_files_of_another_machine_are_not_read_here(spark: SparkSession, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = spark.read.parquet(str(place))
    files = source_files(frame, frame.schema, STORE)
    monkeypatch.setattr(parquet_files, "is_here", lambda _: False)
    assert not visible_here(frame, files, STORE)
    assert not visible_here(frame, files, DataStore("s3", "bucket/table"))


def test_which_sessions_see_this_machine_s_files(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    assert adapter.is_here(spark) is not os.environ.get("SPARK_REMOTE", "").startswith("sc:")
    monkeypatch.setattr(adapter, "is_connect", lambda _: True)
    client: Any = SimpleNamespace(client=SimpleNamespace(host="localhost"))
    monkeypatch.setenv("SPARK_LOCAL_REMOTE", "1")
    assert adapter.is_here(client)
    client.client.host = "spark.example"
    assert not adapter.is_here(client)
    client.client = None
    assert not adapter.is_here(client)
    client.client = SimpleNamespace(host="localhost")
    monkeypatch.delenv("SPARK_LOCAL_REMOTE")
    assert not adapter.is_here(client)


def test_files_in_other_buckets_are_left_to_spark() -> None:
    store = DataStore("s3", "bucket/a/table")
    names = ("s3a://bucket/x", "s3://bucket/x", "file:///x", "/x", "file:/x", "s3a://other/x", "s3a://bucket.other/x")
    assert [parquet_files._is_reached(store, name) for name in names] == [True] * 5 + [False] * 2


def test_files_with_odd_metadata_are_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    rows = pa.table({"k": pa.array([1, 2], pa.int64())})
    odd = pa.table([[1, 2], [3, 4]], schema=pa.schema([pa.field("k", pa.int64()), pa.field(b"\xff\xfe", pa.int64())]))
    zone = {"org.apache.spark.version": "3.5.0", "org.apache.spark.timeZone": b"\xff"}
    for name, table in (("name", odd), ("zone", rows.replace_schema_metadata(zone))):
        pq.write_table(table, tmp_path / f"{name}.parquet")
        target = make(spark, tmp_path / name, "k long", [(1,), (20,)])
        source = spark.read.schema("k long").parquet(str(tmp_path / f"{name}.parquet"))
        target.merge(source.alias("s"), "t.k = s.k").whenMatchedDelete().execute()
        assert content(spark, tmp_path / name) == [(20,)]


@pytest.mark.parametrize("reads", ["here", "by Spark"])
def test_small_files_are_merged_without_a_job(
    spark: SparkSession, tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch, reads: str
) -> None:
    if reads == "by Spark":
        monkeypatch.setattr(inspect, "may_be_parquet", lambda _: False)
    table = make(spark, tmp_path / "t", SCHEMA, [(1, 0, "a", None), (20, 0, "b", None)])
    rows, sources = spark.read.parquet(str(place)), noted(monkeypatch, line, "evaluate")
    before = jobs_of(spark)
    table.merge(rows.alias("s"), "t.k = s.k").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert jobs_of(spark) - before == (1 if reads == "by Spark" and jobs_of(spark) else 0)
    assert sources[0].collected.num_rows == 10
    assert sorted(row[0] for row in content(spark, tmp_path / "t")) == [*range(10), 20]


def test_files_that_can_t_be_read_fail_as_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", "k long", [(1,), (20,)])
    spark.range(100).coalesce(1).write.option("compression", "none").parquet(str(tmp_path / "s"))
    rows = spark.read.parquet(str(tmp_path / "s"))
    (file,) = (tmp_path / "s").glob("*.parquet")
    file.unlink()
    with pytest.raises(DeltaMergeError, match=r"FAILED_READ_FILE|FILE_NOT_EXIST"):
        table.merge(rows.alias("s"), "t.k = s.id").whenMatchedDelete().execute()
    assert len(content(spark, tmp_path / "t")) == 2
