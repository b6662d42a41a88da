"""Calls that touch a folder, counted; at one of them the process, and what it has started, is killed as `kill -9` does."""

from __future__ import annotations

import itertools
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from deltamerge.worker.scan.store import DataStore
from tests.live import ship_live_code

_EVENTS = frozenset(("open", "os.link", "os.listdir", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.scandir"))


def die_at(call: int, folder: str) -> Callable[[], int]:
    """From now on count the calls about `folder`, and be killed before one of them, for 0 never; the function tells their number.

    All files that Python opens, links, renames, lists and removes count, what pyarrow creates, and what is synced.
    """
    numbers = itertools.count(1)
    seen = [0]

    def touch() -> None:
        seen[0] = next(numbers)  # whole also where several threads touch files
        if seen[0] == call:
            os.killpg(0, signal.SIGKILL) if os.getpgid(0) == os.getpid() else os.kill(os.getpid(), signal.SIGKILL)

    def heard(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _EVENTS and isinstance(arguments[0], str | os.PathLike) and os.fspath(arguments[0]).startswith(folder):
            touch()

    def touching(function: Callable[..., Any]) -> Callable[..., Any]:
        def touched(*arguments: Any) -> Any:
            touch()
            return function(*arguments)

        return touched

    sys.addaudithook(heard)
    ship_live_code()
    DataStore.create = touching(DataStore.create)  # type: ignore[method-assign]
    os.fsync = touching(os.fsync)  # type: ignore[assignment]
    return lambda: seen[0]
