"""Damaged logs: whatever the bytes, a load tells what a plain replay tells, or names what is wrong."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamerge.errors import CorruptTableError, DeltaMergeError
from deltamerge.log.commit.upkeep import checkpoint
from deltamerge.log.replay.checksum import write_checksum
from deltamerge.log.replay.load import load
from deltamerge.storage.local import LocalStore
from tests.effort import examples
from tests.spec.naive import State, assert_same, replay
from tests.unit.log.building import V2, add, commit, create, info, metadata, remove, schema_text

FAST = examples(150)
VERSIONS = 6


@pytest.fixture(autouse=True, scope="module")
def silent() -> Iterator[None]:
    """No word about what is passed over in hundreds of damaged logs."""
    logger = logging.getLogger("deltamerge.log")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(before)


def build(root: Path, *checkpoints: int, **properties: str) -> Path:
    """A partitioned table of seven versions with removes, transactions and a change of the metadata."""
    named = {name.replace("_", "."): value for name, value in properties.items()}
    schema = schema_text(id="long", p="string")
    create(root, info(), *(file(n) for n in range(4)), schema=schema, partition_by=["p"], properties=named)
    commit(root, 1, info(), file(4), remove("p=x/f%200"), {"txn": {"appId": "i", "version": 1}})
    domain = {"domainMetadata": {"domain": "d", "configuration": "x", "removed": False}}
    commit(root, 2, info(), file(5), file(6), domain, *([V2] if named.get("delta.checkpointPolicy") == "v2" else []))
    commit(root, 3, info(), remove("p=x/f%204"), metadata(schema, ["p"], {**named, "k": "v"}))
    commit(root, 4, info(), file(0), {"txn": {"appId": "i", "version": 2}})
    commit(root, 5, info(), remove("p=x/f%205"), file(7))
    commit(root, VERSIONS, info(), file(8))
    for version in checkpoints:
        checkpoint(load(LocalStore(str(root)), version))
    return root / "_delta_log"


def file(number: int) -> dict[str, Any]:
    stats = {"numRecords": number, "minValues": {"id": number}, "maxValues": {"id": number}, "nullCount": {"id": 0}}
    return add(f"p=x/f%20{number}", size=number + 1, partitionValues={"p": "x"}, stats=json.dumps(stats))


@st.composite
def mutations(draw: st.DrawFn) -> Callable[[bytes], bytes]:
    """A change of some bytes."""
    kind = draw(st.sampled_from(["cut", "flip", "drop", "repeat", "insert", "swap lines"]))
    at, length = draw(st.floats(0, 1)), draw(st.integers(1, 60))
    words = [b"null", b"[]", b"{}", b'"', b"\n", b"-1", b"1e999", b"\\u0000"]
    new = draw(st.binary(min_size=1, max_size=8) | st.sampled_from(words))

    def change(data: bytes) -> bytes:
        place = int(at * len(data))
        if kind == "cut":
            return data[:place]
        if kind == "flip":
            return data[:place] + new + data[place + len(new) :]
        if kind == "drop":
            return data[:place] + data[place + length :]
        if kind == "repeat":
            return data[: place + length] + data[place:]
        if kind == "insert":
            return data[:place] + new + data[place:]
        return b"\n".join(sorted(data.split(b"\n")))

    return change


def outcome(log: Path) -> State | None:
    """What the plain replay makes of the commits; None when it can't."""
    with contextlib.suppress(Exception):
        return replay(log)
    return None


def same(log: Path, state: State | None) -> bool:
    if state is None:
        return False
    try:
        assert_same(load(LocalStore(str(log.parent))), state)
    except (AssertionError, ValueError, TypeError, AttributeError, LookupError):
        return False
    return True


@FAST
@given(st.integers(0, VERSIONS), mutations(), st.booleans())
def test_a_damaged_commit_never_gives_another_state(
    tmp_path_factory: pytest.TempPathFactory, version: int, change: Callable[[bytes], bytes], with_checkpoint: bool
) -> None:
    log = build(tmp_path_factory.mktemp("t"), *((3,) if with_checkpoint else ()))
    right = replay(log)
    path = log / f"{version:020d}.json"
    path.write_bytes(change(path.read_bytes()))
    try:
        load(LocalStore(str(log.parent)))
    except DeltaMergeError:
        return
    assert same(log, outcome(log)) or (with_checkpoint and version <= 3 and same(log, right))


