"""Log clean-up: what is old goes, what a kept version needs stays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamerge.log.commit.cleanup import base_checkpoint, clean_up, expired_files
from deltamerge.log.commit.upkeep import after_commit, checkpoint
from deltamerge.log.replay.segment import commit_version, earliest_version, find_segment, is_commit
from deltamerge.storage import ObjectInfo
from deltamerge.storage.local import LocalStore
from tests.unit.log.building import V2, add, commit, create, load, log_file, metadata, paths

DAY = 86_400_000
NOW = 20_000 * DAY + 12 * 3_600_000


def names(root: Path) -> set[str]:
    return {path.name for path in (root / "_delta_log").rglob("*") if path.is_file() and path.name != "_last_checkpoint"}


def age(root: Path, days_ago: dict[int, float]) -> None:
    """Make the log files of each version as old as this, in days before NOW."""
    for path in (root / "_delta_log").iterdir():
        if path.name[:20].isdigit():
            os.utime(path, ((NOW - days_ago[int(path.name[:20])] * DAY) / 1000,) * 2)


def table(root: Path, **properties: str) -> LocalStore:
    named = {name.replace("_", "."): value for name, value in properties.items()}
    store = create(root, add("f0"), properties=named)
    for version in range(1, 8):
        commit(root, version, add(f"f{version}"))
        log_file(root, f"{version:020d}.crc").write_text("{}")
        if version in (2, 5):
            checkpoint(load(store))
    log_file(root, f"{0:020d}.{1:020d}.compacted.json").write_text("")
    log_file(root, f"{2:020d}.{3:020d}.compacted.json").write_text("")
    log_file(root, f"{3:020d}.{4:020d}.compacted.json").write_text("")
    age(root, {0: 70, 1: 60, 2: 50, 3: 40, 4: 35, 5: 20, 6: 10, 7: 1})
    return store


def test_what_is_older_than_the_checkpoint_before_the_cut_goes(tmp_path: Path) -> None:
    store = table(tmp_path)
    before = paths(load(store))
    gone = clean_up(load(store), NOW)
    assert sorted(name.rpartition("/")[2] for name in gone) == [
        f"{0:020d}.{1:020d}.compacted.json",
        f"{0:020d}.json",
        f"{1:020d}.crc",
        f"{1:020d}.json",
        f"{2:020d}.{3:020d}.compacted.json",
    ]
    assert earliest_version(store.list("_delta_log", "")) == 2
    assert paths(load(store)) == before
    assert [load(store, version).version for version in range(2, 8)] == list(range(2, 8))
    assert clean_up(load(store), NOW) == []


def test_the_cut_is_at_midnight(tmp_path: Path) -> None:
    store = table(tmp_path)
    age(tmp_path, {0: 70, 1: 60, 2: 50, 3: 40, 4: 35, 5: 30.4, 6: 10, 7: 1})
    assert not [name for name in clean_up(load(store), NOW) if f"{2:020d}.json" in name]
    age(tmp_path, {0: 70, 1: 60, 2: 50, 3: 40, 4: 35, 5: 30.6, 6: 10, 7: 1})
    clean_up(load(store), NOW)
    assert earliest_version(store.list("_delta_log", "")) == 5


@pytest.mark.parametrize(
    "properties",
    [
        {"delta_enableExpiredLogCleanup": "false"},
        {"delta_logRetentionDuration": "interval 100 days"},
        {"delta_logRetentionDuration": "100.5 days"},
    ],
)
def test_a_table_may_keep_its_log(tmp_path: Path, properties: dict[str, str]) -> None:
    store = table(tmp_path, **properties)
    before = names(tmp_path)
    assert clean_up(load(store), NOW) == []
    assert names(tmp_path) == before


def test_without_an_old_checkpoint_nothing_goes(tmp_path: Path) -> None:
    store = create(tmp_path, add("f0"))
    commit(tmp_path, 1, add("f1"))
    age(tmp_path, {0: 70, 1: 60})
    checkpoint(load(store))
    log_file(tmp_path, f"{1:020d}.checkpoint.parquet").rename(
        log_file(tmp_path, f"{1:020d}.checkpoint.{1:010d}.{2:010d}.parquet")
    )
    assert clean_up(load(store), NOW) == []


def test_nothing_goes_when_the_checkpoint_that_replaces_it_is_damaged(tmp_path: Path) -> None:
    store = table(tmp_path)
    log_file(tmp_path, f"{2:020d}.checkpoint.parquet").write_bytes(b"PAR1")
    age(tmp_path, {0: 70, 1: 60, 2: 50, 3: 40, 4: 35, 5: 20, 6: 10, 7: 1})
    before = names(tmp_path)
    assert clean_up(load(store), NOW) == []
    assert names(tmp_path) == before


def test_a_due_checkpoint_cleans_up(tmp_path: Path) -> None:
    store = table(tmp_path, delta_checkpointInterval="1", delta_logRetentionDuration="interval 1 days")
    after_commit(load(store))
    assert earliest_version(store.list("_delta_log", "")) == 7
    assert load(store).checkpoint_version == 7


def test_sidecars_go_with_the_last_checkpoint_that_needs_them(tmp_path: Path) -> None:
    store = create(tmp_path)
    commit(tmp_path, 1, V2, metadata(properties={"delta.checkpointPolicy": "v2"}), add("a"))
    for version in (1, 2, 3):
        if version > 1:
            commit(tmp_path, version, add(f"f{version}"))
        checkpoint(load(store))
    sidecars = tmp_path / "_delta_log" / "_sidecars"
    (sidecars / "young.parquet").write_bytes(b"")
    age(tmp_path, {0: 70, 1: 60, 2: 50, 3: 20})
    for path in sidecars.iterdir():
        os.utime(path, ((NOW - 45 * DAY) / 1000,) * 2)
    os.utime(sidecars / "young.parquet", (NOW / 1000,) * 2)
    assert len(list(sidecars.iterdir())) == 4
    gone = clean_up(load(store), NOW)
    assert len([name for name in gone if "_sidecars" in name]) == 1
    assert len(list(sidecars.iterdir())) == 3
    assert paths(load(store, 2)) == ["a", "f2"]
    assert paths(load(store, 3)) == ["a", "f2", "f3"]


@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=12),
    st.sets(st.integers(0, 11)),
    st.integers(-1, 8),
)
def test_every_version_in_force_since_the_cut_can_still_be_made(days: list[int], checkpoints: set[int], cutoff: int) -> None:
    files = [ObjectInfo(f"_delta_log/{v:020d}.json", 1, day, "") for v, day in enumerate(days)]
    files += [ObjectInfo(f"_delta_log/{v:020d}.checkpoint.parquet", 1, 0, "") for v in checkpoints if v < len(days)]
    base = base_checkpoint(files, cutoff)
    gone = [] if base is None else expired_files(files, base.version)
    kept = sorted((info for info in files if info not in gone), key=lambda info: info.name)

    class Store:
        url = "/t"

        def list(self, folder: str, start: str = "") -> list[ObjectInfo]:
            return [info for info in kept if info.name.rpartition("/")[2] >= start]

        def read(self, name: str, most: int | None = None) -> bytes:
            return b""

    in_force = [v for v, day in enumerate(days) if day <= cutoff]
    first = max(in_force, default=0) if not in_force else max(in_force)
    for version in range(first, len(days)):
        assert find_segment(Store(), version).version == version  # type: ignore[arg-type]
    assert [commit_version(info) for info in kept if is_commit(info)][-1] == len(days) - 1
