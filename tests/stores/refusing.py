"""A disk that refuses the Nth call about one folder: of this process's Python, and of what workers do by pyarrow's files.

The error comes in place of the call, or after it, as when an answer is lost; once, or from then on. A killed process is one
for which no call after the Nth is made.
"""

from __future__ import annotations

import builtins
import io
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa
import pytest

from deltamerge.worker.scan.store import DataStore
from tests.live import ship_live_code

_NAMES = ("open", "link", "replace", "rename", "unlink", "remove", "rmdir", "mkdir", "scandir", "listdir", "stat")


class Killed(BaseException):
    """The process is gone."""


@dataclass(frozen=True)
class Fault:
    """What goes wrong: an error of the system, or a kill for None."""

    errno: int | None
    stays: bool = False
    after: bool = False


class Calls:
    """The calls about the folder `root`, of which number `at` goes wrong; 0 for none."""

    def __init__(self, root: str, at: int, fault: Fault) -> None:
        self._root, self._at, self._fault = root, at, fault
        self._lock = threading.Lock()
        self.seen: list[str] = []
        self.failed: list[str] = []

    def make(self, name: str, path: Any, call: Callable[[], Any]) -> Any:
        """Make a call, or fail as it is planned."""
        if not isinstance(path, str | os.PathLike) or not os.fspath(path).startswith(self._root):
            return call()
        with self._lock:
            self.seen.append(name)
            number = len(self.seen)
            goes_wrong = self._at and (number == self._at or (number > self._at and (self._fault.stays or not self._fault.errno)))
            if goes_wrong:
                self.failed.append(name)
        if not goes_wrong:
            return call()
        if self._fault.errno is None:
            raise Killed
        if self._fault.after:
            call()
        raise OSError(self._fault.errno, os.strerror(self._fault.errno), os.fspath(path))

    @contextmanager
    def heard(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """All calls within are counted."""
        with monkeypatch.context() as patch:
            for name in _NAMES:
                patch.setattr(os, name, self._of_path(name, getattr(os, name)))
            patch.setattr(os, "fsync", self._of_handle(os.fsync))
            ship_live_code(patch)
            opened = self._opened(builtins.open)
            patch.setattr(builtins, "open", opened)
            patch.setattr(io, "open", opened)
            for name in ("infos", "info", "stamp", "modified"):
                patch.setattr(DataStore, name, self._of_store(name, getattr(DataStore, name)))
            patch.setattr(DataStore, "open", lambda store, name: pa.PythonFile(opened(_place(store, name), "rb"), mode="r"))
            patch.setattr(DataStore, "create", lambda store, name: _created(opened, _place(store, name)))
            patch.setattr(DataStore, "delete", lambda store, name: _deleted(_place(store, name)))
            yield

    def _of_path(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        return lambda path, *more, **named: self.make(name, path, lambda: real(path, *more, **named))

    def _of_handle(self, real: Callable[[int], None]) -> Callable[[int], Any]:
        return lambda handle: self.make("fsync", os.readlink(f"/proc/self/fd/{handle}"), lambda: real(handle))

    def _of_store(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        return lambda store, of: self.make(f"worker {name}", _place(store, of), lambda: real(store, of))

    def _opened(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def opened(path: Any, *more: Any, **named: Any) -> Any:
            file = self.make("open", path, lambda: real(path, *more, **named))
            is_ours = isinstance(path, str | os.PathLike) and os.fspath(path).startswith(self._root)
            return _File(self, file, os.fspath(path)) if is_ours else file

        return opened


class _File:
    """An open file whose reads, writes and flushes are calls."""

    def __init__(self, calls: Calls, file: Any, path: str) -> None:
        self._calls, self._file, self._path = calls, file, path

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._file, name)
        if name not in ("read", "readinto", "write", "flush"):
            return real
        return lambda *arguments: self._calls.make(name, self._path, lambda: real(*arguments))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _place(store: DataStore, name: str) -> str:
    return f"{store.root.rstrip('/')}/{name}"


def _created(opened: Callable[..., Any], path: str) -> Any:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return pa.PythonFile(opened(path, "wb", buffering=0), mode="w")


def _deleted(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)
