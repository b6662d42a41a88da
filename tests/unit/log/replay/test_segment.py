"""Which log files make up a version, and what is said when they don't."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from deltamerge.errors import AnalysisError, CorruptTableError, DeltaMergeError, TableNotFoundError
from deltamerge.log.replay.segment import (
    LogSegment,
    all_commits,
    checksum_name,
    commit_name,
    commit_version,
    commits_after,
    earliest_version,
    find_segment,
)
from deltamerge.storage import ObjectInfo
from deltamerge.storage.local import LocalStore
from tests.unit.log.building import log_file


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(str(tmp_path))


def touch(root: Path, *names: str) -> None:
    for name in names:
        log_file(root, name).write_text("{}")


def commits(root: Path, *versions: int) -> None:
    touch(root, *(f"{version:020d}.json" for version in versions))


def classic(version: int) -> str:
    return f"{version:020d}.checkpoint.parquet"


def part(version: int, number: int, count: int) -> str:
    return f"{version:020d}.checkpoint.{number:010d}.{count:010d}.parquet"


def point_to(root: Path, content: object) -> None:
    log_file(root, "_last_checkpoint").write_text(content if isinstance(content, str) else json.dumps(content))


def shape(segment: LogSegment) -> tuple[int, int | None, list[int]]:
    checkpoint = None if segment.checkpoint is None else segment.checkpoint.version
    return segment.version, checkpoint, [commit_version(info) for info in segment.commits]


def test_without_checkpoint_all_commits_are_replayed(tmp_path: Path, store: LocalStore) -> None:
    commits(tmp_path, 0, 1, 2)
    assert shape(find_segment(store)) == (2, None, [0, 1, 2])


def test_the_newest_checkpoint_cuts_the_commits(tmp_path: Path, store: LocalStore) -> None:
    commits(tmp_path, *range(6))
    touch(tmp_path, classic(2), classic(4))
    assert shape(find_segment(store)) == (5, 4, [5])


def test_commits_before_a_checkpoint_may_be_gone(tmp_path: Path, store: LocalStore) -> None:
    commits(tmp_path, 4, 5)
    touch(tmp_path, classic(3))
    assert shape(find_segment(store)) == (5, 3, [4, 5])


def test_a_checkpoint_can_be_the_newest_file(tmp_path: Path, store: LocalStore) -> None:
    touch(tmp_path, classic(3))
    assert shape(find_segment(store)) == (3, 3, [])


def test_a_complete_multi_part_checkpoint_is_used_in_order_of_its_parts(tmp_path: Path, store: LocalStore) -> None:
    commits(tmp_path, 0, 1, 2)
    touch(tmp_path, part(1, 3, 3), part(1, 1, 3), part(1, 2, 3))
    segment = find_segment(store)
    assert shape(segment) == (2, 1, [2])
    assert segment.checkpoint is not None
    assert [info.name for info in segment.checkpoint.parts] == [f"_delta_log/{part(1, number, 3)}" for number in (1, 2, 3)]


def test_an_incomplete_multi_part_checkpoint_is_passed_over(tmp_path: Path, store: LocalStore) -> None:
    commits(tmp_path, *range(5))
    touch(tmp_path, classic(1), part(3, 1, 3), part(3, 3, 3))
    assert shape(find_segment(store)) == (4, 1, [2, 3, 4])


def test_parts_of_different_checkpoints_do_not_make_one(tmp_path: Path, store: LocalStore) -> None:
    commits(tmp_path, 0, 1, 2)
    touch(tmp_path, part(1, 1, 2), part(1, 2, 3))
    assert shape(find_segment(store)) == (2, None, [0, 1, 2])


def test_other_files_of_the_log_are_passed_over(tmp_path: Path, store: LocalStore) -> None:
    commits(tmp_path, 0, 1)
    touch(tmp_path, ".00000000000000000001.json.crc", "00000000000000000001.crc", "00000000000000000002.json.tmp")
    touch(tmp_path, f"{5:020d}.checkpoint.parquet.tmp", "3.json", "_last_checkpoint.crc")
    log_file(tmp_path, "_sidecars").mkdir()
    assert shape(find_segment(store)) == (1, None, [0, 1])


def test_the_pointer_spares_the_older_files(tmp_path: Path, store: LocalStore) -> None:
    commits(tmp_path, 0, 1, 3, 4)
    touch(tmp_path, classic(3))
    point_to(tmp_path, {"version": 3, "size": 1})
    assert shape(find_segment(store)) == (4, 3, [4])


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "null",
        "[]",
        '"3"',
        "{}",
        {"version": None},
        {"version": "three"},
        {"version": -3},
        '{"version": Infinity}',
        "\udcff",
    ],
    ids=repr,
)
def test_a_damaged_pointer_is_passed_over(tmp_path: Path, store: LocalStore, content: object) -> None:
    commits(tmp_path, 0, 1, 2)
    touch(tmp_path, classic(1))
    log_file(tmp_path, "_last_checkpoint").write_bytes(
        (content if isinstance(content, str) else json.dumps(content)).encode("utf-8", "surrogateescape")
    )
    assert shape(find_segment(store)) == (2, 1, [2])


@pytest.mark.parametrize("version", [None, 2, 3])
@pytest.mark.parametrize("pointer", [2, 3, 50, 10**30])
def test_a_pointer_to_no_checkpoint_is_passed_over(tmp_path: Path, store: LocalStore, pointer: int, version: int | None) -> None:
    commits(tmp_path, 0, 1, 2, 3)
    touch(tmp_path, classic(1))
    point_to(tmp_path, {"version": pointer})
    expected = 3 if version is None else version
    assert shape(find_segment(store, version)) == (expected, 1, list(range(2, expected + 1)))


def test_a_pointer_to_an_incomplete_checkpoint_is_passed_over(tmp_path: Path, store: LocalStore) -> None:
    commits(tmp_path, 0, 1, 2, 3)
    touch(tmp_path, part(2, 1, 2))
    point_to(tmp_path, {"version": 2, "parts": 2})
    assert shape(find_segment(store)) == (3, None, [0, 1, 2, 3])
    assert shape(find_segment(store, 3)) == (3, None, [0, 1, 2, 3])


@pytest.mark.parametrize(
    ("version", "expected"),
    [(0, (0, None, [0])), (1, (1, None, [0, 1])), (2, (2, 2, [])), (4, (4, 2, [3, 4])), (5, (5, 5, [])), (6, (6, 5, [6]))],
)
def test_time_travel_starts_at_the_checkpoint_before(
    tmp_path: Path, store: LocalStore, version: int, expected: tuple[int, int | None, list[int]]
) -> None:
    commits(tmp_path, *range(7))
    touch(tmp_path, classic(2), classic(5))
    point_to(tmp_path, {"version": 5})
    assert shape(find_segment(store, version)) == expected


@pytest.mark.parametrize("version", [3, 99, -1])
def test_a_version_that_does_not_exist_is_refused(tmp_path: Path, store: LocalStore, version: int) -> None:
    commits(tmp_path, 0, 1, 2)
    with pytest.raises(AnalysisError) as caught:
        find_segment(store, version)
    assert caught.value.condition == "DELTA_VERSION_NOT_FOUND"
    assert caught.value.parameters == {"userVersion": version, "earliest": 0, "latest": 2}


@pytest.mark.parametrize(
    ("present", "checkpoint", "version", "missing"),
    [
        ((0, 1, 3), None, None, 2),
        ((0, 1, 3), None, 3, 2),
        ((0, 1, 3), None, 2, 2),
        ((0, 2, 3, 5), None, None, 1),
        ((0, 1, 2, 4), 2, None, 3),
        ((4, 5), 2, None, 3),
        ((3, 5), 2, 5, 4),
    ],
)
def test_a_gap_is_named(
    tmp_path: Path, store: LocalStore, present: tuple[int, ...], checkpoint: int | None, version: int | None, missing: int
) -> None:
    commits(tmp_path, *present)
    if checkpoint is not None:
        touch(tmp_path, classic(checkpoint))
    with pytest.raises(CorruptTableError) as caught:
        find_segment(store, version)
    assert caught.value.condition == "DELTA_VERSIONS_NOT_CONTIGUOUS"
    assert caught.value.parameters["missing"] == missing
    assert f"{missing:020d}.json" in (caught.value.hint or "")


def test_a_gap_behind_a_time_travel_does_not_matter(tmp_path: Path, store: LocalStore) -> None:
    commits(tmp_path, 0, 1, 3)
    assert shape(find_segment(store, 1)) == (1, None, [0, 1])


@pytest.mark.parametrize("version", [None, 3, 5])
@pytest.mark.parametrize("other", [None, ".00000000000000000003.json.crc", part(4, 1, 2)])
@pytest.mark.parametrize("pointer", [None, 4])
def test_a_log_without_beginning_is_truncated(
    tmp_path: Path, store: LocalStore, version: int | None, other: str | None, pointer: int | None
) -> None:
    commits(tmp_path, 3, 4, 5)
    if other is not None:
        touch(tmp_path, other)
    if pointer is not None:
        point_to(tmp_path, {"version": pointer})
    with pytest.raises(CorruptTableError) as caught:
        find_segment(store, version)
    assert caught.value.condition == "DELTA_TRUNCATED_TRANSACTION_LOG"
    assert caught.value.parameters == {"path": store.url, "version": 5 if version is None else version}


def test_a_version_before_the_first_checkpoint_is_not_found(tmp_path: Path, store: LocalStore) -> None:
    commits(tmp_path, 2, 3, 4)
    touch(tmp_path, classic(3))
    with pytest.raises(AnalysisError) as caught:
        find_segment(store, 2)
    assert caught.value.condition == "DELTA_VERSION_NOT_FOUND"
    assert caught.value.parameters == {"userVersion": 2, "earliest": 3, "latest": 4}


def no_folder(root: Path) -> None:
    root.rmdir()


def empty_folder(root: Path) -> None:
    pass


def data_without_log(root: Path) -> None:
    (root / "part-0.parquet").write_bytes(b"")


def empty_log(root: Path) -> None:
    (root / "_delta_log").mkdir()


def log_of_others(root: Path) -> None:
    touch(root, "readme.txt", ".tmp")
    point_to(root, {"version": 3})


@pytest.mark.parametrize("version", [None, 0])
@pytest.mark.parametrize(
    ("make", "condition", "says"),
    [
        (no_folder, "DELTA_MISSING_DELTA_TABLE", "there is no such folder"),
        (empty_folder, "DELTA_MISSING_DELTA_TABLE", "it has no _delta_log folder"),
        (data_without_log, "DELTA_MISSING_DELTA_TABLE", "it has no _delta_log folder"),
        (empty_log, "DELTA_TABLE_NOT_FOUND", "its _delta_log folder holds no commit"),
        (log_of_others, "DELTA_TABLE_NOT_FOUND", "its _delta_log folder holds no commit"),
    ],
)
def test_what_is_no_table_is_told_apart(tmp_path: Path, make, condition: str, says: str, version: int | None) -> None:
    root = tmp_path / "table"
    root.mkdir()
    make(root)
    with pytest.raises(TableNotFoundError) as caught:
        find_segment(LocalStore(str(root)), version)
    assert caught.value.condition == condition
    assert caught.value.parameters == {"tableName": str(root)}
    assert says in str(caught.value)


def test_every_condition_has_a_hint(tmp_path: Path, store: LocalStore) -> None:
    commits(tmp_path, 0, 2)
    for version in (None, 7):
        with pytest.raises(DeltaMergeError) as caught:
            find_segment(store, version)
        assert caught.value.hint


def test_commits_after_a_version(tmp_path: Path, store: LocalStore) -> None:
    commits(tmp_path, 0, 1, 2, 3)
    touch(tmp_path, classic(2))
    assert [commit_version(info) for info in commits_after(store, 1)] == [2, 3]
    assert commits_after(store, 3) == []


def test_commits_after_a_version_are_contiguous(tmp_path: Path, store: LocalStore) -> None:
    commits(tmp_path, 0, 1, 3)
    with pytest.raises(CorruptTableError) as caught:
        commits_after(store, 1)
    assert caught.value.parameters["missing"] == 2


def test_all_commits_are_those_still_there(tmp_path: Path, store: LocalStore) -> None:
    commits(tmp_path, 2, 3)
    touch(tmp_path, classic(2), ".00000000000000000003.json.crc")
    assert [info.name for info in all_commits(store)] == [commit_name(2), commit_name(3)]


@pytest.mark.parametrize("checkpoint", [0, 1, 2])
def test_the_timestamp_is_that_of_the_versions_commit(tmp_path: Path, store: LocalStore, checkpoint: int) -> None:
    commits(tmp_path, 0, 1, 2)
    touch(tmp_path, classic(checkpoint))
    os.utime(log_file(tmp_path, f"{2:020d}.json"), (1_000, 1_000))
    found = find_segment(store)
    assert found.tip == store.info(commit_name(2))
    assert found.timestamp == 1_000_000


def test_without_commit_file_the_timestamp_is_the_checkpoints(tmp_path: Path, store: LocalStore) -> None:
    touch(tmp_path, classic(2))
    os.utime(log_file(tmp_path, classic(2)), (1_000, 1_000))
    found = find_segment(store)
    assert found.tip is None
    assert found.timestamp == 1_000_000


UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"


def compacted(first: int, last: int) -> str:
    return f"{first:020d}.{last:020d}.compacted.json"


def names(segment: LogSegment) -> list[str]:
    return [info.name.rpartition("/")[2] for info in segment.commits]


@pytest.mark.parametrize("ending", ["json", "parquet"])
def test_a_checkpoint_may_be_named_by_a_uuid(tmp_path: Path, store: LocalStore, ending: str) -> None:
    commits(tmp_path, 0, 1, 2)
    touch(tmp_path, f"{1:020d}.checkpoint.{UUID}.{ending}")
    segment = find_segment(store)
    assert shape(segment) == (2, 1, [2])
    assert segment.checkpoint is not None
    assert segment.checkpoint.has_uuid


def test_of_several_checkpoints_of_a_version_those_to_be_avoided_leave_the_next(tmp_path: Path, store: LocalStore) -> None:
    commits(tmp_path, 0, 1, 2)
    touch(tmp_path, classic(0), classic(1), part(1, 1, 2), part(1, 2, 2), f"{1:020d}.checkpoint.{UUID}.json")
    avoid: set[str] = set()
    found = []
    for _ in range(5):
        checkpoint = find_segment(store, None, frozenset(avoid)).checkpoint
        found.append(None if checkpoint is None else (checkpoint.version, len(checkpoint.parts), checkpoint.has_uuid))
        avoid |= set() if checkpoint is None else {checkpoint.parts[0].name}
    assert found == [(1, 1, True), (1, 1, False), (1, 2, False), (0, 1, False), None]


def test_a_compaction_stands_in_for_its_commits(tmp_path: Path, store: LocalStore) -> None:
    commits(tmp_path, *range(8))
    touch(tmp_path, classic(1), compacted(2, 3), compacted(2, 5), compacted(0, 6), compacted(5, 7), compacted(6, 9))
    assert names(find_segment(store)) == [compacted(2, 5), f"{6:020d}.json", f"{7:020d}.json"]
    assert find_segment(store).tip == store.info(commit_name(7))
    assert names(find_segment(store, 4)) == [compacted(2, 3), f"{4:020d}.json"]
    avoid = frozenset({f"_delta_log/{compacted(2, 5)}"})
    assert names(find_segment(store, 5, avoid)) == [compacted(2, 3), f"{4:020d}.json", f"{5:020d}.json"]


def test_a_compaction_makes_no_newer_version(tmp_path: Path, store: LocalStore) -> None:
    commits(tmp_path, 0, 1)
    touch(tmp_path, compacted(0, 5), compacted(1, 1))
    assert names(find_segment(store)) == [f"{0:020d}.json", f"{1:020d}.json"]


def test_a_compaction_bridges_commits_that_are_gone(tmp_path: Path, store: LocalStore) -> None:
    commits(tmp_path, 0, 4)
    touch(tmp_path, compacted(1, 3))
    assert names(find_segment(store)) == [f"{0:020d}.json", compacted(1, 3), f"{4:020d}.json"]


def test_the_version_checksum_file_is_found(tmp_path: Path, store: LocalStore) -> None:
    commits(tmp_path, 0, 1)
    touch(tmp_path, f"{1:020d}.crc")
    assert [find_segment(store, version).checksum for version in (1, 0)] == [store.info(checksum_name(1)), None]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ([], None),
        ([commit_name(0), commit_name(1)], 0),
        ([commit_name(1), commit_name(2)], None),
        ([commit_name(3), commit_name(4), f"_delta_log/{classic(3)}"], 3),
        ([commit_name(3), commit_name(4), f"_delta_log/{classic(2)}"], 3),
        ([commit_name(3), commit_name(4), f"_delta_log/{part(3, 1, 2)}", f"_delta_log/{classic(4)}"], 4),
    ],
)
def test_the_earliest_version_has_a_commit_and_all_before_it(files: list[str], expected: int | None) -> None:
    assert earliest_version([ObjectInfo(name, 1, 1, "") for name in files]) == expected
