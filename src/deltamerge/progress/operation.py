"""The statement that runs: what it is doing, how far it is, and how it is stopped.

A statement enters `operation`; whatever works for it says what it does by the functions here, which cost nothing where nobody is
told.
"""

from __future__ import annotations

import contextlib
import contextvars
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import replace

from deltamerge.progress.reporters import Reported, Reporter, reporter
from deltamerge.progress.stopping import Cancel, Stopping
from deltamerge.progress.value import Amount, Progress

log = logging.getLogger("deltamerge.progress")

# Seconds before anything is shown, and between two looks.
SHOWN_AFTER, EVERY = 0.5, 0.5
# A smaller share says nothing about the rest.
_TELLING = 0.05

# Tasks that have ended, and all of them, as far as they are known.
Poll = Callable[[], tuple[int, int]]


class Operation:
    """A statement that runs. Its `id` is no other one's."""

    def __init__(self, name: str, table: str, told: Reporter | None) -> None:
        self.id = f"deltamerge-{uuid.uuid4()}"
        self.stopping = Stopping()
        self._name, self._table, self._told = name, table, told
        self._lock, self._telling = threading.Lock(), threading.RLock()
        self._started = self._began = time.monotonic()
        self._step = "running"
        self._total = self._done = Amount()
        self._share, self._tasks = 0.0, (0, 0)
        self._poll: Poll | None = None

    @property
    def is_watched(self) -> bool:
        """Whether anybody is told how far it is."""
        return self._told is not None

    def begin(self, step: str, total: Callable[[], Amount] | None = None) -> None:
        """A step begins, which goes through `total`."""
        log.debug("%s of %s: %s", self._name, self._table, step)
        self.stopping.check()
        if self._told is None:
            return
        amount = Amount() if total is None else total()
        with self._lock:
            self._step, self._total, self._done, self._began = step, amount, Amount(), time.monotonic()
            self._share, self._tasks = 0.0, (0, 0)
        if self._told.at_once:
            self._tell()

    def advance(self, amount: Callable[[], Amount]) -> None:
        """So much more of the step is done; from whatever thread."""
        more = amount()
        with self._lock:
            self._done += more

    @contextlib.contextmanager
    def job(self, cancel: Cancel, poll: Poll | None = None) -> Iterator[None]:
        """Spark jobs run within, which `cancel` ends; `poll` tells their tasks, and is asked from another thread.

        Raises KeyboardInterrupt when the statement is stopped meanwhile; so do other exceptions that break in, after a `cancel`.
        """
        self.stopping.check()
        self.stopping.add(cancel)
        self._poll = poll
        try:
            yield
        except Exception:
            self.stopping.check()
            raise
        except BaseException:
            with contextlib.suppress(Exception):
                cancel()
            raise
        finally:
            self._poll = None
            self.stopping.remove(cancel)
        self.stopping.check()

    def progress(self) -> Progress:
        """How far it is."""
        poll, tasks = self._poll, (0, 0)
        if poll is not None:
            with contextlib.suppress(Exception):  # a job may end, and Spark forget it, while it is looked at
                tasks = poll()
        with self._lock:
            if tasks[1] and self._poll is poll:
                self._tasks = tasks
                self._share = max(self._share, tasks[0] / tasks[1])
            done, now = self._done.at_least(self._total.part(self._share)), time.monotonic()
            found = Progress(self._name, self._table, self._step, done, self._total, *self._tasks, now - self._started)
            share = found.share or 0.0
            return found if not _TELLING <= share < 1 else replace(found, remaining=(now - self._began) * (1 - share) / share)

    def watch(self, ended: threading.Event) -> None:
        """Tell how far it is until it has ended, if it takes long enough."""
        if not ended.wait(SHOWN_AFTER):
            self._tell()
            while not ended.wait(EVERY):
                self._tell()

    def _tell(self) -> None:
        assert self._told is not None
        found = self.progress()
        with self._telling:
            try:
                self._told.show(found)
            except Exception:  # a display that fails must not end a statement
                log.debug("progress can't be shown", exc_info=True)


_CURRENT: ContextVar[Operation | None] = ContextVar("operation", default=None)


def current() -> Operation | None:
    """The statement that runs."""
    return _CURRENT.get()


@contextlib.contextmanager
def operation(
    name: str, table: str, told: Reported = None, is_allowed: Callable[[bool], bool] = lambda _: True
) -> Iterator[None]:
    """A statement runs within; one within another is a part of it. `told` is told how far it is, else as `reporter` says.

    Raises KeyboardInterrupt when it is stopped.
    """
    if _CURRENT.get() is not None:
        yield
        return
    who = reporter(told, is_allowed)
    running = Operation(name, table, who)
    token = _CURRENT.set(running)
    try:
        with running.stopping, _watched(running, who):
            yield
    finally:
        _CURRENT.reset(token)


@contextlib.contextmanager
def _watched(running: Operation, who: Reporter | None) -> Iterator[None]:
    if who is None:
        yield
        return
    ended = threading.Event()
    context = contextvars.copy_context()  # by which a notebook knows the cell
    watcher = threading.Thread(target=context.run, args=(running.watch, ended), name="deltamerge-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join(EVERY)
        try:
            who.close()
        except Exception:
            log.debug("progress can't be closed", exc_info=True)


def begin(step: str, total: Callable[[], Amount] | None = None) -> None:
    """A step of the statement that runs begins. Raises KeyboardInterrupt if it is to stop."""
    running = _CURRENT.get()
    if running is not None:
        running.begin(step, total)


def advancing() -> Callable[[Callable[[], Amount]], None]:
    """What says that so much more of the step is done, in whatever thread it is called."""
    running = _CURRENT.get()
    return _nothing if running is None or not running.is_watched else running.advance


def _nothing(amount: Callable[[], Amount]) -> None:
    """Nobody is told."""


@contextlib.contextmanager
def committing() -> Iterator[Callable[[int], None]]:
    """What is done within is not broken into; the function notes the version that was committed.

    Raises KeyboardInterrupt before it begins, if the statement is to stop.
    """
    running = _CURRENT.get()
    if running is None:
        yield _not_noted
        return
    stopping = running.stopping
    stopping.check()
    stopping.hold()
    try:
        yield lambda version: setattr(stopping, "committed", version)
    finally:
        stopping.release()


def _not_noted(version: int) -> None:
    """Nobody asks."""
