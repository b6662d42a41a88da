"""Azure Blob Storage, on its emulator: the same promises as on S3, in the driver and on workers."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from deltamerge.errors import InvalidArgumentError, StorageError
from deltamerge.log.replay.segment import commit_name
from deltamerge.log.replay.table import open_log
from deltamerge.storage import AlreadyExists, NotFound, Store, open_store
from deltamerge.worker.scan.store import DataStore
from tests.stores.azurite import ACCOUNT, KEY
from tests.stores.committing import append
from tests.unit.log.building import PROTOCOL, metadata


@pytest.fixture
def place(container: str) -> str:
    return f"abfss://{container}@{ACCOUNT}.dfs.core.windows.net/a table"


@pytest.fixture
def store(emulator: dict[str, str], place: str) -> Store:
    return open_store(place, emulator)


def test_objects_are_created_once_listed_and_deleted(store: Store, place: str) -> None:
    written = store.put_if_absent("log/0001", b"mine")
    with pytest.raises(AlreadyExists):
        store.put_if_absent("log/0001", b"other")
    assert store.put_if_absent("log/0001", b"mine").etag == written.etag
    for name in ("log/0003", "log/0002", "log/deeper/0004", "p=a%2Fb ä#?/x"):
        store.put(name, b"xy")
    assert [info.name for info in store.list("log")] == ["log/0001", "log/0002", "log/0003"]
    assert [info.name for info in store.list("log", "0002")] == ["log/0002", "log/0003"]
    assert {info.etag for info in (store.list("log")[0], store.list("log", "0001")[0], written)} == {written.etag}
    assert store.info("log/0001") == store.list("log")[0]
    assert store.read("p=a%2Fb ä#?/x") == b"xy"
    store.delete("log/0001")
    store.delete("log/0001")
    with pytest.raises(NotFound):
        store.read("log/0001")
    assert store.list("nowhere") == store.list("nowhere", "1") == []
    assert store.exists_folder("log")
    assert not store.exists_folder("lo")
    assert (store.url, KEY in repr(store.spec)) == (place, False)


def test_a_worker_reaches_the_same_files(store: Store) -> None:
    data = DataStore(store.spec.scheme, store.spec.root, store.spec.options)
    with data.create("p=a%2Fb ä/part") as sink:
        sink.write(b"abc")
        assert sink.tell() == 3
    assert store.read("p=a%2Fb ä/part") == b"abc"
    with data.open("p=a%2Fb ä/part") as source:
        assert source.read() == b"abc"
    data.delete("p=a%2Fb ä/part")
    data.delete("p=a%2Fb ä/part")
    assert store.info("p=a%2Fb ä/part") is None
    with pytest.raises(FileNotFoundError):
        data.open("no-such-part")


def test_racing_commits_all_land(store: Store, place: str, emulator: dict[str, str]) -> None:
    first = "".join(json.dumps(action) + "\n" for action in (PROTOCOL, metadata()))
    store.put_if_absent(commit_name(0), first.encode())
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda writer: append(place, emulator, writer, 10), range(3)))
    expected = [f"{writer}-{number}" for writer in range(3) for number in range(10)]
    assert sorted(open_log(place, emulator).snapshot().files.column("path").to_pylist()) == sorted(expected)


def test_a_missing_container_is_named(emulator: dict[str, str]) -> None:
    store = open_store("az://no-such-container/t", emulator)
    for call in (store.list, store.exists_folder, lambda name: store.put_if_absent(name, b"")):
        with pytest.raises(StorageError, match="Create the bucket no-such-container"):
            call("log")


def test_an_account_is_needed() -> None:
    with pytest.raises(InvalidArgumentError, match="azure_storage_account_name"):
        open_store("az://box/t", {"azure_storage_account_key": KEY})
