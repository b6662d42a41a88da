"""Where a stream begins, where its batches end, and which files lie between: from logs that are written by hand."""

from __future__ import annotations

import itertools
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deltamerge.errors import DeltaMergeError
from deltamerge.log.replay.table import DeltaLog
from deltamerge.log.stream.offset import Offset, parse_offset
from deltamerge.log.stream.options import StreamOptions, stream_options
from deltamerge.log.stream.schemas import Analyzed
from deltamerge.log.stream.source import TableStream
from deltamerge.spark.stream.store import PlannerStore
from deltamerge.worker.scan.store import DataStore
from tests.unit.log.building import add, commit, create, info, log_file, metadata, remove, schema_text, vector

FEED = {"delta.enableChangeDataFeed": "true"}


def stream(root: Path, **options: Any) -> TableStream:
    """A stream that is made with the newest version, read as its planner reads it."""
    store = PlannerStore(str(root), DataStore("file", str(root)))
    newest = DeltaLog(store).snapshot()  # type: ignore[arg-type]
    given = {name: str(value) for name, value in options.items()}
    return TableStream(
        store,  # type: ignore[arg-type]
        Analyzed(newest.version, newest.protocol, newest.metadata),
        stream_options(given, "UTC"),
    )


def again(source: TableStream) -> TableStream:
    """The same stream after a restart."""
    return TableStream(source.store, source.analyzed, source.options)


