"""Sources that workers read: what they read as Spark does, and which files are left to Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import deltamerge
from deltamerge.errors import DeltaMergeError, StorageError
from deltamerge.merge.execute import exchange
from deltamerge.tables import DeltaTable
from tests.e2e.exchanges import CHANGES, JOIN, LEGAL, RANGE, ROWS, SCHEMA, WAYS, parquet
from tests.e2e.tables import conf, content, make, noted


@pytest.mark.parametrize("name", ["upsert", "sync"])
def test_a_file_that_spark_may_read_otherwise_is_left_to_spark(
    spark: SparkSession, tmp_path: Path, read_by_spark: list[DataFrame], apart: None, name: str, way: str
) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=3)
    place = tmp_path / "changes"
    parquet(spark, place, CHANGES)
    lacking = pa.table({"k": pa.array([7, 77], pa.int64()), "v": pa.array([1, 2], pa.int32())})
    pq.write_table(lacking, place / "lacking.parquet")
    source = spark.read.schema(SCHEMA).parquet(str(place)).alias("s")
    LEGAL[name](table.merge(source, "t.k = s.k")).execute()
    assert len(read_by_spark) == 1
    found = content(spark, tmp_path / "t")
    assert (77, 2, None) in found
    assert ((7, 1, None) in found) is (name == "upsert")


ANCIENT = pa.array([-200_000, 3], pa.date32())
ODD = {
    "dates of an unknown calendar": {"d": ANCIENT},
    "times of an unknown calendar": {"t": pa.array([-20 * 10**15, 3], pa.timestamp("us", "UTC"))},
    "milliseconds": {"t": pa.array([2**61, 3], pa.timestamp("ms", "UTC"))},
    "nanoseconds": {"t": pa.array([2**61, 3], pa.timestamp("ns", "UTC"))},
    "times without a zone": {"t": pa.array([3, 4], pa.timestamp("us"))},
    "names that differ in case": {"d": ANCIENT.slice(1).take([0, 0]), "D": ANCIENT.slice(1).take([0, 0])},
    "whole numbers": {"d": pa.array([1, 2], pa.int32())},
}


@pytest.mark.parametrize("kind", ODD)
def test_values_that_spark_may_read_otherwise_are_left_to_it(
    spark: SparkSession, tmp_path: Path, read_by_spark: list[DataFrame], apart: None, kind: str
) -> None:
    (tmp_path / "changes").mkdir()
    pq.write_table(pa.table({"k": pa.array([3, 77]), **ODD[kind]}), tmp_path / "changes" / "odd.parquet")
    name = next(iter(ODD[kind]))
    schema = f"k long, {name} {'timestamp' if name == 't' else 'date'}"
    read = spark.read.schema(schema)
    options = [{}] if kind.startswith("n") else [{}, {"datetimeRebaseMode": "LEGACY"}, {"datetimeRebaseMode": "EXCEPTION"}]
    for number, option in enumerate(options):
        ends = []
        for settings in (RANGE, JOIN):
            place = tmp_path / f"t{number}{settings == RANGE}"
            table = make(spark, place, schema, [(3, None), (4, None)], files=2)
            source = read.options(**option).parquet(str(tmp_path / "changes")).alias("s")
            try:
                with conf(spark, settings):
                    LEGAL["upsert"](table.merge(source, "t.k = s.k")).execute()
            except DeltaMergeError as error:
                ends.append((error.condition, None))
            else:
                ends.append(("", [str(row) for row in deltamerge.read(spark, str(place)).toArrow().sort_by("k").to_pylist()]))
        assert ends[0] == ends[1]
    assert len(read_by_spark) == len(options)


@pytest.mark.parametrize("name", ["sync", "upsert"])
def test_a_file_that_is_replaced_meanwhile_is_not_read_by_positions(
    spark: SparkSession,
    tmp_path: Path,
    read_by_spark: list[DataFrame],
    apart: None,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    name: str,
) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=3)
    source = parquet(spark, tmp_path / "changes", CHANGES)
    (file,) = (tmp_path / "changes").glob("*.parquet")
    (tmp_path / "changes" / f".{file.name}.crc").unlink()
    inserted = exchange.inserted_rows

    def replacing(*given: Any) -> DataFrame:
        rows = pq.read_table(file)
        file.unlink()
        pq.write_table(rows.take(pa.array(range(rows.num_rows))[::-1]), file)
        return inserted(*given)

    monkeypatch.setattr(exchange, "inserted_rows", replacing)
    by_positions = name == "sync" or way == "hash"
    LEGAL[name](table.merge(source.alias("s"), "t.k = s.k")).execute()
    assert len(read_by_spark) == by_positions
    found = content(spark, tmp_path / "t")
    kept = [-1, 3, 39, 40] if name == "sync" else range(-1, 41)
    assert sorted(row[0] for row in found if row[0] is not None) == [*kept]
    assert name == "sync" or (3, 1, "w3") in found
    log = deltamerge.read(spark, str(tmp_path / "t")).inputFiles()
    copied = 0 if name == "sync" else 1  # a file without a changed row stays
    assert len(list((tmp_path / "t").glob("*.parquet"))) == 3 + len(set(log)) - copied


def test_a_failure_of_the_second_job_leaves_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_by_spark: list[DataFrame], apart: None, way: str
) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=3)
    files = sorted((tmp_path / "t").rglob("*.parquet"))
    source = parquet(spark, tmp_path / "changes", CHANGES).alias("s")
    names = noted(monkeypatch, exchange, "_written")

    def full(*given: Any) -> None:
        raise StorageError("DELTAMERGE_STORAGE_REFUSED", "the disk is full")

    monkeypatch.setattr(exchange, "inserted_rows", full)
    for name in ("sync", "upsert")[: 2 if way == "hash" else 1]:
        with pytest.raises(StorageError):
            LEGAL[name](table.merge(source, "t.k = s.k")).execute()
        assert names.pop()
    assert sorted((tmp_path / "t").rglob("*.parquet")) == files
    assert not read_by_spark


TYPES = (
    "k long, b byte, h short, i int, f float, d double, q boolean, s string, z binary, e decimal(9,2), g decimal(30,5), a date"
)


@pytest.mark.parametrize("kind", ["INT96", "TIMESTAMP_MICROS"])
def test_values_of_all_plain_types_are_read_as_spark_reads_them(
    spark: SparkSession, tmp_path: Path, read_by_spark: list[DataFrame], kind: str
) -> None:
    schema = f"{TYPES}, t timestamp, n timestamp_ntz"
    made = spark.range(50).selectExpr(
        "id AS k",
        *[f"CASE WHEN id % 7 = 3 THEN NULL ELSE CAST(id % 50 - 20 AS {kind}) END AS {name}" for name, kind in
          [part.split() for part in TYPES.split(", ")[1:] if part.split()[1] not in ("binary", "boolean", "date")]],
        "id % 3 = 0 AS q",
        "CAST(CONCAT('z', id) AS BINARY) AS z",
        "DATE '1583-01-01' + CAST(id * 3000 AS INT) AS a",
        "TIMESTAMP '1901-02-03 04:05:06.789' + make_interval(id) AS t",
        "TIMESTAMP_NTZ '1901-02-03 04:05:06.789' + make_interval(id) AS n",
    ).select(*[part.split()[0] for part in schema.split(", ")])  # fmt: skip
    with conf(spark, {"spark.sql.parquet.outputTimestampType": kind}):
        made.coalesce(2).write.parquet(str(tmp_path / "changes"))
    source = spark.read.parquet(str(tmp_path / "changes"))
    results = []
    for name, settings in (*WAYS.items(), ("joined", JOIN)):
        deltamerge.write(source.where("k % 4 = 0"), str(tmp_path / name))
        table = DeltaTable.forPath(spark, str(tmp_path / name)).alias("t")
        with conf(spark, settings):
            table.merge(source.alias("s"), "t.k = s.k").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
        results.append(content(spark, tmp_path / name))
    assert results == 3 * [sorted(map(tuple, source.collect()))]
    assert not read_by_spark
