"""What VACUUM deletes of a folder, and what it must leave. No Spark: the command asks a session for settings only."""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deltamerge.commands.layout.vacuum import Vacuumed, VacuumRequest, vacuum_table
from deltamerge.errors import CorruptTableError, InvalidArgumentError, StorageError, UnsupportedTableError
from deltamerge.log.commit.upkeep import checkpoint
from deltamerge.log.replay.table import DeltaLog
from deltamerge.protocol.table.deletion_vector import vector_file_name, z85_encode
from deltamerge.storage.local import LocalStore
from tests.unit.log.building import PROTOCOL, add, commit, create, log_file, metadata, remove, vector

NOW = int(time.time() * 1000)
HOUR = 3_600_000
CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"


def session(**settings: str) -> Any:
    """What the command needs of a session."""
    values = {name.replace("_", "."): value for name, value in settings.items()}
    conf = SimpleNamespace(get=lambda key, default=None: values.get(key, default), getAll=values)
    return SimpleNamespace(conf=conf, version="4.3")


def put(root: Path, name: str, hours: float = 1000, size: int = 3) -> str:
    """A file, written some hours ago."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    os.utime(path, (time.time() - hours * 3600,) * 2)
    return name


def age(root: Path, *names: str) -> None:
    """Let folders have been changed long ago."""
    for name in names:
        (root / name).mkdir(parents=True, exist_ok=True)
        os.utime(root / name, (1, 1))


def age_commit(root: Path, version: int = 0) -> None:
    """Let a version have been made long ago."""
    os.utime(root / "_delta_log" / f"{version:020d}.json", (1, 1))


def files(root: Path) -> set[str]:
    """The files below a folder but those of its log."""
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and "_delta_log" not in path.parts}


def vacuum(root: Path, hours: float | None = None, dry_run: bool = False, **settings: str) -> Vacuumed:
    return vacuum_table(session(**settings), DeltaLog(LocalStore(str(root))), VacuumRequest(hours, dry_run))


def told(root: Path) -> list[dict[str, Any]]:
    """What the commits after the first say of themselves."""
    texts = [path.read_text() for path in sorted((root / "_delta_log").glob("*.json"))[1:]]
    return [json.loads(text.splitlines()[0])["commitInfo"] for text in texts if "VACUUM" in text]


def test_files_that_no_version_within_the_retention_needs_go(tmp_path: Path) -> None:
    id, gone_id = uuid.uuid4(), uuid.uuid4()
    live, gone = (vector(z85_encode(value.bytes)) for value in (id, gone_id))
    kept = {
        put(tmp_path, "live.parquet"),
        put(tmp_path, "sp ace%/ünder=1/live.parquet"),
        put(tmp_path, "whole.parquet"),
        put(tmp_path, vector_file_name(id)),
        put(tmp_path, "removed-lately.parquet"),
        put(tmp_path, "uncommitted.parquet", hours=100),
        put(tmp_path, "_p=1/live.parquet"),
        *(put(tmp_path, name) for name in ("_hidden", ".hidden", "_folder/file", ".folder/file", "_p=1/_hidden")),
    }
    unneeded = {
        put(tmp_path, "removed-long-ago.parquet"),
        put(tmp_path, vector_file_name(gone_id)),
        put(tmp_path, "orphan.parquet", size=10),
        put(tmp_path, "deep/er/orphan"),
        put(tmp_path, "_change_data/old"),
        put(tmp_path, "_delta_index/old"),
        put(tmp_path, "_p=1/orphan"),
    }
    create(
        tmp_path,
        add("live.parquet", deletionVector=live),
        add("sp%20ace%25/%C3%BCnder=1/live.parquet"),
        add(f"file://{tmp_path}/whole.parquet"),
        add("_p=1/live.parquet"),
        remove("removed-lately.parquet", deletionTimestamp=NOW - 100 * HOUR),
        remove("removed-long-ago.parquet", deletionTimestamp=NOW - 1000 * HOUR, deletionVector=gone),
        schema=json.dumps(
            {"type": "struct", "fields": [{"name": n, "type": "long", "nullable": True, "metadata": {}} for n in ("_p", "id")]}
        ),
        partition_by=["_p"],
    )
    age_commit(tmp_path)
    tried = vacuum(tmp_path, dry_run=True)
    assert (files(tmp_path), set(tried.names), told(tmp_path)) == (kept | unneeded, unneeded, [])
    done = vacuum(tmp_path)
    assert (files(tmp_path), done) == (kept, tried)
    assert done.size == 28
    start, end = told(tmp_path)
    assert (start["operation"], end["operation"]) == ("VACUUM START", "VACUUM END")
    assert start["operationParameters"] == {"retentionCheckEnabled": True, "defaultRetentionMillis": 168 * HOUR}
    assert start["operationMetrics"] == {"numFilesToDelete": "7", "sizeOfDataToDelete": "28"}
    assert end["operationParameters"] == {"status": "COMPLETED"}
    assert end["operationMetrics"] == {"numDeletedFiles": "7", "numVacuumedDirectories": "8"}
    assert {info["isolationLevel"] for info in (start, end)} == {"SnapshotIsolation"}


def test_empty_folders_go_when_they_are_old(tmp_path: Path) -> None:
    create(tmp_path, add("f"))
    put(tmp_path, "f")
    put(tmp_path, "used/f", hours=1)
    (tmp_path / "young").mkdir()
    age(tmp_path, "empty/within", "empty", "used", "_hidden")
    age(tmp_path, "half/old")
    (tmp_path / "half" / "new").mkdir()
    age(tmp_path, "half")
    assert vacuum(tmp_path).names == ["empty", "empty/within", "half/old"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["_delta_log", "_hidden", "f", "half", "used", "young"]


def test_a_folder_behind_a_link_is_left_alone(tmp_path: Path) -> None:
    put(tmp_path, "other/f")
    create(tmp_path / "t")
    (tmp_path / "t" / "link").symlink_to(tmp_path / "other")
    assert vacuum(tmp_path / "t").names == []
    assert files(tmp_path / "other") == {"f"}


def test_a_whole_path_over_a_link_is_within_the_table(tmp_path: Path) -> None:
    put(tmp_path, "t/f")
    (tmp_path / "link").symlink_to(tmp_path / "t")
    create(tmp_path / "t", add(f"file:{tmp_path}/link/f"), add("file:/elsewhere/f"), add(f"file:{tmp_path}/f"))
    assert vacuum(tmp_path / "t").names == []


@pytest.mark.skipif(sys.platform == "darwin", reason="its file systems refuse names that are no UTF-8")
def test_a_name_that_is_no_utf_8_is_told_from_the_log(tmp_path: Path) -> None:
    create(tmp_path, add("p=%FF/f%C3%A9"))
    kept = put(tmp_path, os.fsdecode(b"p=\xff/f\xc3\xa9"))
    put(tmp_path, os.fsdecode(b"p=\xfe/f"))
    assert vacuum(tmp_path).names == [os.fsdecode(b"p=\xfe/f")]
    assert kept in files(tmp_path)


def test_change_data_files_of_commits_within_the_retention_stay(tmp_path: Path) -> None:
    create(tmp_path)
    put(tmp_path, "_change_data/lately")
    put(tmp_path, "_change_data/long ago")
    for version, name in enumerate(("long%20ago", "lately"), 1):
        commit(tmp_path, version, {"cdc": {"path": f"_change_data/{name}", "partitionValues": {}, "size": 1}})
    age_commit(tmp_path)
    age_commit(tmp_path, 1)
    assert vacuum(tmp_path).names == ["_change_data/long ago"]


def test_what_checkpoints_no_longer_tell_is_read_from_commits(tmp_path: Path) -> None:
    create(tmp_path, add("f"), add("h"), properties={"delta.deletedFileRetentionDuration": "interval 1 hours"})
    for name in ("f", "g", "h"):
        put(tmp_path, name)
    commit(tmp_path, 1, remove("f", deletionTimestamp=NOW - 10 * HOUR))
    for version, hours in ((0, 200), (1, 10)):
        os.utime(tmp_path / "_delta_log" / f"{version:020d}.json", (time.time() - hours * 3600,) * 2)
    log = DeltaLog(LocalStore(str(tmp_path)))
    checkpoint(log.snapshot())
    commit(tmp_path, 2, metadata())
    assert vacuum(tmp_path, dry_run=True).names == ["g"]
    assert vacuum(tmp_path, 5, True, **{CHECK.replace(".", "_"): "false"}).names == ["f", "g"]


@pytest.mark.parametrize(
    ("hours", "condition"),
    [(-1, "DELTA_VACUUM_RETENTION_PERIOD_NEGATIVE"), (0, "DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT"), (167.9, "TOO_SHORT")],
)
def test_a_time_that_is_too_short_is_refused(tmp_path: Path, hours: float, condition: str) -> None:
    create(tmp_path)
    put(tmp_path, "f")
    with pytest.raises(InvalidArgumentError, match=condition):
        vacuum(tmp_path, hours)
    assert (files(tmp_path), told(tmp_path)) == ({"f"}, [])


@pytest.mark.parametrize("hours", [None, 10_000])
def test_a_table_whose_retention_can_not_be_read_is_left_alone(tmp_path: Path, hours: float | None) -> None:
    create(tmp_path, properties={"delta.deletedFileRetentionDuration": "10.5 days"})
    put(tmp_path, "f")
    with pytest.raises(InvalidArgumentError, match=r"DELTA_INVALID_INTERVAL.*deletedFileRetentionDuration is '10.5 days'"):
        vacuum(tmp_path, hours)
    assert (files(tmp_path), told(tmp_path)) == ({"f"}, [])


def test_a_short_time_that_the_session_allows(tmp_path: Path) -> None:
    create(tmp_path, remove("f", deletionTimestamp=NOW - HOUR))
    age_commit(tmp_path)
    put(tmp_path, "f", hours=1)
    put(tmp_path, "young", hours=0.5)
    assert vacuum(tmp_path, 0.75, **{CHECK.replace(".", "_"): "false"}).names == ["f"]
    assert told(tmp_path)[0]["operationParameters"]["specifiedRetentionMillis"] == 45 * 60_000


def test_nothing_is_told_where_the_session_forbids_it(tmp_path: Path) -> None:
    create(tmp_path)
    put(tmp_path, "f")
    assert vacuum(tmp_path, spark_databricks_delta_vacuum_logging_enabled="false").names == ["f"]
    assert told(tmp_path) == []


def test_a_failure_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create(tmp_path)
    put(tmp_path, "f")

    def fail(*_: object) -> None:
        raise StorageError("DELTAMERGE_STORAGE_REFUSED", "no")

    monkeypatch.setattr(LocalStore, "delete", fail)
    with pytest.raises(StorageError, match="DELTAMERGE_STORAGE_REFUSED"):
        vacuum(tmp_path)
    assert [info["operationParameters"].get("status") for info in told(tmp_path)] == [None, "FAILED"]


@pytest.mark.parametrize("fails", [False, True])
def test_an_end_that_can_not_be_told_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fails: bool
) -> None:
    create(tmp_path)
    put(tmp_path, "f")
    delete = LocalStore.delete

    def racing(self: LocalStore, name: str) -> None:
        commit(tmp_path, 2, {"protocol": {"minReaderVersion": 99, "minWriterVersion": 99}}, metadata())
        if fails:
            raise StorageError("DELTAMERGE_STORAGE_REFUSED", "no")
        delete(self, name)

    monkeypatch.setattr(LocalStore, "delete", racing)
    if fails:
        with pytest.raises(StorageError, match="DELTAMERGE_STORAGE_REFUSED"):
            vacuum(tmp_path)
    else:
        assert vacuum(tmp_path).names == ["f"]
    assert files(tmp_path) == ({"f"} if fails else set())
    (warned,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert f"the end of VACUUM ({'FAILED' if fails else 'COMPLETED'}) is not in the history of {tmp_path}" in warned


def test_files_that_are_committed_while_the_folder_is_listed_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create(tmp_path)
    put(tmp_path, "f")
    walk = LocalStore.walk

    def racing(self: LocalStore, hidden: Any) -> Any:
        commit(tmp_path, 1, add("f"))
        return walk(self, hidden)

    monkeypatch.setattr(LocalStore, "walk", racing)
    assert vacuum(tmp_path).names == []


def test_tables_that_can_not_be_written_are_left_alone(tmp_path: Path) -> None:
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["future"], "writerFeatures": ["future"]}
    commit(tmp_path / "a", 0, {"protocol": protocol}, metadata())
    create(tmp_path / "b", add("f", size=1))
    told = {
        "tableSizeBytes": 5,
        "numFiles": 7,
        "numMetadata": 1,
        "numProtocol": 1,
        "metadata": metadata()["metaData"],
        **PROTOCOL,
    }
    log_file(tmp_path / "b", f"{0:020d}.crc").write_text(json.dumps(told))
    for name, error in (("a", UnsupportedTableError), ("b", CorruptTableError)):
        put(tmp_path / name, "orphan")
        with pytest.raises(error):
            vacuum(tmp_path / name)
        assert files(tmp_path / name) == {"orphan"}