@FAST
@given(mutations(), st.sampled_from(["", "structs", "v2"]), st.integers(0, 3))
def test_a_damaged_checkpoint_never_gives_another_state(
    tmp_path_factory: pytest.TempPathFactory, change: Callable[[bytes], bytes], form: str, number: int
) -> None:
    properties = {
        "": {},
        "structs": {"delta_checkpoint_writeStatsAsStruct": "true", "delta_checkpoint_writeStatsAsJson": "false"},
        "v2": {"delta_checkpointPolicy": "v2"},
    }[form]
    log = build(tmp_path_factory.mktemp("t"), 3, **properties)
    right = replay(log)
    files = sorted(log.rglob("*.parquet"))
    path = files[number % len(files)]
    data = path.read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    path.write_bytes(change(data[:footer]) + data[footer:])
    assert_same(load(LocalStore(str(log.parent))), right)
    for version in range(3):
        (log / f"{version:020d}.json").unlink()
    try:
        snapshot = load(LocalStore(str(log.parent)))
    except CorruptTableError:
        return
    assert_same(snapshot, right)


@FAST
@given(mutations(), st.sampled_from(["footer", "_last_checkpoint", "crc"]))
def test_damage_elsewhere_raises_nothing_strange(
    tmp_path_factory: pytest.TempPathFactory, change: Callable[[bytes], bytes], where: str
) -> None:
    log = build(tmp_path_factory.mktemp("t"), 3)
    store = LocalStore(str(log.parent))
    write_checksum(load(store))
    path = {
        "footer": log / f"{3:020d}.checkpoint.parquet",
        "_last_checkpoint": log / "_last_checkpoint",
        "crc": log / f"{VERSIONS:020d}.crc",
    }[where]
    data = path.read_bytes()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little") if where == "footer" else 0
    path.write_bytes(data[:start] + change(data[start:]))
    with contextlib.suppress(DeltaMergeError):
        load(store).files.table()
    if where != "footer":
        assert_same(load(store), replay(log))


@FAST
@given(st.sets(st.integers(0, VERSIONS)), st.integers(0, VERSIONS), st.booleans())
def test_checkpoints_at_any_versions_give_the_same_state(
    tmp_path_factory: pytest.TempPathFactory, checkpoints: set[int], version: int, cleaned: bool
) -> None:
    log = build(tmp_path_factory.mktemp("t"), *sorted(checkpoints))
    expected = replay(log, version)
    base = max((found for found in checkpoints if found <= version), default=None)
    if cleaned and base is not None:
        for old in range(base + 1):
            (log / f"{old:020d}.json").unlink()
    assert_same(load(LocalStore(str(log.parent)), version), expected)


BAD = {
    '{"add": []}': "'list' object",
    '{"add": {"path": "a"}}': "size is missing",
    '{"add": {"size": 1}}': "path is missing",
    '{"add": {"path": 5, "size": 1}}': "a damaged",
    '{"add": {"path": "../a", "size": 1}}': "leads out of the table",
    '{"add": {"path": "a", "size": 1}, "remove": {"path": "b"}}': "one line holds the actions add and remove",
    '{"remove": {}}': "path is missing",
    '{"metaData": {}}': "id is missing",
    '{"protocol": {"minReaderVersion": "x", "minWriterVersion": 1}}': "a whole number is expected",
    '{"txn": {"appId": 3, "version": 1}}': "a text is expected",
    "[" * 100_000: "nested too deeply",
    '{"add": {"path": "a"': "delimiter",
    "5": "int",
    '{"add": {"path": "\\ud800", "size": 1}}': "surrogate",
}


@pytest.mark.parametrize(("line", "says"), BAD.items(), ids=[line[:40] for line in BAD])
def test_a_bad_line_is_named(tmp_path: Path, line: str, says: str) -> None:
    store = create(tmp_path, add("a"))
    path = commit(tmp_path, 1, info())
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(CorruptTableError) as caught:
        load(store)
    assert caught.value.condition == "DELTAMERGE_CORRUPT_COMMIT"
    assert f"{1:020d}.json" in str(caught.value)
    assert caught.value.hint
    if says != "a damaged":
        assert says in str(caught.value)


@pytest.mark.parametrize("kind", ["metaData", "protocol"])
def test_one_commit_has_one_metadata_and_one_protocol(tmp_path: Path, kind: str) -> None:
    action = metadata() if kind == "metaData" else {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    store = create(tmp_path, action)
    with pytest.raises(CorruptTableError, match=f"more than one {kind}"):
        load(store)


def test_unknown_actions_and_long_lines_are_no_damage(tmp_path: Path) -> None:
    store = create(tmp_path, add("a", stats=json.dumps({"numRecords": 1, "x": "y" * 5_000_000})), {"future": {"x": 1}}, {})
    assert len(load(store).files) == 1


def test_a_schema_that_does_not_parse_is_named(tmp_path: Path) -> None:
    store = create(tmp_path, schema='{"type":"struct"}')
    with pytest.raises(CorruptTableError) as caught:
        _ = load(store).schema
    assert caught.value.condition == "DELTAMERGE_CORRUPT_SCHEMA"


def test_the_newest_protocol_holds_also_when_it_asks_for_less(tmp_path: Path) -> None:
    store = create(tmp_path, add("a"))
    commit(tmp_path, 1, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 1}})
    assert load(store).protocol.min_writer_version == 1
