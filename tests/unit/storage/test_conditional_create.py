"""Put-if-absent on an object store, on a real S3 server on loopback: one wins, and nothing is claimed that is not certain."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ThreadPoolExecutor

import pytest
from obstore import exceptions as oe

from deltamerge.errors import CommitStateUnknownError, StorageError
from deltamerge.storage import AlreadyExists, Store, open_store
from deltamerge.storage import object_store as module
from tests.stores.server import SECRET, S3Server, answered, cut_off, served_but_answer_is, served_but_cut_off


@pytest.fixture
def store(server: S3Server, bucket: str) -> Store:
    """A store whose first create, which proves that conditions are honoured, is done."""
    found = open_store(f"s3a://{bucket}/some/table", server.options)
    found.put_if_absent("log/0", b"")
    return found


def test_an_object_is_created_once(server: S3Server, bucket: str) -> None:
    store = open_store(f"s3a://{bucket}/some/table", server.options)
    info = store.put_if_absent("log/1", b"mine")
    assert (info.name, info.size) == ("log/1", 4)
    with server.counting() as requests, pytest.raises(AlreadyExists):
        store.put_if_absent("log/1", b"other")
    assert requests == {"CREATE": 1, "GET": 1}
    assert server.keys(bucket) == ["some/table/log/1"]
    assert store.read("log/1") == b"mine"


def test_a_create_is_one_request_after_the_first(server: S3Server, bucket: str) -> None:
    store = open_store(f"s3a://{bucket}/some/table", server.options)
    with server.counting() as first:
        store.put_if_absent("log/1", b"1")
    with server.counting() as second:
        store.put_if_absent("log/2", b"2")
    assert first == {"PUT": 1, "CREATE": 2, "DELETE": 1}
    assert second == {"CREATE": 1}


def test_an_outcome_that_stays_unknown_is_said(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise oe.GenericError(f"connection reset, sent {SECRET}")

    monkeypatch.setattr(module, "_ATTEMPTS", 2)
    monkeypatch.setattr(module.obstore, "put", broken)
    monkeypatch.setattr(module.obstore, "get", broken)
    with pytest.raises(CommitStateUnknownError) as caught:
        store.put_if_absent("log/1", b"mine")
    assert caught.value.condition == "DELTAMERGE_COMMIT_STATE_UNKNOWN"
    assert f"{store.url}/log/1" in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_store_that_ignores_the_condition_is_refused_before_anything_is_written(server: S3Server, bucket: str) -> None:
    server.honours_conditions = False
    store = open_store(f"s3://{bucket}/t", server.options)
    for _ in range(2):
        with pytest.raises(StorageError) as caught:
            store.put_if_absent("log/1", b"mine")
    assert caught.value.condition == "DELTAMERGE_STORE_WITHOUT_PUT_IF_ABSENT"
    assert "If-None-Match" in str(caught.value.hint)
    assert server.keys(bucket) == []


def test_a_store_that_does_not_know_the_condition_is_refused(server: S3Server, bucket: str) -> None:
    server.faults += [answered("501 Not Implemented", "NotImplemented")] * 10
    with pytest.raises(StorageError) as caught:
        open_store(f"s3://{bucket}/t", server.options).put_if_absent("log/1", b"mine")
    assert caught.value.condition == "DELTAMERGE_STORE_WITHOUT_PUT_IF_ABSENT"
    assert server.keys(bucket) == []


def test_conditional_puts_that_are_turned_off_are_refused(server: S3Server, bucket: str) -> None:
    store = open_store(f"s3://{bucket}/t", {**server.options, "aws_conditional_put": "disabled"})
    with pytest.raises(StorageError) as caught:
        store.put_if_absent("log/1", b"mine")
    assert caught.value.condition == "DELTAMERGE_STORE_WITHOUT_PUT_IF_ABSENT"


def test_of_racing_threads_one_wins(store: Store) -> None:
    def create(number: int) -> bool:
        try:
            store.put_if_absent("log/1", f"writer {number}".encode())
        except AlreadyExists:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(create, range(24)))
    assert sum(outcomes) == 1
    assert store.read("log/1") == f"writer {outcomes.index(True)}".encode()


def _count_up(location: str, options: dict[str, str], writer: int, goal: int) -> None:
    """Create one object after the other, until `goal` of them are this writer's."""
    store = open_store(location, options)
    number = made = 0
    while made < goal:
        try:
            store.put_if_absent(f"log/{number:05d}", f"{writer}:{made}".encode())
            made += 1
        except AlreadyExists:
            pass
        number += 1


def test_racing_processes_lose_nothing(server: S3Server, store: Store) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_count_up, args=(store.url, server.options, writer, 100)) for writer in (1, 2)]
    for fault in (served_but_answer_is("500 Internal Server Error"), served_but_cut_off, cut_off, answered("503 Slow Down")):
        server.faults += [fault]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
    assert [writer.exitcode for writer in writers] == [0, 0]
    names = [info.name for info in store.list("log", "00000")]
    assert names == [f"log/{number:05d}" for number in range(200)]
    with ThreadPoolExecutor(8) as pool:
        content = list(pool.map(store.read, names))
    expected = [f"{writer}:{made}".encode() for writer in (1, 2) for made in range(100)]
    assert sorted(content) == sorted(expected)
