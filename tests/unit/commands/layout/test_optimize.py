"""What OPTIMIZE does with files that the calling process writes. No Spark: the command asks a session for settings only."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from deltamerge.commands.layout.optimize import Optimize, optimize_table
from deltamerge.errors import (
    AnalysisError,
    ConcurrentDeleteReadError,
    CorruptTableError,
    InvalidArgumentError,
    UnsupportedTableError,
)
from deltamerge.log.commit import transaction
from deltamerge.log.replay.table import DeltaLog
from deltamerge.protocol.formats.roaring import encode
from deltamerge.protocol.table.deletion_vector import file_of_vectors, vector_file_name, z85_encode
from deltamerge.storage.local import LocalStore
from tests.unit.log.building import commit

ROWS = 10


def session(**settings: str) -> Any:
    """What the command needs of a session."""
    values = {"spark.sql.session.timeZone": "UTC"} | {
        f"spark.databricks.delta.optimize.{name}": value for name, value in settings.items()
    }
    conf = SimpleNamespace(get=lambda key, default=None: values.get(key, default), getAll=values)
    return SimpleNamespace(conf=conf, version="4.3", createDataFrame=lambda table: table)


def rows_of(file: int) -> pa.Table:
    ids = list(range(file * ROWS, file * ROWS + ROWS))
    return pa.table({"id": ids, "p": [id % 2 for id in ids], "s": [f"s{id * 7 % 100:03d}" for id in ids]})


def make(path: Path, files: int = 3, partition_by: list[str] | None = None, **properties: str) -> DeltaLog:
    """A table that is written by delta-rs, a file or two at a time."""
    for file in range(files):
        write_deltalake(path, rows_of(file), mode="append", partition_by=partition_by, configuration=dict(properties) or None)
    return DeltaLog(LocalStore(str(path)))


def optimize(log: DeltaLog, *z_order: str, **settings: str) -> dict[str, Any]:
    """The row that the command returns."""
    (row,) = optimize_table(session(**settings), log, Optimize(z_order=z_order)).to_pylist()
    metrics: dict[str, Any] = row["metrics"]
    return metrics


def content(path: Path) -> list[tuple[Any, ...]]:
    rows = pa.table(DeltaTable(path).to_pyarrow_table()).select(["id", "p", "s"]).to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def info(log: DeltaLog) -> dict[str, Any]:
    return dict(log.commits(1)[0].info)


def test_small_files_of_a_partition_become_one(tmp_path: Path) -> None:
    log = make(tmp_path, files=3, partition_by=["p"])
    before = content(tmp_path)
    found = optimize(log)
    files = log.snapshot().files.table()
    assert content(tmp_path) == before
    assert sorted(path.partition("/")[0] for path in files["path"].to_pylist()) == ["p=0", "p=1"]
    assert [json.loads(stats)["numRecords"] for stats in files["stats"].to_pylist()] == [15, 15]
    assert (found["numFilesAdded"], found["numFilesRemoved"], found["partitionsOptimized"]) == (2, 6, 2)
    assert (found["numBins"], found["totalConsideredFiles"], found["totalFilesSkipped"]) == (2, 6, 0)
    assert found["filesAdded"]["totalSize"] == sum(files["size"].to_pylist())
    assert (found["numTableColumns"], found["deletionVectorStats"], found["zOrderStats"]) == (3, None, None)
    told = info(log)
    assert told["operationParameters"] == {"predicate": "[]", "zOrderBy": "[]", "clusterBy": "[]", "auto": False}
    assert (told["operation"], told["isolationLevel"], told["isBlindAppend"]) == ("OPTIMIZE", "SnapshotIsolation", False)
    assert told["operationMetrics"]["numRemovedFiles"] == "6"
    commits = (tmp_path / "_delta_log" / f"{3:020d}.json").read_text()
    assert commits.count('"dataChange":false') == 8


def test_a_second_run_finds_nothing(tmp_path: Path) -> None:
    log = make(tmp_path)
    optimize(log)
    version = log.snapshot().version
    found = optimize(log)
    assert (found["numFilesAdded"], found["totalFilesSkipped"], found["filesAdded"]["min"]) == (0, 1, None)
    assert log.snapshot().version == version


def test_files_are_packed_up_to_a_size(tmp_path: Path) -> None:
    log = make(tmp_path, files=5)
    size = max(log.snapshot().files.column("size").to_pylist())
    found = optimize(log, maxFileSize=str(2 * size))
    assert (found["numBins"], found["numFilesRemoved"], len(log.snapshot().files)) == (2, 4, 3)
    assert optimize(log, minFileSize="1")["numBins"] == 0
    assert len(content(tmp_path)) == 50


def with_vector(log: DeltaLog, deleted: int) -> None:
    """Mark the first rows of a file that has no vector as deleted."""
    snapshot = log.snapshot()
    file = next(file for file in snapshot.files.table().to_pylist() if file["deletionVector"] is None)
    id = uuid.uuid4()
    bitmap = encode(np.arange(deleted))
    data, (offset,) = file_of_vectors([bitmap])
    snapshot.store.put(vector_file_name(id), data)
    vector = {"storageType": "u", "pathOrInlineDv": z85_encode(id.bytes), "offset": offset, "sizeInBytes": len(bitmap)}
    features = ["deletionVectors"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    plain = {name: file[name] for name in ("path", "size", "stats")}
    add = {**plain, "partitionValues": {}, "modificationTime": 1, "dataChange": True}
    commit(
        Path(snapshot.store.url),
        snapshot.version + 1,
        {"protocol": protocol},
        {"remove": {"path": file["path"], "deletionTimestamp": 1, "dataChange": True}},
        {"add": {**add, "deletionVector": {**vector, "cardinality": deleted}}},
    )


def test_deleted_rows_are_left_behind(tmp_path: Path) -> None:
    log = make(tmp_path, files=2)
    with_vector(log, 4)
    before = content_by_log(log)
    found = optimize(log)
    assert found["deletionVectorStats"] == {"numDeletionVectorsRemoved": 1, "numDeletionVectorRowsRemoved": 4}
    assert log.snapshot().files.vectors == (0, 0)
    assert content_by_log(log) == before
    assert len(before) == 16


def content_by_log(log: DeltaLog) -> list[tuple[Any, ...]]:
    """The rows of a table whose vectors have the first rows of a file."""
    found = []
    for file in log.snapshot().files.table().to_pylist():
        rows = pq.ParquetFile(Path(log.store.url) / file["path"]).read().to_pylist()
        vector = file["deletionVector"]
        found += rows[vector["cardinality"] if vector else 0 :]
    return sorted(tuple(row.values()) for row in found)


def test_large_files_of_which_rows_are_deleted_are_written_again(tmp_path: Path) -> None:
    log = make(tmp_path, files=3)
    assert optimize(log, minFileSize="1")["numBins"] == 0
    with_vector(log, 4)
    with_vector(log, 4)
    assert optimize(log, minFileSize="1", maxDeletedRowsRatio="0.5")["numBins"] == 0
    assert optimize(log, minFileSize="1")["numFilesRemoved"] == 2


def test_rows_are_laid_out_along_a_curve(tmp_path: Path) -> None:
    log = make(tmp_path, files=10)
    before = content(tmp_path)
    found = optimize(log, "id", "S")
    assert content(tmp_path) == before
    (path,) = log.snapshot().files.column("path").to_pylist()
    written = pq.ParquetFile(tmp_path / path).read()
    ids, texts = written["id"].to_pylist(), written["s"].to_pylist()
    quarter = slice(0, 25)
    assert ids != sorted(ids)
    assert max(ids[quarter]) <= 60
    assert max(texts[quarter]) <= "s065"
    assert found["zOrderStats"]["mergedFiles"]["num"] == 10
    assert info(log)["operationParameters"]["zOrderBy"] == '["id","S"]'


@pytest.mark.parametrize(
    ("column", "error", "condition"),
    [
        ("p", InvalidArgumentError, "DELTA_ZORDERING_ON_PARTITION_COLUMN"),
        ("nope", InvalidArgumentError, "DELTA_ZORDERING_COLUMN_DOES_NOT_EXIST"),
        ("id.x", InvalidArgumentError, "DELTA_ZORDERING_COLUMN_DOES_NOT_EXIST"),
        ("s", AnalysisError, "DELTA_ZORDERING_ON_COLUMN_WITHOUT_STATS"),
    ],
)
def test_columns_that_can_not_be_are_named(tmp_path: Path, column: str, error: type[Exception], condition: str) -> None:
    log = make(tmp_path, 2, ["p"], **{"delta.dataSkippingStatsColumns": "id"})
    with pytest.raises(error, match=condition):
        optimize(log, column)
    assert log.snapshot().version == 1
    if column == "s":
        optimize(log, column, **{"zorder.checkStatsCollection.enabled": "false"})
        assert log.snapshot().version == 2


@pytest.mark.parametrize("settings", [{"minFileSize": "many"}, {"maxFileSize": "-1"}, {"maxDeletedRowsRatio": "1.5"}])
def test_settings_that_can_not_be_are_named(tmp_path: Path, settings: dict[str, str]) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"DELTAMERGE_INVALID_OPTIMIZE_SETTING.*{next(iter(settings))}"):
        optimize(make(tmp_path, 1), **settings)


def clustered(path: Path, *names: str) -> DeltaLog:
    log = make(path, 2)
    features = ["clustering", "domainMetadata", "appendOnly", "invariants"]
    domain = json.dumps({"clusteringColumns": [[name] for name in names], "domainName": "delta.clustering"})
    commit(
        path,
        2,
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": features}},
        {"domainMetadata": {"domain": "delta.clustering", "configuration": domain, "removed": False}},
    )
    return log


def test_clustered_tables_refuse_other_layouts(tmp_path: Path) -> None:
    log = clustered(tmp_path / "c", "id")
    refusals: list[tuple[Optimize, type[Exception], str]] = [
        (Optimize(("id = 1",)), UnsupportedTableError, "DELTA_CLUSTERING_WITH_PARTITION_PREDICATE"),
        (Optimize(z_order=("id",)), AnalysisError, "DELTA_CLUSTERING_WITH_ZORDER_BY"),
    ]
    for request, error, condition in refusals:
        with pytest.raises(error, match=condition):
            optimize_table(session(), log, request)
    other = clustered(tmp_path / "n")
    with pytest.raises(UnsupportedTableError, match="DELTA_OPTIMIZE_FULL_NOT_SUPPORTED"):
        optimize_table(session(), other, Optimize(full=True))
    assert optimize(other)["numFilesAdded"] == 1


def test_clustered_tables_are_laid_out_by_their_columns_once(tmp_path: Path) -> None:
    log = clustered(tmp_path, "s", "id")
    found = optimize(log)
    (file,) = log.snapshot().files.table().to_pylist()
    tags = dict(file["tags"])
    assert (file["clusteringProvider"], tags["ZCUBE_ZORDER_BY"]) == ("liquid", '["s","id"]')
    assert uuid.UUID(tags["ZCUBE_ID"])
    texts = pq.ParquetFile(tmp_path / file["path"]).read()["s"].to_pylist()
    assert max(texts[:5]) < "s060"
    assert found["clusteringStats"]["inputOtherFiles"]["numFiles"] == found["clusteringStats"]["mergedFiles"]["numFiles"] == 2
    assert found["zOrderStats"] is None
    told = info(log)["operationParameters"]
    assert (told["clusterBy"], told["zOrderBy"], told["isFull"]) == ('["s","id"]', "[]", False)
    again = optimize(log)
    assert (again["numFilesAdded"], again["clusteringStats"]["inputNumZCubes"]) == (0, 1)


def racing(monkeypatch: pytest.MonkeyPatch, path: Path, *actions: dict[str, Any]) -> None:
    """Another transaction commits just before."""
    put, raced = transaction._put, list[int]()

    def run(*given: Any) -> Any:
        if not raced:
            raced.append(1)
            commit(path, 3, *actions)
        return put(*given)

    monkeypatch.setattr(transaction, "_put", run)


def test_only_a_change_of_a_chosen_file_is_a_conflict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = make(tmp_path, 3)
    path = log.snapshot().files.column("path").to_pylist()[0]
    racing(monkeypatch, tmp_path, {"remove": {"path": path, "deletionTimestamp": 1, "dataChange": True}})
    before = {file.name for file in tmp_path.iterdir()}
    with pytest.raises(ConcurrentDeleteReadError):
        optimize(log)
    assert {file.name for file in tmp_path.iterdir()} == before
    monkeypatch.undo()
    assert optimize(log)["numFilesRemoved"] == 2


def test_rows_that_are_added_meanwhile_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = make(tmp_path, 3)
    pq.write_table(rows_of(7), tmp_path / "other.parquet")
    size = (tmp_path / "other.parquet").stat().st_size
    add = {"path": "other.parquet", "partitionValues": {}, "size": size, "modificationTime": 1, "dataChange": True}
    racing(monkeypatch, tmp_path, {"add": add})
    assert optimize(log)["numFilesAdded"] == 1
    assert len(content(tmp_path)) == 40


def test_a_damaged_file_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    log = make(tmp_path, 3, ["p"])
    damaged = log.snapshot().files.column("path").to_pylist()[2]
    (tmp_path / damaged).write_bytes(b"PAR1 no file PAR1")
    before = sorted(tmp_path.rglob("*.parquet"))
    with pytest.raises(CorruptTableError, match=damaged.rpartition("/")[2]):
        optimize(log)
    assert sorted(tmp_path.rglob("*.parquet")) == before
    assert log.snapshot().version == 2