def batches(source: TableStream, start: Offset | None = None) -> list[list[str]]:
    """The paths of each batch until there is no more."""
    found, at = [], start or source.start()
    while (end := source.latest(at)) != at:
        found.append([file.path for file in source.files(at, end)])
        assert [file.path for file in again(source).files(at, end)] == found[-1]  # whatever is kept, and without it
        at = end
    return found


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Three versions: two files, one more, two more and one that was only rearranged."""
    create(tmp_path, add("b", modificationTime=2), add("a", modificationTime=2))
    commit(tmp_path, 1, add("c", modificationTime=1))
    commit(tmp_path, 2, add("d"), add("e"), add("f", dataChange=False), remove("c", dataChange=False))
    return tmp_path


def test_a_stream_begins_with_the_table_and_goes_on_with_commits(table: Path) -> None:
    source = stream(table)
    assert batches(source) == [["a", "b", "d", "e", "f"]]
    at = source.latest(source.start())
    assert (at.version, at.index, at.is_snapshot) == (3, -1, False)
    commit(table, 3, add("g"))
    commit(table, 4, info())
    commit(table, 5, add("h"))
    assert batches(source, at) == [["g", "h"]]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"maxFilesPerTrigger": 2}, [["a", "b"], ["d", "e"], ["f"]]),
        ({"maxFilesPerTrigger": 2, "startingVersion": 0}, [["b", "a"], ["c", "d"], ["e"]]),
        ({"maxBytesPerTrigger": "11b", "startingVersion": 0}, [["b", "a"], ["c", "d"], ["e"]]),
        ({"maxBytesPerTrigger": "1k", "maxFilesPerTrigger": 1, "startingVersion": 2}, [["d"], ["e"]]),
        ({"startingVersion": 1}, [["c", "d", "e"]]),
        ({"startingVersion": 0, "excludeRegex": "[bd]"}, [["a", "c", "e"]]),
    ],
)
def test_a_batch_ends_where_it_was_told(table: Path, options: dict[str, Any], expected: list[list[str]]) -> None:
    assert batches(stream(table, **options)) == expected


def test_without_limits_a_batch_has_all(table: Path) -> None:
    source = stream(table, maxFilesPerTrigger=1, startingVersion=0)
    end = source.latest(source.start(), limited=False)
    assert end.place == (3, -1)


def test_a_bound_stream_ends_with_what_was_there(table: Path) -> None:
    source = stream(table, maxFilesPerTrigger=2, startingVersion=0)
    source.bound()
    at = source.latest(source.start())
    commit(table, 3, add("g"))
    assert batches(source, at) == [["c", "d"], ["e"]]


def test_latest_is_kept_by_a_batch_without_rows(table: Path) -> None:
    source = stream(table, startingVersion="latest")
    start = source.start()
    assert source.latest(start) == start
    commit(table, 3, add("g"))
    assert batches(source, start) == [["g"]]
    assert again(source).files(again(source).start(), start) == []


def test_a_time_is_the_first_version_from_it_on(table: Path) -> None:
    for version in range(3):
        os.utime(table / "_delta_log" / f"{version:020d}.json", (60 * (version + 1),) * 2)
    assert stream(table, startingTimestamp="1970-01-01 00:02:00").start().version == 1
    assert stream(table, startingTimestamp="1970-01-01 00:02:01").start().version == 2
    with pytest.raises(DeltaMergeError, match="DELTA_TIMESTAMP_GREATER_THAN_COMMIT"):
        stream(table, startingTimestamp="1970-01-01 00:03:01").start()


def test_the_first_batch_runs_again_on_its_own_snapshot(table: Path) -> None:
    source = stream(table, maxFilesPerTrigger=3)
    part = source.latest(source.start())
    whole = source.latest(source.start(), limited=False)
    commit(table, 3, add("g"), remove("a"))
    later = stream(table, maxFilesPerTrigger=3)
    assert [file.path for file in later.files(later.start(), part)] == ["a", "b", "d"]
    assert [file.path for file in later.files(later.start(), whole)] == ["a", "b", "d", "e", "f"]


DELETES, CHANGES = "DELTA_SOURCE_IGNORE_DELETE", "DELTA_SOURCE_TABLE_IGNORE_CHANGES"


@pytest.mark.parametrize(
    ("options", "deleted", "changed"),
    [
        ({}, DELETES, CHANGES),
        ({"ignoreDeletes": True}, [["b", "a", "c", "d", "e"], ["g"]], CHANGES),
        ({"ignoreChanges": True}, [["b", "a", "c", "d", "e"], ["g"]], [["b", "a", "c", "d", "e"], ["a2", "g"]]),
        ({"ignoreFileDeletion": True}, [["b", "a", "c", "d", "e"], ["g"]], [["b", "a", "c", "d", "e"], ["a2", "g"]]),
        ({"skipChangeCommits": True}, [["b", "a", "c", "d", "e"], ["g"]], [["b", "a", "c", "d", "e"], ["g"]]),
    ],
)
def test_changes_are_refused_unless_they_are_allowed(table: Path, options: dict[str, Any], deleted: Any, changed: Any) -> None:
    for expected, actions in ((deleted, [remove("a")]), (changed, [remove("a"), add("a2"), info(operation="UPDATE")])):
        log_file(table, f"{3:020d}.json").unlink(missing_ok=True)
        source = stream(table, startingVersion=0, **options)
        at = source.latest(source.start())
        commit(table, 3, *actions)
        if isinstance(expected, str):
            with pytest.raises(DeltaMergeError, match=expected):
                source.latest(at)
            continue
        log_file(table, f"{4:020d}.json").unlink(missing_ok=True)
        commit(table, 4, add("g"))
        assert [[file.path for file in source.files(source.start(), at)], *batches(source, at)] == expected
        log_file(table, f"{4:020d}.json").unlink()


def test_the_feed_of_a_commit_with_vectors_is_not_divided(tmp_path: Path) -> None:
    create(tmp_path, add("a"), add("b"), properties=FEED)
    commit(tmp_path, 1, add("c"), remove("b"))
    commit(tmp_path, 2, add("a", deletionVector=vector("v")), remove("a"), add("d"))
    commit(tmp_path, 3, add("e"), {"cdc": {"path": "_change_data/f", "partitionValues": {}, "size": 4, "dataChange": False}})
    commit(tmp_path, 4, info(operation="MERGE", operationMetrics=NOTHING), add("h"), remove("d"))
    source = stream(tmp_path, readChangeFeed=True, startingVersion=0, maxFilesPerTrigger=1)
    assert batches(source) == [["a"], ["b"], ["c"], ["b"], ["d", "a"], ["_change_data/f"]]
    kinds = {(file.version, file.kind) for file in source.files(source.start(), Offset(source.id, 4))}
    assert kinds == {(0, "insert"), (1, "insert"), (1, "delete"), (2, "insert"), (2, "delete"), (3, None)}
    whole = stream(tmp_path, readChangeFeed="true")
    assert {file.kind for file in whole.files(whole.start(), whole.latest(whole.start()))} == {"insert"}


NOTHING = {f"numTargetRows{change}": "0" for change in ("Inserted", "Updated", "Deleted")}


def test_versions_without_a_feed_are_refused(tmp_path: Path) -> None:
    create(tmp_path, add("a"))
    commit(tmp_path, 1, metadata(properties=FEED))
    commit(tmp_path, 2, add("b"))
    with pytest.raises(DeltaMergeError, match="DELTA_MISSING_CHANGE_DATA"):
        batches(stream(tmp_path, readChangeFeed=True, startingVersion=0))
    assert batches(stream(tmp_path, readChangeData=True, startingVersion=1)) == [["b"]]


def test_what_the_log_has_lost_is_said(table: Path) -> None:
    source = stream(table)
    begun = source.latest(replace(source.start(), version=0), limited=False)
    at = Offset(source.id, 1)
    assert begun.place == (3, -1)
    log_file(table, f"{1:020d}.json").unlink()
    with pytest.raises(DeltaMergeError, match="DELTA_MISSING_FILES_UNEXPECTED_VERSION"):
        again(source).latest(at)
    with pytest.raises(DeltaMergeError, match="DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE"):
        again(source).latest(Offset(source.id, 1, is_snapshot=True))
    lenient = again(source)
    lenient.options = replace(source.options, fail_on_loss=False)
    assert batches(lenient, at) == [["d", "e"]]
    with pytest.raises(DeltaMergeError, match="DELTA_STREAMING_TRAILING_COMMIT_MISSING"):
        lenient.files(at, Offset(source.id, 4))
    lenient.options = replace(source.options, start_version=7)
    with pytest.raises(DeltaMergeError, match=r"DELTA_VERSION_NOT_FOUND.*\[0, 2\]"):
        lenient.start()


@pytest.mark.parametrize(
    ("change", "condition"),
    [
        ({"schema": schema_text(id="long", value="string", more="long")}, "DELTA_SCHEMA_CHANGED_WITH_VERSION"),
        ({"schema": schema_text(id="string", value="string")}, "DELTA_SCHEMA_CHANGED_WITH_VERSION"),
        ({"schema": schema_text(id="long")}, None),
        ({"partition_by": ["id"]}, "DELTA_SCHEMA_CHANGED_WITH_VERSION"),
        ({"id": "other"}, "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE"),
        ({"properties": {"x": "y"}}, None),
    ],
)
def test_another_schema_ends_the_stream(table: Path, change: dict[str, Any], condition: str | None) -> None:
    source = stream(table)
    at = source.latest(source.start())
    commit(table, 3, metadata(**change), add("g"))
    if condition is None:
        assert batches(source, at) == [["g"]]
        return
    with pytest.raises(DeltaMergeError, match=condition):
        source.latest(at)
    if condition == "DELTA_SCHEMA_CHANGED_WITH_VERSION":
        source.options = replace(source.options, start_version=0)
        with pytest.raises(DeltaMergeError, match="DELTA_SCHEMA_CHANGED_WITH_STARTING_OPTIONS"):
            again(source).latest(at)


def test_a_stream_made_anew_reads_older_files_without_the_new_column(table: Path) -> None:
    commit(table, 3, metadata(schema_text(id="long", value="string", more="long")), add("g"))
    assert batches(stream(table, startingVersion=1)) == [["c", "d", "e", "g"]]


def test_a_stream_made_anew_reads_older_files_of_narrower_types(tmp_path: Path) -> None:
    features = {"readerFeatures": ["typeWidening"], "writerFeatures": ["typeWidening"]}
    commit(
        tmp_path, 0, {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}, metadata(schema_text(id="integer"))
    )
    before = stream(tmp_path)
    at = before.latest(before.start())
    commit(tmp_path, 1, metadata(schema_text(id="long")), add("g"))
    assert batches(stream(tmp_path, startingVersion=0)) == [["g"]]
    with pytest.raises(DeltaMergeError, match="DELTA_SCHEMA_CHANGED_WITH_VERSION"):
        before.latest(at)


MAPPED = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"}


def test_renamed_columns_end_the_stream(tmp_path: Path) -> None:
    def mapped(**names: str) -> str:
        fields = [
            {
                "name": name,
                "type": "long",
                "nullable": True,
                "metadata": {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical},
            }
            for number, (name, physical) in enumerate(names.items(), 1)
        ]
        return json.dumps({"type": "struct", "fields": fields})

    protocol = {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}
    commit(tmp_path, 0, protocol, metadata(mapped(a="p1", b="p2"), properties=MAPPED), add("x"))
    source = stream(tmp_path)
    at = source.latest(source.start())
    commit(tmp_path, 1, metadata(mapped(c="p1", b="p2"), properties=MAPPED), add("y"))
    with pytest.raises(DeltaMergeError, match="DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG"):
        source.latest(at)
    with pytest.raises(DeltaMergeError, match="DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG"):
        batches(stream(tmp_path, startingVersion=0))


def test_offsets_are_those_of_delta_spark() -> None:
    value = {"sourceVersion": 1, "reservoirId": "t", "reservoirVersion": 3, "index": 4, "isStartingVersion": True}
    assert Offset("t", 3, 4, is_snapshot=True).to_json() == value
    assert parse_offset(value, "t") == Offset("t", 3, 4, is_snapshot=True)
    assert parse_offset({**value, "sourceVersion": 3, "index": -100}, "t").index == -1
    refused = {
        "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE": {"reservoirId": "u"},
        "DELTA_INVALID_FORMAT_FROM_SOURCE_VERSION": {"sourceVersion": 4},
        "DELTA_INVALID_SOURCE_OFFSET_FORMAT": {"index": "x"},
    }
    for condition, change in refused.items():
        with pytest.raises(DeltaMergeError, match=condition):
            parse_offset({**value, **change}, "t")


@pytest.mark.parametrize(
    ("options", "condition"),
    [
        ({"maxFilesPerTrigger": "0"}, "DELTA_ILLEGAL_OPTION.*maxFilesPerTrigger"),
        ({"maxBytesPerTrigger": "10x"}, "DELTA_ILLEGAL_OPTION.*maxBytesPerTrigger"),
        ({"startingVersion": "-1"}, "DELTA_ILLEGAL_OPTION.*startingVersion"),
        ({"ignoreDeletes": "yes"}, "DELTA_ILLEGAL_OPTION.*ignoreDeletes"),
        ({"excludeRegex": "("}, "DELTA_REGEX_OPT_SYNTAX_ERROR"),
        ({"startingTimestamp": "soon"}, "DELTA_TIMESTAMP_INVALID"),
        ({"startingVersion": "1", "startingTimestamp": "2020-01-01"}, "DELTA_STARTING_VERSION_AND_TIMESTAMP_BOTH_SET"),
        ({"versionAsOf": "1"}, "DELTA_UNSUPPORTED_TIME_TRAVEL_VIEWS.*versionAsOf"),
        ({"endingVersion": "1"}, "DELTAMERGE_UNKNOWN_OPTION.*endingVersion"),
        ({"schemaTrackingLocation": "x"}, "DELTAMERGE_UNKNOWN_OPTION.*schemaTrackingLocation"),
    ],
)
def test_options_that_cannot_be_are_refused_by_their_names(options: dict[str, str], condition: str) -> None:
    with pytest.raises(DeltaMergeError, match=condition):
        stream_options(options, "UTC")


def test_options_have_names_of_any_case() -> None:
    assert stream_options({"MAXBYTESPERTRIGGER": "2m", "startingversion": "latest"}, "UTC") == StreamOptions(
        start_version="latest", max_bytes=2 << 20
    )


def test_a_table_partitioned_by_a_value_that_is_not_told_is_refused(tmp_path: Path) -> None:
    create(tmp_path, add("a", partitionValues={"id": "1"}), partition_by=["id"], properties=FEED)
    commit(tmp_path, 1, remove("a"))
    with pytest.raises(DeltaMergeError, match="DELTAMERGE_REMOVE_WITHOUT_PARTITION"):
        batches(stream(tmp_path, readChangeFeed=True, startingVersion=1))


def test_every_end_gives_each_file_once(table: Path) -> None:
    """Wherever batches end, the files between the ends are all files, each once."""
    source = stream(table, startingVersion=0)
    ends = [Offset(source.id, version, index) for version, index in itertools.product(range(4), (-1, 0, 1)) if version < 3]
    ends.append(Offset(source.id, 3))
    for count in range(3):
        for chosen in itertools.combinations(ends[1:-1], count):
            bounds = [ends[0], *chosen, ends[-1]]
            paths = [file.path for pair in itertools.pairwise(bounds) for file in source.files(*pair)]
            assert paths == ["b", "a", "c", "d", "e"]
