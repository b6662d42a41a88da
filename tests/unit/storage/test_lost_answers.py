"""Requests whose answers are lost, late, contradictory, broken off or a refusal, on S3 and on Azure's emulator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from obstore import exceptions as oe

from deltamerge.errors import CommitStateUnknownError, StorageError
from deltamerge.storage import AlreadyExists, Store, open_store
from deltamerge.storage import object_store as module
from tests.stores.server import (
    Fault,
    Front,
    Late,
    answered,
    cut_off,
    cut_within,
    overtaken_by,
    served_but_answer_is,
    served_but_cut_off,
)


@pytest.fixture
def store(front: Front, front_place: str) -> Store:
    """A store whose first create, which proves that conditions are honoured, is done."""
    found = open_store(front_place, front.options)
    found.put_if_absent("log/0", b"")
    return found


@pytest.mark.parametrize(
    "fault",
    [
        served_but_answer_is("500 Internal Server Error"),
        served_but_answer_is("409 Conflict"),
        served_but_answer_is("412 Precondition Failed"),
        served_but_answer_is("403 Forbidden"),
        served_but_cut_off,
        cut_off,
        answered("503 Slow Down"),
        answered("409 Conflict", "ConditionalRequestConflict"),
    ],
)
def test_a_lost_answer_is_found_out(front: Front, store: Store, fault: Fault) -> None:
    front.faults.append(fault)
    info = store.put_if_absent("log/1", b"mine alone")
    assert (info.name, info.size, info.etag) == ("log/1", 10, store.list("log", "1")[0].etag)
    assert store.read("log/1") == b"mine alone"


def test_a_lost_answer_to_a_lost_race_is_a_lost_race(front: Front, store: Store) -> None:
    front.faults.append(overtaken_by(b"of another"))
    with pytest.raises(AlreadyExists):
        store.put_if_absent("log/1", b"mine alone")
    assert store.read("log/1") == b"of another"


def test_a_clear_no_is_an_error_with_a_hint(front: Front, store: Store) -> None:
    front.faults.append(answered("403 Forbidden", "AccessDenied"))
    with pytest.raises(StorageError) as caught:
        store.put_if_absent("log/1", b"mine")
    assert caught.value.condition == "DELTAMERGE_STORAGE_REFUSED"
    assert caught.value.parameters == {"path": f"{store.url}/log/1"}
    assert "permission" in str(caught.value.hint)
    assert store.info("log/1") is None


FORBIDDEN = answered("403 Forbidden", "AccessDenied")


@pytest.mark.parametrize("later", [[FORBIDDEN], [answered("400 Bad Request", "ExpiredToken")], [cut_off, FORBIDDEN]])
def test_a_no_does_not_settle_what_became_of_the_request_before(
    front: Front, store: Store, later: Sequence[Fault], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_FIRST_WAIT", 0.001)
    late = Late()
    front.faults += [late, *later]
    with front.counting() as requests, pytest.raises(CommitStateUnknownError) as caught:
        store.put_if_absent("log/1", b"mine alone")
    assert caught.value.parameters == {"path": f"{store.url}/log/1"}
    assert requests == {"CREATE": 1 + len(later), "GET": 1 + len(later)}
    assert [status[:3] for status in late.land()] == [front.created]
    assert store.put_if_absent("log/1", b"mine alone").size == 10


def test_a_request_that_is_served_late_changes_nothing_once_it_is_settled(front: Front, store: Store) -> None:
    late = Late()
    front.faults += [late]
    assert store.put_if_absent("log/1", b"mine alone").size == 10
    front.faults += [late]
    store.put_if_absent("log/2", b"mine, too")
    assert [status[:3] for status in late.land()] == [front.taken] * 2


def test_a_refused_request_is_sent_once_and_a_busy_store_is_asked_again(
    front: Front, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_FIRST_WAIT", 0.001)
    busy = [answered("503 Slow Down"), answered("429 Too Many Requests"), answered("409 Conflict")]
    front.faults += busy
    with front.counting() as requests:
        store.put_if_absent("log/1", b"mine")
    assert requests == {"CREATE": 4, "GET": 3}
    for refusal in (FORBIDDEN, answered("400 Bad Request", "ExpiredToken"), answered("307 Temporary Redirect")):
        front.faults.append(refusal)
        with front.counting() as requests, pytest.raises(StorageError) as caught:
            store.put_if_absent("log/2", b"mine")
        assert not isinstance(caught.value, CommitStateUnknownError)
        assert requests == {"CREATE": 1, "GET": 1}
    front.faults += [answered("409 Conflict")] * module._ATTEMPTS
    with pytest.raises(StorageError) as caught:
        store.put_if_absent("log/2", b"mine")
    assert caught.value.condition == "DELTAMERGE_STORAGE_REFUSED"


LOST = {
    "cut off": cut_off,
    "cut off after it": served_but_cut_off,
    "busy": answered("503 Slow Down"),
    "failed after it": served_but_answer_is("500 Internal Server Error"),
}
# What is asked of a store that has the objects x/1 and x/2, by the kind of request that it sends, and how it ends.
CALLS: dict[str, tuple[Callable[[Store], Any], Any]] = {
    "LIST": (lambda store: [info.name for info in store.list("x")], ["x/1", "x/2"]),
    "HEAD": (lambda store: store.info("x/1").size, 3),  # type: ignore[union-attr]
    "GET": (lambda store: store.read("x/1"), b"one"),
    "PUT": (lambda store: (store.put("x/1", b"newer"), store.read("x/1"))[1], b"newer"),
    "DELETE": (lambda store: (store.delete_all(["x/1"]), store.info("x/1"), store.read("x/2")), (1, None, b"two")),
}


@pytest.mark.parametrize("kind", CALLS)
@pytest.mark.parametrize("fault", LOST)
def test_a_request_of_any_kind_is_sent_again(front: Front, store: Store, kind: str, fault: str) -> None:
    """By the client: a test of how it is set."""
    call, expected = CALLS[kind]
    store.put("x/1", b"one")
    store.put("x/2", b"two")
    front.faults_of[kind] += [LOST[fault]] * 2
    assert call(store) == expected
    assert not front.faults_of[kind]


# What is asked of a store that has the objects x/1 and x/2 by requests whose answers have a body, and how it ends.
LARGE = bytes(12_000_000)
WHOLE: dict[str, tuple[str, Callable[[Store], Any], Any]] = {
    "list": ("LIST", lambda store: [info.name for info in store.list("x")], ["x/1", "x/2"]),
    "list from": ("LIST", lambda store: [info.name for info in store.list("x", "2")], ["x/2"]),
    "walk": (
        "LIST",
        lambda store: sorted(info.name for found in store.walk(lambda _: False) for info in found.files),
        ["log/0", "x/1", "x/2"],
    ),
    "exists": ("LIST", lambda store: store.exists_folder("x"), True),
    "read": ("GET", lambda store: store.read("x/1"), b"one"),
    "delete": ("DELETE", lambda store: (store.delete_all(["x/1"]), store.info("x/1"), store.read("x/2")), (1, None, b"two")),
    "put": ("POST", lambda store: (store.put("x/1", LARGE), store.read("x/1") == LARGE), (None, True)),
}


@pytest.mark.parametrize("name", WHOLE)
def test_an_answer_that_breaks_off_is_asked_for_again(front: Front, store: Store, name: str) -> None:
    kind, call, expected = WHOLE[name]
    store.put("x/1", b"one")
    store.put("x/2", b"two")
    front.faults_of[kind] += [cut_within] * 2
    assert call(store) == expected
    assert not front.faults_of[kind] or (kind == "POST" and front.created == "201")  # Azure has no such request


@pytest.mark.parametrize("name", ["list", "list from", "walk", "exists", "delete"])
def test_answers_that_always_break_off_are_an_error(front: Front, store: Store, name: str) -> None:
    kind, call, _ = WHOLE[name]
    store.put("x/1", b"one")
    front.faults_of[kind] += [cut_within] * 20
    with front.counting() as requests, pytest.raises(StorageError, match="DELTAMERGE_STORAGE_REFUSED"):
        call(store)
    assert requests[kind] == module._READS


@pytest.mark.parametrize("kind", CALLS)
def test_a_refusal_of_any_kind_has_a_name(front: Front, store: Store, kind: str) -> None:
    store.put("x/1", b"one")
    front.faults_of[kind] += [FORBIDDEN] * 20
    with pytest.raises(StorageError) as caught:
        CALLS[kind][0](store)
    assert caught.value.condition == "DELTAMERGE_STORAGE_REFUSED"
    front.faults_of.clear()
    assert store.read("x/1") == b"one"


def test_a_walk_goes_on_behind_the_last_page(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file comes once, in whichever page the answer broke off."""
    for number in range(5):
        store.put(f"x/{number}", b"one")
    listed, starts = module.obstore.list, []

    def breaking(*given: Any, offset: str | None, chunk_size: int) -> Any:
        starts.append(offset)
        pages = [page for page in listed(*given, chunk_size=2, offset=offset) if page[-1]["path"] > (offset or "")]
        yield from pages[: 1 if len(starts) < module._READS else None]
        if len(starts) < module._READS:
            raise oe.GenericError("HTTP error: request or response body error")

    monkeypatch.setattr(module.obstore, "list", breaking)
    found = [info.name for page in store.walk(lambda _: False) for info in page.files]
    assert found == ["log/0", "x/0", "x/1", "x/2", "x/3", "x/4"]
    assert [start and start.rpartition("some/table/")[2] for start in starts] == [None, "x/0", "x/2"]


def test_a_walk_without_order_is_whole_or_an_error(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        store.put(f"x/{number}", b"one")
    listed, breaks = module.obstore.list, False

    def backwards(*given: Any, offset: str | None, chunk_size: int) -> Any:
        metas = [meta for page in listed(*given, offset=offset, chunk_size=chunk_size) for meta in page]
        yield metas[:2:-1]
        if breaks and not offset:
            raise oe.GenericError("HTTP error: request or response body error")
        yield metas[2::-1]

    monkeypatch.setattr(module.obstore, "list", backwards)
    found = [info.name for page in store.walk(lambda _: False) for info in page.files]
    assert found == ["x/3", "x/2", "x/1", "x/0", "log/0"]
    breaks = True
    with pytest.raises(StorageError, match="DELTAMERGE_STORAGE_REFUSED"):
        list(store.walk(lambda _: False))
