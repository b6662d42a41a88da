"""What a commit says of its version: in-commit timestamps and row ids, also when it is tried again."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deltamerge.errors import AnalysisError, CommitStateUnknownError, CorruptTableError, StorageError
from deltamerge.log.commit.conflict import Isolation, ReadSet
from deltamerge.log.commit.row_ids import high_water_mark
from deltamerge.log.commit.transaction import Proposal, commit
from deltamerge.log.replay.commit_times import ENABLEMENT_TIMESTAMP, ENABLEMENT_VERSION
from deltamerge.log.replay.files import FileSet
from deltamerge.log.replay.segment import commit_name
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.protocol.table.actions import Action, AddFile, DeletionVector, DomainMetadata, Metadata, Protocol, RemoveFile
from deltamerge.storage import AlreadyExists, ObjectInfo
from deltamerge.storage.local import LocalStore
from tests.unit.log import building
from tests.unit.log.building import create, load, metadata

FUTURE = 4_000_000_000_000
ROWS = ["rowTracking", "domainMetadata"]


def protocol(*features: str) -> dict[str, Any]:
    return {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": list(features)}}


def table(root: Path, features: list[str], *actions: dict[str, Any], **properties: str) -> LocalStore:
    named = {name.replace("_", "."): value for name, value in properties.items()}
    building.commit(root, 0, *actions, protocol(*features), metadata(properties=named))
    return LocalStore(str(root))


def lines(store: LocalStore, version: int) -> list[dict[str, Any]]:
    return [json.loads(line) for line in store.read(commit_name(version)).splitlines()]


def append(name: str, rows: int = 2, **more: Any) -> AddFile:
    return AddFile(name, {}, 1, 1, stats=f'{{"numRecords":{rows}}}', **more)


def write(read: Snapshot, *actions: Action) -> Snapshot:
    return commit(read, Proposal("WRITE", actions)).snapshot


@pytest.mark.parametrize(
    ("last", "follows"), [(2**63 - 2, 2**63 - 1), (2**63 - 1, None), (2**63, "now"), (10**23, "now"), (True, "now")]
)
def test_a_time_that_no_later_one_follows(tmp_path: Path, last: Any, follows: Any) -> None:
    first = building.info(inCommitTimestamp=last)
    store = table(tmp_path, ["inCommitTimestamp"], first, delta_enableInCommitTimestamps="true")
    if follows is None:
        with pytest.raises(CorruptTableError, match="No later time can follow the inCommitTimestamp of version 0"):
            write(load(store), append("a"))
        assert load(store).version == 0
    else:
        made = write(load(store), append("a")).timestamp
        assert made == follows if follows != "now" else abs(made - time.time() * 1000) < 60_000


def test_a_commit_is_later_than_the_one_before_whatever_the_clock_says(tmp_path: Path) -> None:
    first = building.info(inCommitTimestamp=FUTURE)
    store = table(tmp_path, ["inCommitTimestamp"], first, delta_enableInCommitTimestamps="true")
    one = write(load(store), append("a"))
    two = write(one, append("b"))
    assert list(lines(store, 1)[0]) == ["commitInfo"]
    assert [lines(store, v)[0]["commitInfo"]["inCommitTimestamp"] for v in (1, 2)] == [FUTURE + 1, FUTURE + 2]
    assert (one.timestamp, two.timestamp) == (FUTURE + 1, FUTURE + 2)
    assert load(store).timestamp == FUTURE + 2


def test_a_commit_tried_again_is_later_than_the_winner(tmp_path: Path) -> None:
    first = building.info(inCommitTimestamp=5)
    store = table(tmp_path, ["inCommitTimestamp"], first, delta_enableInCommitTimestamps="true")
    read = load(store)
    building.commit(tmp_path, 1, building.info(inCommitTimestamp=FUTURE), building.add("x"))
    assert write(read, append("a")).timestamp == FUTURE + 1


@pytest.mark.parametrize("features", [[], ["inCommitTimestamp"]])
def test_without_the_feature_in_force_no_commit_tells_its_time(tmp_path: Path, features: list[str]) -> None:
    properties = {} if features else {"delta_enableInCommitTimestamps": "true"}
    store = table(tmp_path, features, **properties)
    write(load(store), append("a"))
    assert "inCommitTimestamp" not in lines(store, 1)[0]["commitInfo"]


def test_the_commit_that_turns_timestamps_on_says_so(tmp_path: Path) -> None:
    store = create(tmp_path)
    read = load(store)
    building.commit(tmp_path, 1, building.add("x"))
    on = metadata(properties={"delta.enableInCommitTimestamps": "true"})["metaData"]
    changed = Protocol(1, 7, None, frozenset({"inCommitTimestamp"}))
    done = write(read, changed, Metadata.from_json(on))
    made = lines(store, 2)[0]["commitInfo"]["inCommitTimestamp"]
    assert made > load(store, 1).timestamp
    assert done.metadata.configuration[ENABLEMENT_VERSION] == "2"
    assert done.metadata.configuration[ENABLEMENT_TIMESTAMP] == str(made)
    assert done.timestamp == made


def test_a_table_made_with_timestamps_needs_no_word_of_it(tmp_path: Path) -> None:
    on = metadata(properties={"delta.enableInCommitTimestamps": "true"})["metaData"]
    store = LocalStore(str(tmp_path))
    changed = Protocol(1, 7, None, frozenset({"inCommitTimestamp"}))
    empty = Snapshot(store, -1, 0, changed, Metadata.from_json(on), FileSet())
    done = write(empty, empty.protocol, empty.metadata)
    assert done.timestamp == lines(store, 0)[0]["commitInfo"]["inCommitTimestamp"]
    assert ENABLEMENT_VERSION not in done.metadata.configuration


IN_COMMIT = Protocol(1, 7, None, frozenset({"inCommitTimestamp"}))
ON = {"delta.enableInCommitTimestamps": "true"}
OF_OTHERS = {ENABLEMENT_VERSION: "17", ENABLEMENT_TIMESTAMP: "5"}


def with_properties(properties: dict[str, str]) -> Metadata:
    return Metadata.from_json(metadata(properties=properties)["metaData"])


@pytest.mark.parametrize("own", [{}, {ENABLEMENT_VERSION: "1", ENABLEMENT_TIMESTAMP: "3"}], ids=["from the start", "later"])
@pytest.mark.parametrize("given", [{}, OF_OTHERS], ids=["nothing", "of others"])
def test_a_table_goes_on_to_say_since_when(tmp_path: Path, own: dict[str, str], given: dict[str, str]) -> None:
    properties = {name.replace(".", "_"): value for name, value in {**ON, **own}.items()}
    store = table(tmp_path, ["inCommitTimestamp"], building.info(inCommitTimestamp=5), **properties)
    done = write(load(store), with_properties({**ON, **given, "a": "b"}))
    assert dict(done.metadata.configuration) == {**ON, **own, "a": "b"}


@pytest.mark.parametrize("properties", [ON, {}], ids=["on", "off"])
def test_a_new_table_says_nothing_of_another_ones_start(tmp_path: Path, properties: dict[str, str]) -> None:
    given = with_properties({**properties, **OF_OTHERS})
    empty = Snapshot(LocalStore(str(tmp_path)), -1, 0, IN_COMMIT, given, FileSet())
    assert dict(write(empty, IN_COMMIT, given).metadata.configuration) == properties


def test_timestamps_that_are_turned_on_again_begin_anew(tmp_path: Path) -> None:
    store = table(tmp_path, ["inCommitTimestamp"])
    done = write(load(store), with_properties({**ON, **OF_OTHERS}))
    since = {ENABLEMENT_VERSION: "1", ENABLEMENT_TIMESTAMP: str(done.timestamp)}
    assert dict(done.metadata.configuration) == {**ON, **since}


def ids(snapshot: Snapshot) -> dict[str, tuple[int | None, int | None]]:
    rows = snapshot.files.table().to_pylist()
    return {row["path"]: (row["baseRowId"], row["defaultRowCommitVersion"]) for row in rows}


def test_added_rows_get_ids_above_all_others(tmp_path: Path) -> None:
    store = table(tmp_path, ROWS)
    one = write(load(store), append("a", 3), append("b", 2))
    assert ids(one) == {"a": (0, 1), "b": (3, 1)}
    assert high_water_mark(one.domains) == 4
    two = write(one, append("c", 5), RemoveFile("a", 1))
    assert ids(load(store)) == {"b": (3, 1), "c": (5, 2)}
    assert json.loads(two.domains["delta.rowTracking"].configuration) == {"rowIdHighWaterMark": 9}


def test_a_file_committed_again_keeps_its_ids(tmp_path: Path) -> None:
    one = write(load(table(tmp_path, ROWS)), append("a", 3))
    two = write(one, append("a", 3, base_row_id=0, default_row_commit_version=1))
    assert ids(two) == {"a": (0, 1)}
    assert high_water_mark(two.domains) == 2
    assert not any("domainMetadata" in line for line in lines(LocalStore(str(tmp_path)), 2))


def test_ids_are_assigned_anew_after_a_winner(tmp_path: Path) -> None:
    store = table(tmp_path, ROWS)
    read = load(store)
    write(read, append("x", 10))
    assert ids(write(read, append("a", 3))) == {"x": (0, 1), "a": (10, 2)}
    assert high_water_mark(load(store).domains) == 12


def backfilled(tmp_path: Path) -> tuple[LocalStore, Snapshot]:
    """A table, and its version before the one that gives ids to the rows of its files a and b."""
    store = table(tmp_path, [], building.add("a", stats='{"numRecords":3}'), building.add("b", stats='{"numRecords":2}'))
    building.commit(tmp_path, 1, protocol(*ROWS))
    given = [
        building.add("b", stats='{"numRecords":2}', dataChange=False, baseRowId=0, defaultRowCommitVersion=2),
        building.add("a", stats='{"numRecords":3}', dataChange=False, baseRowId=2, defaultRowCommitVersion=2),
    ]
    mark = {"domainMetadata": {"domain": "delta.rowTracking", "configuration": '{"rowIdHighWaterMark":4}', "removed": False}}
    read = load(store)
    building.commit(tmp_path, 2, building.info(operation="ROW TRACKING BACKFILL"), *given, mark)
    return store, read


def test_files_that_were_given_ids_meanwhile_keep_them(tmp_path: Path) -> None:
    store, read = backfilled(tmp_path)
    marked = append("a", 3, deletion_vector=DeletionVector("u", "ab^-aqEH.-t@S}K{vb[*k^", 36, 1, 4))
    write(read, RemoveFile("a", 1), marked, RemoveFile("b", 1), append("c", 2))
    assert ids(load(store)) == {"a": (2, 2), "c": (5, 3)}
    removed = {line["remove"]["path"]: line["remove"] for line in lines(store, 3) if "remove" in line}
    assert {path: (r["baseRowId"], r["defaultRowCommitVersion"]) for path, r in removed.items()} == {"a": (2, 2), "b": (0, 2)}


def test_files_that_are_named_again_come_only_as_others_left_them(tmp_path: Path) -> None:
    store = table(tmp_path, ROWS, *(building.add(name, stats='{"numRecords":2}') for name in "abc"))
    read = load(store)
    marked = building.add(
        "b", stats='{"numRecords":2}', deletionVector=building.vector("v"), baseRowId=0, defaultRowCommitVersion=1
    )
    building.commit(tmp_path, 1, building.info(), building.remove("a"), building.remove("b"), marked)
    again = [append(name, data_change=False) for name in "abc"]
    nothing = ReadSet(would_read=lambda files: np.zeros(len(files), np.bool_))
    commit(read, Proposal("ROW TRACKING BACKFILL", again, nothing, renames=True))
    assert [line["add"]["path"] for line in lines(store, 2) if "add" in line] == ["c"]
    assert [row["deletionVector"] is None for row in load(store).files.table().to_pylist()] == [False, True]
    told = lines(store, 2)[0]["commitInfo"]
    assert (told["isolationLevel"], told["isBlindAppend"]) == ("SnapshotIsolation", False)


NAMED = {"delta_rowTracking_materializedRowIdColumnName": "i", "delta_rowTracking_materializedRowCommitVersionColumnName": "v"}


def test_a_commit_says_whether_rows_have_kept_their_ids(tmp_path: Path) -> None:
    store = table(tmp_path, ROWS)
    read = load(store)
    on = {name.replace("_", "."): value for name, value in NAMED.items()} | {"delta.enableRowTracking": "true"}
    tags = {"rowTrackingEnablementOnly": "true"}
    tracked = commit(read, Proposal("SET TBLPROPERTIES", [with_properties(on)], tags=tags)).snapshot
    write(read, append("a"))
    write(tracked, append("b"))
    told = [lines(store, version)[0]["commitInfo"]["tags"] for version in (1, 2, 3)]
    assert told == [tags, {"delta.rowTracking.preserved": "false"}, {"delta.rowTracking.preserved": "true"}]


@pytest.mark.parametrize(
    ("features", "properties"), [([], {}), (ROWS, {"delta_rowTrackingSuspended": "true"})], ids=["absent", "suspended"]
)
def test_no_ids_without_row_tracking(tmp_path: Path, features: list[str], properties: dict[str, str]) -> None:
    assert ids(write(load(table(tmp_path, features, **properties)), append("a"))) == {"a": (None, None)}


def test_rows_that_nobody_counted_get_no_ids(tmp_path: Path) -> None:
    with pytest.raises(AnalysisError) as caught:
        write(load(table(tmp_path, ROWS)), AddFile("a", {}, 1, 1))
    assert caught.value.condition == "DELTA_ROW_ID_ASSIGNMENT_WITHOUT_STATS"


class Failing(LocalStore):
    """A store whose put-if-absent fails after it went through, or before."""

    def __init__(self, root: str, error: Exception, through: bool, deaf: bool = False) -> None:
        super().__init__(root)
        self._error, self._through, self._deaf = error, through, deaf

    def put_if_absent(self, name: str, data: bytes) -> ObjectInfo:
        if self._through:
            super().put_if_absent(name, data)
        raise self._error

    def info(self, name: str) -> ObjectInfo | None:
        if self._deaf and name == commit_name(1):
            raise StorageError("DELTAMERGE_STORAGE_REFUSED", "No answer.")
        return super().info(name)


REFUSED = StorageError("DELTAMERGE_STORAGE_REFUSED", "Timeout.")


@pytest.mark.parametrize("error", [REFUSED, AlreadyExists("x")], ids=["refused", "taken"])
def test_a_commit_that_went_through_is_no_failure(tmp_path: Path, error: Exception) -> None:
    create(tmp_path)
    done = commit(load(Failing(str(tmp_path), error, through=True)), Proposal("WRITE", [append("a")]))
    assert (done.version, done.attempts) == (1, 1)
    assert load(LocalStore(str(tmp_path))).version == 1


def test_a_commit_that_did_not_go_through_fails(tmp_path: Path) -> None:
    create(tmp_path)
    with pytest.raises(StorageError) as caught:
        commit(load(Failing(str(tmp_path), REFUSED, through=False)), Proposal("WRITE", [append("a")]))
    assert caught.value is REFUSED


def test_a_commit_of_unknown_fate_says_so(tmp_path: Path) -> None:
    create(tmp_path)
    read = load(LocalStore(str(tmp_path)))
    deaf = Failing(str(tmp_path), REFUSED, through=True, deaf=True)
    with pytest.raises(CommitStateUnknownError, match=r"version 1 .* was committed: Timeout"):
        commit(replace(read, store=deaf), Proposal("WRITE", [append("a")]))


def test_isolation_is_told(tmp_path: Path) -> None:
    store = create(tmp_path)
    write(load(store), append("a", data_change=False))
    assert lines(store, 1)[0]["commitInfo"]["isolationLevel"] == Isolation.SNAPSHOT.value


NO_MARKS = ['"x"', "null", "true", "1.0", "-2", "9223372036854775808"]


@pytest.mark.parametrize("configuration", ["", "{}", "[1]", "3", *(f'{{"rowIdHighWaterMark":{mark}}}' for mark in NO_MARKS)])
def test_a_high_water_mark_that_can_not_be_read_is_named(configuration: str) -> None:
    with pytest.raises(CorruptTableError, match=r"DELTAMERGE_CORRUPT_ROW_TRACKING.*highest row id"):
        high_water_mark({"delta.rowTracking": DomainMetadata("delta.rowTracking", configuration)})
