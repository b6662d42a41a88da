"""Delta tables written by many versions of Delta Lake, read exactly as they must be, or refused by name.

Each is read twice: by Spark's Parquet reader where the layout allows it, and by the Arrow scan with which merges read.
"""

from __future__ import annotations

import io
import os
import tarfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
import zstandard
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DecimalType, IntegerType

import deltamerge
from deltamerge.exceptions import catchable
from deltamerge.log.replay.table import open_log
from deltamerge.protocol.values.partitions import decode_path
from deltamerge.spark.read.snapshot import arrow_frame

GOLDEN = Path(os.environ.get("DELTAMERGE_GOLDEN", Path(__file__).parents[3] / "shared" / "golden"))

READ = [
    "124-decimal-decode-bug",
    "125-iterator-bug",
    "basic-decimal-table",
    "basic-decimal-table-legacy",
    "basic-with-inserts-deletes-checkpoint",
    "basic-with-inserts-merge",
    "basic-with-inserts-overwrite-restore",
    "basic-with-inserts-updates",
    "basic-with-vacuum-protocol-check-feature",
    "corrupted-last-checkpoint-kernel",
    "data-reader-array-complex-objects",
    "data-reader-array-primitives",
    "data-reader-date-types-America",
    "data-reader-date-types-Asia",
    "data-reader-date-types-Etc",
    "data-reader-date-types-Iceland",
    "data-reader-date-types-Jst",
    "data-reader-date-types-Pst",
    "data-reader-date-types-utc",
    "data-reader-escaped-chars",
    "data-reader-map",
    "data-reader-nested-struct",
    "data-reader-nullable-field-invalid-schema-key",
    "data-reader-partition-values",
    "data-reader-primitives",
    "data-reader-timestamp_ntz",
    "data-reader-timestamp_ntz-id-mode",
    "data-reader-timestamp_ntz-name-mode",
    "data-skipping-basic-stats-all-types",
    "data-skipping-basic-stats-all-types-checkpoint",
    "data-skipping-basic-stats-all-types-columnmapping-id",
    "data-skipping-basic-stats-all-types-columnmapping-name",
    "data-skipping-change-stats-collected-across-versions",
    "data-skipping-partition-and-data-column",
    "decimal-various-scale-precision",
    "deltalog-getChanges",
    "dv-partitioned-with-checkpoint",
    "dv-with-columnmapping",
    "kernel-timestamp-int96",
    "kernel-timestamp-pst",
    "kernel-timestamp-timestamp_micros",
    "kernel-timestamp-timestamp_millis",
    "log-replay-dv-key-cases",
    "log-replay-latest-metadata-protocol",
    "log-replay-special-characters",
    "log-replay-special-characters-a",
    "multi-part-checkpoint",
    "only-checkpoint-files",
    "parquet-all-types",
    "parquet-all-types-legacy-format",
    "parquet-decimal-dictionaries",
    "parquet-decimal-dictionaries-v2",
    "parquet-decimal-type",
    "snapshot-data0",
    "snapshot-data1",
    "snapshot-data2",
    "snapshot-data2-deleted",
    "snapshot-data3",
    "snapshot-repartitioned",
    "snapshot-vacuumed",
    "table-with-columnmapping-mode-id",
    "table-with-columnmapping-mode-name",
    "time-travel-partition-changes-a",
    "time-travel-partition-changes-b",
    "time-travel-schema-changes-a",
    "time-travel-schema-changes-b",
    "time-travel-start",
    "time-travel-start-start20",
    "time-travel-start-start20-start40",
    "v2-checkpoint-json",
    "v2-checkpoint-parquet",
]

# Tables whose data files were never shipped: only the log is read, down to the live files.
LIVE = {
    "canonicalized-paths-normal-a": [],
    "canonicalized-paths-normal-b": [],
    "canonicalized-paths-special-a": [],
    "canonicalized-paths-special-b": [],
    "checkpoint": ["15"],
    "delete-re-add-same-file-different-transactions": ["bar", "foo"],
    "deltalog-commit-info": ["abc"],
    "log-replay-special-characters-b": ["special p@#h"],
    "update-deleted-directory": sorted(map(str, range(1, 11))),
}

