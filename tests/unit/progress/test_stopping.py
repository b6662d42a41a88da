"""An interrupt ends a statement between two calls, breaks into one that goes on for too long, and never into a commit."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from deltamerge.progress import stopping
from deltamerge.progress.operation import Operation, begin, committing, current, operation


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    """The test has Python's own handler."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.signal(signal.SIGINT, before) is signal.default_int_handler


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def stopped(statement: Callable[[Operation], object]) -> KeyboardInterrupt:
    """How a statement ended."""

    def run() -> None:
        with operation("MERGE", "t"):
            running = current()
            assert running is not None
            statement(running)

    with pytest.raises(KeyboardInterrupt) as caught:
        run()
    return caught.value


def test_a_statement_ends_at_its_next_step() -> None:
    done = []

    def statement(_: Operation) -> None:
        interrupt()
        done.append("the call that was interrupted")
        begin("writing")
        done.append("another one")

    assert str(stopped(statement)) == "stopped before anything was committed"
    assert done == ["the call that was interrupted"]


def test_jobs_are_cancelled_and_what_they_fail_with_is_the_cause() -> None:
    cancelled = threading.Event()

    def statement(running: Operation) -> None:
        with running.job(cancelled.set):
            interrupt()
            assert cancelled.wait(5)
            raise ValueError("cancelled")

    assert isinstance(stopped(statement).__context__, ValueError)


def test_a_commit_is_not_broken_into(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopping, "WAIT", 0.1)
    monkeypatch.setattr(stopping, "AGAIN", 0.05)
    done = []

    def statement(_: Operation) -> None:
        with committing() as note:
            interrupt()
            interrupt()
            time.sleep(0.3)
            note(4)
            done.append("committed")
        begin("tidying up")
        done.append("more")

    assert str(stopped(statement)) == "stopped after version 4 was committed"
    assert done == ["committed"]


@pytest.mark.parametrize("again", [True, False], ids=["by a second signal", "after a while"])
def test_what_does_not_end_is_broken_into(monkeypatch: pytest.MonkeyPatch, again: bool) -> None:
    monkeypatch.setattr(stopping, "WAIT", 60 if again else 0.1)
    monkeypatch.setattr(stopping, "AGAIN", 0.05)
    began = time.monotonic()

    def statement(_: Operation) -> None:
        interrupt()
        if again:
            interrupt()
        time.sleep(30)

    stopped(statement)
    assert time.monotonic() - began < 20


def test_what_tidies_up_is_not_stopped_again() -> None:
    told = []

    def statement(_: Operation) -> None:
        interrupt()
        try:
            begin("deleting")
        finally:
            with committing():
                told.append("FAILED")

    stopped(statement)
    assert told == ["FAILED"]


def test_a_handler_of_the_program_is_left_alone() -> None:
    heard = []
    signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    try:
        with operation("MERGE", "t"):
            interrupt()
            begin("writing")
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert heard == [1]


def test_what_breaks_in_by_other_ways_cancels_too() -> None:
    cancelled = []

    def statement(running: Operation) -> None:
        with running.job(lambda: cancelled.append(1)):
            raise KeyboardInterrupt("by the program itself")

    assert str(stopped(statement)) == "by the program itself"
    assert cancelled == [1]
