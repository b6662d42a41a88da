"""Commit files: parsed whole, or refused with file and line."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from deltamerge.errors import CorruptTableError
from deltamerge.log.replay.commit_file import CommitFile, parse_commit, read_commit
from deltamerge.log.replay.files import FILE_SCHEMA, TOMBSTONE_SCHEMA
from deltamerge.protocol.table.actions import CdcFile, DomainMetadata, Metadata, Protocol, Txn
from deltamerge.storage import ObjectInfo
from deltamerge.storage.local import LocalStore
from tests.unit.log.building import PROTOCOL, add, commit, create, info, load, metadata, paths, remove, vector

STORE = LocalStore("/nowhere/table")
FILE = ObjectInfo(f"_delta_log/{7:020d}.json", 1, 123, "e")


def parse(*lines: Any) -> CommitFile:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    return parse_commit("\n".join(texts).encode("utf-8", "surrogateescape"), FILE, STORE)


def test_each_action_has_its_place() -> None:
    found = parse(
        info(operation="MERGE"),
        PROTOCOL,
        metadata(),
        add("a", deletionVector=vector("v")),
        add("b"),
        remove("c", deletionVector=vector("w", None)),
        {"cdc": {"path": "d", "partitionValues": {"p": None}, "size": 3, "dataChange": False}},
        {"txn": {"appId": "app", "version": 4}},
        {"domainMetadata": {"domain": "delta.x", "configuration": "{}", "removed": False}},
    )
    assert found.version == 7
    assert found.timestamp == 123
    assert found.adds.schema == FILE_SCHEMA
    assert found.removes.schema == TOMBSTONE_SCHEMA
    assert found.adds["path"].to_pylist() == ["a", "b"]
    assert found.removes["path"].to_pylist() == ["c"]
    assert found.removed_keys == ["c\0u\0w\0"]
    assert found.info["operation"] == "MERGE"
    assert found.protocol == Protocol(1, 2)
    assert isinstance(found.metadata, Metadata)
    assert found.cdc == [CdcFile("d", {"p": None}, 3)]
    assert found.txns == [Txn("app", 4)]
    assert found.domains == [DomainMetadata("delta.x", "{}")]
    assert found.data_change


def test_an_add_keeps_all_its_fields() -> None:
    given = {
        "path": "p=1/x%20y",
        "partitionValues": {"p": "1", "q": None},
        "size": 2**40,
        "modificationTime": 1_700_000_000_000,
        "stats": '{"numRecords":1}',
        "tags": {"k": "v"},
        "deletionVector": vector("v", 2),
        "baseRowId": 5,
        "defaultRowCommitVersion": 6,
        "clusteringProvider": "liquid",
    }
    (row,) = parse(add(**given)).adds.to_pylist(maps_as_pydicts="strict")
    assert row == given


@pytest.mark.parametrize("line", ["", "   ", "\r", "\t"])
def test_empty_lines_are_passed_over(line: str) -> None:
    assert parse(add("a"), line, add("b"), line).adds["path"].to_pylist() == ["a", "b"]


def test_windows_line_ends_are_passed_over() -> None:
    assert parse(json.dumps(add("a")) + "\r", json.dumps(add("b")) + "\r").adds.num_rows == 2


@pytest.mark.parametrize("text", ["", "\n", " \n\n", "{}\n", '{"add":null}\n', '{"unknown":null}\n{}\n'])
def test_a_commit_without_actions_is_refused(text: str) -> None:
    with pytest.raises(CorruptTableError, match="it holds no action") as caught:
        parse_commit(text.encode(), FILE, STORE)
    assert caught.value.parameters["file"] == FILE.name


def test_a_commit_that_only_says_who_made_it_changes_nothing() -> None:
    found = parse({"commitInfo": {}})
    assert (found.adds.num_rows, found.removes.num_rows) == (0, 0)
    assert not found.data_change
    assert found.info == {}
    assert found.metadata is None
    assert found.protocol is None


@pytest.mark.parametrize(
    ("actions", "added", "removed"),
    [
        ([remove("a"), add("a")], ["a"], []),
        ([add("a"), remove("a")], [], ["a"]),
        ([add("b"), add("a"), remove("a"), add("a"), remove("c")], ["b", "a", "a"], ["c"]),
        ([add("a", deletionVector=vector("v")), remove("a")], ["a"], ["a"]),
    ],
)
def test_of_a_file_that_is_added_and_removed_the_last_action_counts(
    actions: list[Any], added: list[str], removed: list[str]
) -> None:
    found = parse(*actions)
    assert found.adds["path"].to_pylist() == added
    assert found.removes["path"].to_pylist() == removed


def test_a_large_line_is_held_few_times() -> None:
    data = json.dumps(add("a", tags=dict.fromkeys("abcde", "x" * 8_000_000))).encode() + b"\n"
    tracemalloc.start()
    try:
        assert parse_commit(data, FILE, STORE).adds.num_rows == 1
        assert tracemalloc.get_traced_memory()[1] < 2.5 * len(data)  # its text and its values
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("text", ["x" * 20_000_001, "x" * 20_000_010 + "\n\U0001f600"], ids=["letters", "others, too"])
def test_a_text_that_spark_can_not_read_is_refused_before_it_is_decoded(text: str) -> None:
    data = json.dumps(add("a", stats=text), ensure_ascii=False).encode()
    tracemalloc.start()
    try:
        with pytest.raises(CorruptTableError, match="line 1: it holds a text of more than 20000000 characters"):
            parse_commit(data, FILE, STORE)
        assert tracemalloc.get_traced_memory()[1] < 2 * len(data)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("text", ["x" * 20_000_000, "\u20ac" * 7_000_000, '"' * 11_000_000], ids=["most", "euros", "quotes"])
def test_texts_of_many_bytes_are_read_if_they_have_few_characters(text: str) -> None:
    data = json.dumps(add("a", stats=text), ensure_ascii=False).encode()
    assert len(data) > 20_000_000
    assert parse_commit(data, FILE, STORE).adds["stats"].to_pylist() == [text]


def test_unknown_actions_and_fields_are_ignored() -> None:
    found = parse({"future": {"path": "x"}}, {}, add("a", future=1), {"add": None, "remove": None})
    assert found.adds["path"].to_pylist() == ["a"]
    assert found.others == ()


MANY = 25_000


@pytest.mark.parametrize("kind", ["add", "remove"])
def test_very_many_files_are_read_in_turn_and_none_is_held_as_an_object(kind: str) -> None:
    data = "".join(
        f'{{"{kind}":{{"path":"f{n}","size":{n},"dataChange":{str(n == 7).lower()}}}}}\n' for n in range(MANY)
    ).encode()
    tracemalloc.start()
    try:
        found = parse_commit(data, FILE, STORE)
        assert tracemalloc.get_traced_memory()[1] < 14_000_000  # 1 KB for each would be 25 MB
    finally:
        tracemalloc.stop()
    files = found.adds if kind == "add" else found.removes
    assert (files["path"].to_pylist(), files["size"].to_pylist()) == ([f"f{n}" for n in range(MANY)], list(range(MANY)))
    assert files["path"].num_chunks == 1
    assert found.data_change


def test_among_very_many_files_the_last_action_of_one_counts() -> None:
    moved = [add(f"f{n}", size=n) for n in range(MANY)]
    found = parse(remove("f24999"), *moved, remove("f0"), remove("f12345"), add("f0", size=99))
    kept = [f"f{n}" for n in range(1, MANY) if n != 12_345]
    assert found.adds["path"].to_pylist() == ["f0", *kept, "f0"]
    assert found.removes["path"].to_pylist() == ["f12345"]


def test_a_wrong_value_among_very_many_files_is_refused() -> None:
    broken = [add(f"f{n}", **({"size": "x"} if n == 3 else {})) for n in range(MANY)]
    with pytest.raises(CorruptTableError, match=r"damaged at _delta_log/00000000000000000007.json: .*x"):
        parse(*broken, "{")


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        ([add("a", dataChange=False)], False),
        ([add("a", dataChange=False), remove("b", dataChange=False)], False),
        ([add("a", dataChange=False), remove("b")], True),
        ([{"remove": {"path": "b"}}], True),
        ([info()], False),
    ],
)
def test_data_change_is_that_of_any_file(actions: list[Any], expected: bool) -> None:
    assert parse(*actions).data_change is expected


BROKEN = [
    "{",
    "add",
    "5",
    "[]",
    "null",
    '"add"',
    '{"add":5}',
    '{"add":[]}',
    '{"add":{}}',
    '{"add":{"path":"x"}}',
    '{"add":{"path":null,"size":1}}',
    '{"remove":{}}',
    '{"txn":{"appId":"a"}}',
    '{"txn":{"appId":"a","version":"b"}}',
    '{"protocol":{"minReaderVersion":1}}',
    '{"metaData":{"schemaString":"{}"}}',
    '{"add":{"path":"\udcff","size":1}}',
]


@pytest.mark.parametrize("line", BROKEN, ids=repr)
def test_a_broken_line_is_named(line: str) -> None:
    with pytest.raises(CorruptTableError) as caught:
        parse(info(), "", line, add("a"))
    assert caught.value.condition == "DELTAMERGE_CORRUPT_COMMIT"
    assert caught.value.parameters == {"table": STORE.url, "file": FILE.name, "line": 3}
    assert f"damaged at {FILE.name}, line 3: " in str(caught.value)


def test_a_commit_that_was_cut_off_is_named(tmp_path: Path) -> None:
    path = commit(tmp_path, 0, PROTOCOL, metadata(), add("a"))
    path.write_bytes(path.read_bytes()[:-20])
    store = LocalStore(str(tmp_path))
    (found,) = store.list("_delta_log")
    with pytest.raises(CorruptTableError, match="line 3"):
        read_commit(store, found)


@pytest.mark.parametrize(
    "action",
    [
        add("a", size="many"),
        add("a", size=2**70),
        add("a", modificationTime="noon"),
        add("a", stats={"numRecords": 1}),
        add("a", partitionValues=["p"]),
        add("a", partitionValues={"p": 1}),
        add("a", deletionVector="v"),
        add("\ud800"),
        remove("a", deletionTimestamp="noon"),
        remove("a", tags=5),
    ],
    ids=repr,
)
def test_a_field_of_another_type_names_the_file(action: Any) -> None:
    with pytest.raises(CorruptTableError) as caught:
        parse(add("b"), action)
    assert caught.value.condition == "DELTAMERGE_CORRUPT_COMMIT"
    assert caught.value.parameters["file"] == FILE.name


def test_a_commit_that_vanished_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorruptTableError, match="vanished"):
        read_commit(LocalStore(str(tmp_path)), FILE)


EMPTY: dict[str, Any] = {"deletionVector": {}}


def test_a_deletion_vector_of_nothing_is_none(tmp_path: Path) -> None:
    store = create(tmp_path, add("a", **EMPTY), add("b", **EMPTY), add("c"))
    commit(tmp_path, 1, remove("a"), remove("c", **EMPTY))
    assert paths(load(store)) == ["b"]
    assert load(store).files.vectors == (0, 0)


@pytest.mark.parametrize("name", ["storageType", "pathOrInlineDv", "sizeInBytes", "cardinality"])
def test_a_deletion_vector_that_lacks_something_is_refused(tmp_path: Path, name: str) -> None:
    descriptor = {key: value for key, value in vector("x").items() if key != name}
    store = create(tmp_path, add("a", deletionVector=descriptor))
    with pytest.raises(CorruptTableError, match=f"has no {name}"):
        load(store)