REFUSED = {
    "data-reader-absolute-paths-escaped-chars": "DELTAMERGE_CORRUPT_COMMIT",
    "deltalog-invalid-protocol-version": "DELTA_INVALID_PROTOCOL_VERSION",
    "deltalog-state-reconstruction-from-checkpoint-missing-metadata": "DELTA_STATE_RECOVER_ERROR",
    "deltalog-state-reconstruction-from-checkpoint-missing-protocol": "DELTA_STATE_RECOVER_ERROR",
    "deltalog-state-reconstruction-without-metadata": "DELTA_STATE_RECOVER_ERROR",
    "deltalog-state-reconstruction-without-protocol": "DELTA_STATE_RECOVER_ERROR",
    "no-delta-log-folder": "DELTA_MISSING_DELTA_TABLE",
    "versions-not-contiguous": "DELTA_VERSIONS_NOT_CONTIGUOUS",
}

# A folder of tables, none of which comes with the rows that must be read: the two readers are compared with each other.
FOLDERS = ["hive"]

# Partition values without an offset are moments in the zone of the system that wrote the table.
ZONES = {"data-reader-partition-values": "America/Los_Angeles"}

pytestmark = [
    pytest.mark.skipif(not GOLDEN.is_dir(), reason="the golden tables are not beside the repository"),
    pytest.mark.classic,
]


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which tables are unpacked."""
    return tmp_path_factory.mktemp("golden")


def unpacked(golden: Path, name: str) -> Path:
    """The folder of one table: `delta`, and `expected` when it can be read."""
    if not (golden / name).exists():
        packed = zstandard.ZstdDecompressor().decompress((GOLDEN / f"{name}.tar.zst").read_bytes(), max_output_size=1 << 28)
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(golden, filter="data")
    return golden / name


def rows(frame: DataFrame) -> Counter[str] | pa.Table:
    """Rows in comparable form: as texts, or many rows of decimals alone sorted in Arrow, which is faster."""
    if not all(isinstance(field.dataType, DecimalType | IntegerType) for field in frame.schema):
        return Counter(map(repr, frame.collect()))
    found = frame.toArrow()
    return found.sort_by([(name, "ascending") for name in found.column_names]).combine_chunks()


def types(frame: DataFrame) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in frame.schema]


def test_every_table_has_a_result() -> None:
    names = [*READ, *LIVE, *REFUSED, *FOLDERS]
    assert sorted(names) == sorted(path.name.removesuffix(".tar.zst") for path in GOLDEN.glob("*.tar.zst"))


@pytest.mark.parametrize("name", READ)
def test_the_rows_and_types_are_the_expected_ones(spark: SparkSession, golden: Path, name: str) -> None:
    table = unpacked(golden, name)
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", ZONES.get(name, "UTC"))
    try:
        expected = spark.read.parquet(str(table / "expected"))
        found = deltamerge.read(spark, str(table / "delta"))
        assert types(found) == types(expected)
        wanted = rows(expected)
        assert rows(found) == wanted
        assert rows(arrow_frame(spark, open_log(str(table / "delta")).snapshot())) == wanted
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


@pytest.mark.parametrize("name", LIVE)
def test_the_live_files_are_the_expected_ones(golden: Path, name: str) -> None:
    snapshot = open_log(str(unpacked(golden, name) / "delta")).snapshot()
    assert sorted(decode_path(path) for path in snapshot.files.column("path").to_pylist()) == LIVE[name]


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_table_is_refused_by_name(golden: Path, name: str) -> None:
    table = unpacked(golden, name)
    with pytest.raises(PySparkException) as caught:
        catchable(lambda: open_log(str(table / "delta")).snapshot().schema)()
    assert caught.value.getCondition() == REFUSED[name]


@pytest.mark.parametrize("name", FOLDERS)
def test_both_readers_see_the_same_rows(spark: SparkSession, golden: Path, name: str) -> None:
    logs = sorted(unpacked(golden, name).rglob("_delta_log"))
    assert logs
    for log in logs:
        snapshot = open_log(str(log.parent)).snapshot()
        if all((log.parent / decode_path(path)).exists() for path in snapshot.files.column("path").to_pylist()):
            assert rows(deltamerge.read(spark, str(log.parent))) == rows(arrow_frame(spark, snapshot))
