"""The transaction log between engines: what delta-spark writes we read, what we write delta-spark and delta-rs read."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from deltamerge.log.commit.checkpoint_write import write_checkpoint
from deltamerge.log.commit.parts import spark_hash
from deltamerge.log.commit.row_ids import high_water_mark
from deltamerge.log.commit.transaction import Proposal, commit
from deltamerge.log.commit.upkeep import after_commit, checkpoint
from deltamerge.log.replay.checksum import checksum_value
from deltamerge.log.replay.load import load
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.log.replay.table import DeltaLog
from deltamerge.protocol.table.actions import AddFile, Txn
from deltamerge.storage.local import LocalStore

PROPERTIES = {
    "classic": {},
    "structs": {"delta.checkpoint.writeStatsAsStruct": "true", "delta.checkpoint.writeStatsAsJson": "false"},
    "json": {"delta.checkpoint.writeStatsAsStruct": "false"},
    "v2": {"delta.checkpointPolicy": "v2"},
    "v2 structs": {
        "delta.checkpointPolicy": "v2",
        "delta.checkpoint.writeStatsAsStruct": "true",
        "delta.checkpoint.writeStatsAsJson": "false",
    },
    "in-commit timestamps": {"delta.enableInCommitTimestamps": "true"},
    "row tracking": {"delta.feature.rowTracking": "supported"},
}
CONFS = {
    "default": {},
    "multi-part": {"spark.databricks.delta.checkpoint.partSize": "3"},
    "v2 json": {"spark.databricks.delta.checkpointV2.topLevelFileFormat": "json"},
}


@pytest.fixture
def conf(spark: SparkSession) -> Iterator[Any]:
    """Sets session settings and puts them back."""
    changed: list[str] = []

    def change(**values: str) -> None:
        for key, value in values.items():
            spark.conf.set(key, value)
            changed.append(key)

    yield lambda values: change(**values)
    for key in changed:
        spark.conf.unset(key)


def make(spark: SparkSession, path: Path, properties: dict[str, str], commits: int = 4) -> None:
    """A partitioned table of several commits and deletes, written by delta-spark."""
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in {"delta.checkpointInterval": "1000", **properties}.items())
    columns = "id BIGINT, word STRING, price DECIMAL(10,2), day DATE, at TIMESTAMP, p INT"
    spark.sql(f"CREATE TABLE delta.`{path}` ({columns}) USING delta PARTITIONED BY (p) TBLPROPERTIES ({listed})")
    for number in range(commits):
        rows = (
            f"SELECT id, concat('w', id), CAST(id AS DECIMAL(10,2)) / 4, date_add(DATE'2020-01-01', CAST(id AS INT)), "
            f"TIMESTAMP'2020-01-01 00:00:00.123456', CAST(id % 3 AS INT) FROM range({number * 10}, {number * 10 + 10})"
        )
        spark.sql(f"INSERT INTO delta.`{path}` {rows}")
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id IN (3, 14) OR (id BETWEEN 20 AND 29 AND p = 1)")


def ids(spark: SparkSession, path: Path) -> list[int]:
    """The ids that delta-spark reads, its cache of the table dropped."""
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    return sorted(row["id"] for row in spark.read.format("delta").load(str(path)).select("id").collect())


def our_ids(snapshot: Snapshot) -> list[int]:
    root = Path(snapshot.store.url)
    names = snapshot.files.column("path").to_pylist()
    return sorted(i for name in names for i in pq.ParquetFile(root / name).read(["id"])["id"].to_pylist())


def delta_checkpoint(spark: SparkSession, path: Path) -> None:
    jvm = spark._jvm.org.apache.spark.sql.delta.DeltaLog
    jvm.clearCache()
    jvm.forTable(spark._jsparkSession, str(path)).checkpoint()


def drop_commits(path: Path, before: int) -> None:
    """Delete commits and checksums below a version, so that the checkpoint is what is read."""
    for file in (path / "_delta_log").iterdir():
        name = file.name.lstrip(".")
        if name[:20].isdigit() and int(name[:20]) < before and ".checkpoint." not in name:
            file.unlink()


def data_file(path: Path, name: str, numbers: list[int]) -> AddFile:
    """A data file of partition 0, with its statistics."""
    table = pa.table({"id": pa.array(numbers, pa.int64())})
    target = path / "p=0" / name
    pq.write_table(table, target)
    bounds = {"numRecords": len(numbers), "minValues": {"id": min(numbers)}, "maxValues": {"id": max(numbers)}}
    return AddFile(f"p=0/{name}", {"p": "0"}, target.stat().st_size, int(time.time() * 1000), stats=json.dumps(bounds))


def append(snapshot: Snapshot, path: Path, numbers: list[int]) -> Snapshot:
    """Our commit of one more file."""
    file = data_file(path, f"ours-{snapshot.version}.parquet", numbers)
    return commit(snapshot, Proposal("WRITE", [file, Txn("app", snapshot.version)])).snapshot


# No V2 checkpoint has parts, and only the top level of a V2 checkpoint has another format.
@pytest.mark.parametrize(
    ("kind", "setting"),
    [(kind, "v2 json" if kind.startswith("v2") else "multi-part") for kind in PROPERTIES]
    + [(kind, "default") for kind in PROPERTIES],
)
def test_we_read_what_delta_spark_wrote(spark: SparkSession, conf: Any, tmp_path: Path, kind: str, setting: str) -> None:
    path = tmp_path / "t"
    conf(CONFS[setting])
    make(spark, path, PROPERTIES[kind])
    whole = load(LocalStore(str(path)))
    delta_checkpoint(spark, path)
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1000, 'x', 1, DATE'2020-01-01', NULL, 0)")
    drop_commits(path, whole.version)
    found = load(LocalStore(str(path)))
    assert found.checkpoint_version == whole.version
    assert our_ids(found) == ids(spark, path)
    before = load(LocalStore(str(path)), whole.version)
    one, other = (s.files.table().sort_by("path") for s in (whole, before))
    assert one.drop_columns(["stats"]) == other.drop_columns(["stats"])
    stats = [[json.loads(text) for text in files["stats"].to_pylist()] for files in (one, other)]
    for first, second in zip(*stats, strict=True):
        assert first["numRecords"] == second["numRecords"]
        assert first["minValues"] == second["minValues"]
        assert first["maxValues"] == second["maxValues"]
        assert {k: v for k, v in first["nullCount"].items() if v} == {k: v for k, v in second["nullCount"].items() if v}
    assert (before.metadata, before.protocol, before.domains) == (whole.metadata, whole.protocol, whole.domains)


@pytest.mark.parametrize("kind", PROPERTIES)
@pytest.mark.parametrize("most", [2_000_000, 4])
def test_both_read_what_we_write(spark: SparkSession, tmp_path: Path, kind: str, most: int) -> None:
    path = tmp_path / "t"
    make(spark, path, PROPERTIES[kind])
    log = DeltaLog(LocalStore(str(path)))
    done = append(log.snapshot(), path, [500, 501])
    after_commit(done)
    write_checkpoint(done, done.tombstones.table, most)
    drop_commits(path, done.version)
    expected = our_ids(done)
    assert ids(spark, path) == expected
    theirs = DeltaTable(str(path))
    assert len(theirs.file_uris()) == len(done.files)
    if not kind.startswith("v2"):  # delta-rs lists the files of a V2 checkpoint, but makes no Arrow dataset of them
        assert sorted(theirs.to_pyarrow_table(columns=["id"])["id"].to_pylist()) == expected
    assert spark.read.format("delta").load(str(path)).where("id = 501").count() == 1
    assert spark.read.format("delta").load(str(path)).where("id = 39 AND word = 'w39' AND p = 0").count() == 1
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 500")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1000, 'x', 1, DATE'2020-01-01', NULL, 0)")
    after = log.snapshot()
    assert after.txns["app"].version == done.version - 1
    assert our_ids(after) == ids(spark, path) == sorted({*expected, 1000} - {500})


def test_in_commit_timestamps_are_understood_both_ways(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(spark, path, {}, commits=2)
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')")
    log = DeltaLog(LocalStore(str(path)))
    done = append(log.snapshot(), path, [500])
    append(done, path, [501])
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    history = spark.sql(f"DESCRIBE HISTORY delta.`{path}`").collect()
    theirs = {row["version"]: round(row["timestamp"].timestamp() * 1000) for row in history}
    assert {found.version: found.timestamp for found in log.commits()} == theirs
    for version, made in theirs.items():
        assert log.snapshot(timestamp=made).version == version
        text = f"{made // 1000}.{made % 1000:03d}"
        sql = f"SELECT count(*) AS n FROM delta.`{path}` TIMESTAMP AS OF CAST({text} AS TIMESTAMP)"
        assert spark.sql(sql).collect()[0]["n"] == len(our_ids(log.snapshot(version)))


def test_row_ids_go_on_where_the_other_stopped(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(spark, path, {"delta.feature.rowTracking": "supported"}, commits=2)
    log = DeltaLog(LocalStore(str(path)))
    before = high_water_mark(log.snapshot().domains)
    done = append(log.snapshot(), path, [500, 501])
    after_commit(done)
    assert high_water_mark(done.domains) == before + 2
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1000, 'x', 1, DATE'2020-01-01', NULL, 0)")
    after = log.snapshot()
    assert high_water_mark(after.domains) == before + 3
    rows = {row["path"]: row for row in after.files.table().to_pylist()}
    ranges = sorted((row["baseRowId"], json.loads(row["stats"])["numRecords"]) for row in rows.values())
    assert all(start + count <= following for (start, count), (following, _) in pairwise(ranges))
    assert {row["defaultRowCommitVersion"] for row in rows.values()} >= {done.version, after.version}


def test_a_checksum_of_ours_agrees_with_theirs(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(spark, path, {"delta.enableInCommitTimestamps": "true"})
    snapshot = load(LocalStore(str(path)))
    theirs = json.loads((path / "_delta_log" / f"{snapshot.version:020d}.crc").read_text())
    ours = checksum_value(snapshot)
    for key in ("tableSizeBytes", "numFiles", "numMetadata", "numProtocol", "inCommitTimestampOpt"):
        assert ours[key] == theirs[key], key
    assert ours["metadata"]["configuration"] == theirs["metadata"]["configuration"]
    done = append(snapshot, path, [500])
    after_commit(done)
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1000, 'x', 1, DATE'2020-01-01', NULL, 0)")
    after = load(LocalStore(str(path)))
    theirs = json.loads((path / "_delta_log" / f"{after.version:020d}.crc").read_text())
    assert theirs["numFiles"] == len(after.files)
    assert theirs["tableSizeBytes"] == after.files.total_bytes


def test_both_read_a_compaction(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(spark, path, {})
    log = path / "_delta_log"
    files: dict[str, dict[str, Any]] = {}
    for version in range(2, 6):
        for line in (log / f"{version:020d}.json").read_text().splitlines():
            action = json.loads(line)
            found = action.get("add") or action.get("remove")
            if found is not None:
                files[found["path"]] = action
    whole = load(LocalStore(str(path)))
    text = "".join(json.dumps(action) + "\n" for action in files.values())
    (log / f"{2:020d}.{5:020d}.compacted.json").write_text(text)
    found = load(LocalStore(str(path)))
    assert found.files.table().sort_by("path") == whole.files.table().sort_by("path")
    expected = our_ids(whole)
    assert ids(spark, path) == expected
    for version in range(2, 6):
        (log / f"{version:020d}.json").write_text("not read")
    assert our_ids(load(LocalStore(str(path)))) == ids(spark, path) == expected


def test_the_hash_is_sparks(spark: SparkSession) -> None:
    texts = ["", "a", "abc", "abcd", "abcde", "p=1/part-00000-é.parquet", "x" * 100]
    ours = spark_hash(pa.array(texts), np.full(len(texts), 42, np.uint32)).astype(np.int32).tolist()
    rows = spark.createDataFrame([(text,) for text in texts], "text STRING").selectExpr("text", "hash(text) AS h").collect()
    assert ours == [{row["text"]: row["h"] for row in rows}[text] for text in texts]


def test_delta_spark_skips_by_our_structs(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(spark, path, PROPERTIES["structs"])
    checkpoint(load(LocalStore(str(path))))
    drop_commits(path, load(LocalStore(str(path))).version)
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    frame = spark.read.format("delta").load(str(path)).where("id = 35")
    assert [row["id"] for row in frame.collect()] == [35]
    assert len(frame.inputFiles()) >= 1
