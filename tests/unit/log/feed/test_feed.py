"""Which files tell the changes of a range of versions, and which ranges are refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from deltamerge.errors import DeltaMergeError
from deltamerge.log.feed.feed import feed_of
from deltamerge.log.feed.range import FeedBounds
from deltamerge.log.replay.table import DeltaLog
from tests.unit.log.building import add, commit, create, info, metadata, remove, schema_text, vector

FEED = {"delta.enableChangeDataFeed": "true"}
MINUTE = 60_000
_CHANGED = "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_SCHEMA_CHANGE"
_DATA = "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_DATA_SCHEMA"


def cdc(path: str, **more: Any) -> dict[str, Any]:
    return {"cdc": {"path": path, "partitionValues": {}, "size": 4, "dataChange": False, **more}}


def table(root: Path, *commits: list[dict[str, Any]], **more: Any) -> DeltaLog:
    """A table with a feed, its commits a minute apart."""
    store = create(root, **{"properties": FEED, **more})
    for version, actions in enumerate(commits, 1):
        commit(root, version, *actions)
    for version in range(len(commits) + 1):
        os.utime(root / "_delta_log" / f"{version:020d}.json", (60 * (version + 1),) * 2)
    return DeltaLog(store)


def told(log: DeltaLog, start: int, end: int | None = None) -> list[tuple[Any, ...]]:
    """Version, kind, path and the ids of both vectors of each file."""
    files = feed_of(log, FeedBounds(start, end_version=end)).files
    vectors = [[found and found.path_or_inline for found in (file.vector, file.among)] for file in files]
    return [(file.version, file.kind, file.path, *found) for file, found in zip(files, vectors, strict=True)]


def test_change_files_are_all_that_a_version_tells(tmp_path: Path) -> None:
    log = table(tmp_path, [add("a"), remove("b"), cdc("_change_data/c")], [add("d")])
    assert told(log, 0) == [(1, None, "_change_data/c", None, None), (2, "insert", "d", None, None)]


def test_adds_are_inserts_and_removes_deletes_where_data_changes(tmp_path: Path) -> None:
    first = [add("a"), add("same", dataChange=False), remove("old", deletionVector=vector("v")), remove("r", dataChange=False)]
    log = table(tmp_path, [{**action, **partition(action)} for action in first])
    assert told(log, 1) == [(1, "insert", "a", None, None), (1, "delete", "old", "v", None)]


def partition(action: dict[str, Any]) -> dict[str, Any]:
    return {kind: {**value, "partitionValues": {}} for kind, value in action.items()}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, "x", [("delete", None, "x")]),
        ("x", None, [("insert", None, "x")]),
        ("x", "y", [("delete", "x", "y"), ("insert", "y", "x")]),
        ("x", "x", []),
        (None, None, []),
    ],
)
def test_a_file_that_stays_changes_where_its_vectors_differ(
    tmp_path: Path, before: str | None, after: str | None, expected: list[Any]
) -> None:
    old, new = ({"deletionVector": vector(name)} if name else {} for name in (before, after))
    log = table(tmp_path, [remove("p%41", **old, partitionValues={}), add("pA", **new)])
    assert [(kind, one, other) for _, kind, _, one, other in told(log, 1)] == expected


def test_a_merge_that_changed_no_row_tells_nothing(tmp_path: Path) -> None:
    counts = {f"numTargetRows{change}": "0" for change in ("Inserted", "Updated", "Deleted")}
    nothing = info(operation="MERGE", operationMetrics=counts)
    some = info(operation="MERGE", operationMetrics={**counts, "numTargetRowsInserted": "1"})
    log = table(tmp_path, [nothing, add("a")], [some, add("b")])
    assert [path for _, _, path, _, _ in told(log, 1)] == ["b"]


def test_times_are_those_of_the_commits(tmp_path: Path) -> None:
    log = table(tmp_path, [add("a")], [info(inCommitTimestamp=77), add("b")])
    assert [file.timestamp for file in feed_of(log, FeedBounds(0)).files] == [2 * MINUTE, 77]


@pytest.mark.parametrize(
    ("bounds", "versions"),
    [
        (FeedBounds(1), [1, 2, 3]),
        (FeedBounds(1, end_version=2), [1, 2]),
        (FeedBounds(2, end_version=9), [2, 3]),
        (FeedBounds(start_time=2 * MINUTE), [1, 2, 3]),
        (FeedBounds(start_time=2 * MINUTE + 1), [2, 3]),
        (FeedBounds(start_time=5), [1, 2, 3]),
        (FeedBounds(start_time=2 * MINUTE, end_time=3 * MINUTE + 1), [1, 2]),
        (FeedBounds(start_time=2 * MINUTE + 1, end_time=2 * MINUTE + 2), []),
        (FeedBounds(1, end_time=2 * MINUTE), [1]),
        (FeedBounds(start_time=4 * MINUTE), [3]),
    ],
)
def test_ranges(tmp_path: Path, bounds: FeedBounds, versions: list[int]) -> None:
    log = table(tmp_path, [add("a")], [add("b")], [add("c")])
    assert [file.version for file in feed_of(log, bounds).files] == versions


@pytest.mark.parametrize(
    ("bounds", "condition"),
    [
        (FeedBounds(), "DELTA_NO_START_FOR_CDC_READ"),
        (FeedBounds(end_version=1), "DELTA_NO_START_FOR_CDC_READ"),
        (FeedBounds(1, 1), "DELTA_MULTIPLE_CDC_BOUNDARY"),
        (FeedBounds(1, end_version=2, end_time=1), "DELTA_MULTIPLE_CDC_BOUNDARY"),
        (FeedBounds(2, end_version=1), "DELTA_INVALID_CDC_RANGE"),
        (FeedBounds(start_time=3 * MINUTE, end_time=MINUTE), "DELTA_INVALID_CDC_RANGE"),
        (FeedBounds(start_time=2 * MINUTE + 2, end_time=2 * MINUTE + 1), "DELTA_INVALID_CDC_RANGE"),
        (FeedBounds(4), "DELTA_CDC_START_VERSION_AFTER_LATEST"),
        (FeedBounds(-1), "DELTA_VERSION_NOT_FOUND"),
        (FeedBounds(start_time=4 * MINUTE + 1), "DELTA_TIMESTAMP_GREATER_THAN_COMMIT"),
        (FeedBounds(start_time=4 * MINUTE + 2), "DELTA_TIMESTAMP_GREATER_THAN_COMMIT"),
        (FeedBounds(1, end_time=5 * MINUTE), "DELTA_TIMESTAMP_GREATER_THAN_COMMIT"),
        (FeedBounds(1, end_time=5), "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION"),
    ],
)
def test_ranges_that_are_refused(tmp_path: Path, bounds: FeedBounds, condition: str) -> None:
    log = table(tmp_path, [add("a")], [add("b")], [add("c")])
    with pytest.raises(DeltaMergeError) as caught:
        feed_of(log, bounds)
    assert caught.value.condition == condition


def test_versions_without_a_feed_are_refused(tmp_path: Path) -> None:
    off, on = metadata(), metadata(properties=FEED)
    log = table(tmp_path, [on, add("a")], [off], [add("b")], [on], properties={})
    for start, end, version in ((0, 0, 0), (1, 2, 2), (1, 4, 2), (3, 4, 3)):
        with pytest.raises(DeltaMergeError) as caught:
            feed_of(log, FeedBounds(start, end_version=end))
        assert (caught.value.condition, caught.value.parameters["version"]) == ("DELTA_MISSING_CHANGE_DATA", version)
    assert told(log, 1, 1) == [(1, "insert", "a", None, None)]
    assert told(log, 4) == []


def test_rows_have_the_last_schema_if_it_tells_the_earlier_ones(tmp_path: Path) -> None:
    wider = metadata(schema_text(id="long", value="string", more="long"), properties=FEED)
    dropped = metadata(schema_text(id="long", more="long"), properties=FEED)
    log = table(tmp_path, [add("a")], [wider], [dropped], [wider])
    assert feed_of(log, FeedBounds(0, end_version=1)).snapshot.schema.names == ["id", "value"]
    assert feed_of(log, FeedBounds(0, end_version=2)).snapshot.schema.names == ["id", "value", "more"]
    for start, end, condition in ((0, 3, _CHANGED), (1, 3, _CHANGED), (2, 3, _DATA)):
        with pytest.raises(DeltaMergeError) as caught:
            feed_of(log, FeedBounds(start, end_version=end))
        assert caught.value.condition == condition
    assert feed_of(log, FeedBounds(3)).snapshot.version == 4


def test_a_mapped_table_is_not_read_across_the_end_of_its_mapping(tmp_path: Path) -> None:
    mapped = metadata(properties={**FEED, "delta.columnMapping.mode": "name"})
    protocol = {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}
    log = table(tmp_path, [protocol, mapped], [metadata(properties=FEED)])
    with pytest.raises(DeltaMergeError, match="INCOMPATIBLE_DATA_SCHEMA"):
        feed_of(log, FeedBounds(1))


def test_a_removed_file_of_a_flat_table_needs_no_partition_values(tmp_path: Path) -> None:
    log = table(tmp_path, [add("a")], [remove("a")])
    assert told(log, 2) == [(2, "delete", "a", None, None)]


def test_what_the_log_lacks_is_named(tmp_path: Path) -> None:
    log = table(tmp_path, [add("a", partitionValues={"value": "x"})], [remove("a")], partition_by=["value"])
    with pytest.raises(DeltaMergeError, match="DELTAMERGE_REMOVE_WITHOUT_PARTITION"):
        feed_of(log, FeedBounds(2))
    log = table(tmp_path / "flat", [metadata(properties=FEED), remove("a")], partition_by=["value"])
    with pytest.raises(DeltaMergeError, match="DELTAMERGE_REMOVE_WITHOUT_PARTITION"):
        feed_of(log, FeedBounds(1))
    log = table(tmp_path / "gap", [add("a")], [add("b")])
    log.snapshot()
    (tmp_path / "gap" / "_delta_log" / f"{1:020d}.json").unlink()
    with pytest.raises(DeltaMergeError) as caught:
        feed_of(log, FeedBounds(0))
    assert caught.value.condition == "DELTA_VERSIONS_NOT_CONTIGUOUS"
