"""Several commits as one: what it says is what they have changed together."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from deltamerge.log.replay.commit_file import CommitFile, parse_commit
from deltamerge.log.replay.files import file_keys
from deltamerge.log.replay.net import net_of
from deltamerge.log.replay.segment import commit_name
from deltamerge.protocol.table.actions import DomainMetadata, Txn
from deltamerge.storage import ObjectInfo
from deltamerge.storage.local import LocalStore
from tests.unit.log.building import PROTOCOL, add, commit, create, info, load, metadata, remove, vector

STORE = LocalStore("/nowhere/table")


def made(*commits: list[Any]) -> list[CommitFile]:
    """Commits of these actions, from version 1."""
    texts = ["\n".join(map(json.dumps, actions)).encode() for actions in commits]
    return [parse_commit(text, ObjectInfo(commit_name(n), len(text), n, "e"), STORE) for n, text in enumerate(texts, 1)]


def net(*commits: list[Any]) -> tuple[list[str], list[str]] | None:
    """The identities of the files that are new and gone, together."""
    found = net_of(made(*commits))
    return None if found is None else (list(found.added_keys), list(found.removed_keys))


def test_files_between_the_first_and_the_last_version_are_in_neither() -> None:
    first = [info(), remove("a"), add("a", deletionVector=vector("v")), add("b"), add("c")]
    second = [info(), remove("a", deletionVector=vector("v")), add("a", deletionVector=vector("w")), remove("b"), remove("d")]
    assert net(first) == (["a\0u\0v\x001", "b", "c"], ["a"])
    assert net(first, second) == (["c", "a\0u\0w\x001"], ["a", "d"])
    assert net(first, second, [remove("c"), remove("a", deletionVector=vector("w"))]) == ([], ["a", "d"])


def test_it_is_the_last_one_with_the_transactions_and_domains_of_all() -> None:
    domain = {"domainMetadata": {"domain": "x", "configuration": "{}", "removed": False}}
    found = net_of(
        made([info(operation="A"), add("a"), {"txn": {"appId": "one", "version": 1}}, domain], [info(operation="B"), add("b")])
    )
    assert found is not None
    assert (found.version, found.file.name, found.info["operation"]) == (2, commit_name(2), "B")
    assert (found.txns, found.domains) == ([Txn("one", 1)], [DomainMetadata("x", "{}")])


@pytest.mark.parametrize(
    "other",
    [
        [PROTOCOL, add("b")],
        [metadata(), add("b")],
        [info(isBlindAppend=True), add("b")],
        [{"txn": {"appId": "one", "version": 1}}],
        [add("b", dataChange=False), remove("c", dataChange=False)],
        [add("a")],
    ],
    ids=["protocol", "metadata", "blind append", "no data", "moved rows", "named again"],
)
def test_what_each_has_to_tell_by_itself_has_none(other: list[Any]) -> None:
    assert net([info(), add("a")], other) is None
    assert net(other, [info(), add("x")]) is None or other == [add("a")]
    assert net([remove("z")], [add("z")]) is None
    assert net_of([]) is None


@pytest.mark.parametrize("seed", range(20))
def test_it_leads_to_the_version_that_all_lead_to(tmp_path: Path, seed: int) -> None:
    """Files are added, removed, and given other vectors."""
    pick, fresh = random.Random(seed), iter(range(1_000))
    live: list[dict[str, Any]] = [add(f"f{next(fresh)}") for _ in range(5)]
    store = create(tmp_path, *live)
    before, commits = load(store), []
    for version in range(1, pick.randint(2, 6)):
        actions: list[Any] = [info()]
        for action in pick.sample(live, pick.randint(0, len(live))):
            live.remove(action)
            file = action["add"]
            actions.append(remove(file["path"], **{name: file[name] for name in ("deletionVector",) if name in file}))
            if pick.random() < 0.6:
                live.append(add(file["path"], deletionVector=vector(f"v{next(fresh)}")))
                actions.append(live[-1])
        live.append(add(f"f{next(fresh)}"))
        commits.append([*actions, live[-1]])
        commit(tmp_path, version, *commits[-1])
    found = net_of(made(*commits))
    assert found is not None
    assert _keys(before.advance(found)) == _keys(load(store)) == {_key(action["add"]) for action in live}


def _keys(snapshot: Any) -> set[str]:
    return set(file_keys(snapshot.files.table()).to_pylist())


def _key(file: dict[str, Any]) -> str:
    given = file.get("deletionVector")
    return str(file["path"]) if given is None else f"{file['path']}\0u\0{given['pathOrInlineDv']}\x001"
