"""Time travel by timestamp: file times, in-commit timestamps, and the change from one to the other."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from deltamerge.errors import AnalysisError, CorruptTableError
from deltamerge.log.commit.upkeep import checkpoint
from deltamerge.log.replay.commit_times import ENABLEMENT_TIMESTAMP, ENABLEMENT_VERSION, milliseconds, ordered_times, version_at
from deltamerge.log.replay.segment import all_commits
from deltamerge.log.replay.table import DeltaLog
from deltamerge.storage.local import LocalStore
from tests.unit.log.building import add, commit, create, delete_commits, info, load, log_file, metadata

T0 = 1_600_000_000_000
ICT = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["inCommitTimestamp"]}}


def table(root: Path, *seconds: int) -> LocalStore:
    """A table whose commit files were modified at these seconds after T0."""
    store = create(root)
    for version in range(1, len(seconds)):
        commit(root, version, add(f"f{version}"))
    for version, second in enumerate(seconds):
        touch(root, version, second)
    return store


def touch(root: Path, version: int, second: float) -> None:
    os.utime(log_file(root, f"{version:020d}.json"), (T0 / 1000 + second,) * 2)


def at(store: LocalStore, second: float) -> int:
    return version_at(load(store), T0 + int(second * 1000))


def test_the_newest_version_at_a_time(tmp_path: Path) -> None:
    store = table(tmp_path, 0, 10, 20)
    assert [at(store, second) for second in (0, 9, 10, 15, 20)] == [0, 0, 1, 1, 2]


@pytest.mark.parametrize(
    ("second", "condition"),
    [(-1, "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION"), (20.001, "DELTA_TIMESTAMP_GREATER_THAN_COMMIT")],
)
def test_a_time_without_version_is_refused(tmp_path: Path, second: float, condition: str) -> None:
    with pytest.raises(AnalysisError) as caught:
        at(table(tmp_path, 0, 10, 20), second)
    assert caught.value.condition == condition
    assert "2020-09-13 12:2" in str(caught.value)


def test_times_that_go_back_are_put_in_order(tmp_path: Path) -> None:
    store = table(tmp_path, 10, 5, 5, 30)
    times = [found.modified - T0 for found in ordered_times(all_commits(store))]
    assert times == [10_000, 10_001, 10_002, 30_000]
    assert [at(store, second) for second in (10, 10.001, 10.002, 29, 30)] == [0, 1, 2, 2, 3]
    assert [found.timestamp - T0 for found in DeltaLog(store).commits()] == times[::-1]


def test_only_versions_that_can_be_made_again_count(tmp_path: Path) -> None:
    store = table(tmp_path, 0, 10, 20, 30)
    checkpoint(load(store, 2))
    delete_commits(tmp_path, 2)
    assert at(store, 25) == 2
    with pytest.raises(AnalysisError, match="before the earliest version"):
        at(store, 15)
    newest = load(store)
    log_file(tmp_path, f"{2:020d}.checkpoint.parquet").unlink()
    with pytest.raises(CorruptTableError) as caught:
        version_at(newest, T0)
    assert caught.value.condition == "DELTA_NO_RECREATABLE_HISTORY_FOUND"


def own(second: float, **more: Any) -> dict[str, Any]:
    return info(inCommitTimestamp=T0 + int(second * 1000), **more)


def test_commits_tell_their_own_times(tmp_path: Path) -> None:
    on = metadata(properties={"delta.enableInCommitTimestamps": "true"})
    commit(tmp_path, 0, own(0), ICT, on)
    for version, second in ((1, 10), (2, 20), (3, 30)):
        commit(tmp_path, version, own(second), add(f"f{version}"))
    store = LocalStore(str(tmp_path))
    assert load(store).timestamp == T0 + 30_000
    assert load(store, 2).advance(DeltaLog(store).commits(1)[0]).timestamp == T0 + 30_000
    assert [at(store, second) for second in (0, 10, 19, 20, 30)] == [0, 1, 1, 2, 3]
    with pytest.raises(AnalysisError, match="before the earliest"):
        at(store, -1)
    with pytest.raises(AnalysisError, match="after the newest"):
        at(store, 31)
    checkpoint(load(store))
    assert load(store).timestamp == T0 + 30_000
    assert [found.timestamp - T0 for found in DeltaLog(store).commits()] == [30_000, 20_000, 10_000, 0]


def test_times_from_before_commits_told_them_are_those_of_files(tmp_path: Path) -> None:
    store = table(tmp_path, 0, 10, 99)
    on = {
        "delta.enableInCommitTimestamps": "true",
        ENABLEMENT_VERSION: "2",
        ENABLEMENT_TIMESTAMP: str(T0 + 20_000),
    }
    commit(tmp_path, 2, own(20), ICT, metadata(properties=on))
    commit(tmp_path, 3, own(30), add("x"))
    for version in (2, 3):
        touch(tmp_path, version, 1)
    assert [at(store, second) for second in (0, 9, 10, 19.9, 20, 29, 30)] == [0, 0, 1, 1, 2, 2, 3]
    checkpoint(load(store, 2))
    delete_commits(tmp_path, 2)
    with pytest.raises(AnalysisError, match=r"made at 2020-09-13 12:27:00.000"):
        at(store, 5)


def test_a_commit_without_its_time_is_named(tmp_path: Path) -> None:
    commit(tmp_path, 0, own(0), ICT, metadata(properties={"delta.enableInCommitTimestamps": "true"}))
    commit(tmp_path, 1, info(), add("a"))
    with pytest.raises(CorruptTableError) as caught:
        at(LocalStore(str(tmp_path)), 0)
    assert caught.value.condition == "DELTA_MISSING_COMMIT_TIMESTAMP"
    assert caught.value.parameters["version"] == 1


def test_the_log_travels_by_time(tmp_path: Path) -> None:
    log = DeltaLog(table(tmp_path, 0, 10, 20))
    assert log.snapshot(timestamp=T0 + 12_000).version == 1
    assert log.snapshot().version == 2


@pytest.mark.parametrize(
    ("value", "zone", "expected"),
    [
        ("1970-01-01", "UTC", 0),
        ("1970-01-01 01:00:00", "Europe/Berlin", 0),
        ("1970-01-01T00:00:00.0015Z", "Europe/Berlin", 1),
        (datetime(1970, 1, 1, 0, 0, 1), "UTC", 1000),
        (datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "Asia/Tokyo", 1000),
        ("1969-12-31T23:59:59.9999Z", "UTC", -1),
    ],
)
def test_a_users_time_in_milliseconds(value: datetime | str, zone: str, expected: int) -> None:
    assert milliseconds(value, zone) == expected


@pytest.mark.parametrize(("value", "zone"), [("yesterday", "UTC"), ("", "UTC"), ("2020-13-01", "UTC")])
def test_a_text_that_is_no_time_is_refused(value: str, zone: str) -> None:
    with pytest.raises(AnalysisError) as caught:
        milliseconds(value, zone)
    assert caught.value.condition == "DELTA_TIMESTAMP_INVALID"
    assert f"('{value}') cannot be converted to a valid timestamp" in str(caught.value)
