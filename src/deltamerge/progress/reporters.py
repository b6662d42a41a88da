"""Who is told how far a statement is: a function of the user's, a bar in the terminal or the notebook, or nobody."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Protocol

from deltamerge.progress.bars import TerminalBar, bar_here
from deltamerge.progress.value import Progress

log = logging.getLogger("deltamerge.progress")

Callback = Callable[[Progress], object]
# False: nobody. None: a bar, where there is a place for it.
Reported = Callback | bool | None

_CHOSEN: ContextVar[Reported] = ContextVar("reported", default=None)
_ONE_BAR = threading.Lock()


class Bar(Protocol):
    """Shows how far a statement is."""

    def show(self, progress: Progress) -> None: ...

    def close(self) -> None: ...


class Reporter(Bar, Protocol):
    """Is told how far a statement is: about twice a second, and where `at_once`, when a step begins, too."""

    @property
    def at_once(self) -> bool: ...


@contextlib.contextmanager
def reporting(to: Reported) -> Iterator[None]:
    """The statements within report to a function, which is called with each `Progress`; with False they report to nobody.

    With True or None there is a bar in terminals and notebooks, as without this. The function is called when a step begins, and
    about twice a second while it runs, then from a thread of its own. What it raises is logged, and it is not called again.
    """
    token = _CHOSEN.set(checked(to, "'to' in reporting"))
    try:
        yield
    finally:
        _CHOSEN.reset(token)


def checked(to: Reported, what: str) -> Reported:
    """What a user has given. Raises TypeError for what is none of it."""
    if to is None or isinstance(to, bool) or callable(to):
        return None if to is True else to
    raise TypeError(f"{what} must be a function, True, False or None, found to be of type {type(to)!s}")


def reporter(given: Reported, is_allowed: Callable[[bool], bool]) -> Reporter | None:
    """Who is told: the function that is given, else that of `reporting`, else a bar where there is a place for one and the
    session allows it, which is told whether it is in a terminal. One bar at a time.
    """
    chosen = _CHOSEN.get() if given is None else given
    if callable(chosen):
        return _Called(chosen)
    make = None if chosen is False else bar_here()
    if make is None or not is_allowed(make is TerminalBar) or not _ONE_BAR.acquire(blocking=False):
        return None
    return _Freeing(make())


class _Freeing:
    """A bar; another one may be shown when it is closed."""

    at_once = False

    def __init__(self, bar: Bar) -> None:
        self._bar = bar

    def show(self, progress: Progress) -> None:
        self._bar.show(progress)

    def close(self) -> None:
        try:
            self._bar.close()
        finally:
            _ONE_BAR.release()


class _Called:
    """A function of the user's, called up to the first time that it raises."""

    at_once = True

    def __init__(self, function: Callback) -> None:
        self._function: Callback | None = function

    def show(self, progress: Progress) -> None:
        if self._function is None:
            return
        try:
            self._function(progress)
        except Exception:
            self._function = None
            log.warning("the function that is told of progress has failed and is not called again", exc_info=True)

    def close(self) -> None:
        self._function = None
