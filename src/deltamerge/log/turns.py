"""Commits of one process into one table, one after the other.

Threads that race each other for the next version do the work of all losers again: they look at the winners' rows, join and sync
their deletion vectors. One that waits follows those before it once. Other processes are raced as ever.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakValueDictionary

_MOST_SECONDS = 5.0  # after which a thread races the others: the store may hang for one of them


class _Turn:
    """Who commits into a table; held by those who do, or wait for it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()


_turns: WeakValueDictionary[str, _Turn] = WeakValueDictionary()
_turns_lock = threading.Lock()


@contextmanager
def in_turn(url: str) -> Iterator[bool]:
    """Within, no other thread of this process commits into the table of that URL, unless it has waited too long; gives whether
    others were before, whose commits are there now.
    """
    with _turns_lock:
        turn = _turns.get(url) or _Turn()
        _turns[url] = turn
    waited = not turn.lock.acquire(blocking=False)
    is_ours = not waited or turn.lock.acquire(timeout=_MOST_SECONDS)
    try:
        yield waited
    finally:
        if is_ours:
            turn.lock.release()
