from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from deltamerge.worker.scan.prefetch import prefetched


def test_all_items_come_in_order() -> None:
    assert list(prefetched(iter(range(1, 100)))) == list(range(1, 100))
    assert list(prefetched(iter(()))) == []


def test_the_next_item_is_made_while_one_is_used() -> None:
    made = [threading.Event() for _ in range(4)]

    def items() -> Iterator[int]:
        for number, event in enumerate(made):
            event.set()
            yield number + 1

    found = prefetched(items())
    assert next(found) == 1
    assert made[1].wait(10)
    assert not made[2].wait(0.05), "only one item is made prefetched"
    found.close()


def test_a_failure_comes_in_its_place() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("no second")

    found = prefetched(items())
    assert next(found) == 1
    with pytest.raises(ValueError, match="no second"):
        next(found)


def test_whoever_stops_early_waits_for_the_item_that_is_being_made() -> None:
    began, go, ended = threading.Event(), threading.Event(), threading.Event()

    def items() -> Iterator[int]:
        yield 1
        began.set()
        go.wait(10)
        ended.set()
        yield 2

    found = prefetched(items())
    assert next(found) == 1
    assert began.wait(10)
    threading.Timer(0.05, go.set).start()
    found.close()
    assert ended.is_set()


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_generator_that_nobody_holds_may_be_collected_in_its_own_thread() -> None:
    suspended, collected = threading.Event(), threading.Event()
    held: list[Iterator[int]] = []

    def items() -> Iterator[int]:
        yield 1
        suspended.wait(10)
        held.clear()
        collected.set()
        yield 2

    held.append(prefetched(items()))
    assert next(held[0]) == 1
    suspended.set()
    assert collected.wait(10), "the thread waited for itself"
