"""Ctrl-C, or a notebook's stop, while a statement runs: its Spark jobs are cancelled, and only then it ends.

An exception that breaks into a call of PySpark leaves the job running, and the call's answer to the next call. So the signal is
only noted: what runs is cancelled and ends by itself, and KeyboardInterrupt is raised between two calls. Where that takes longer
than WAIT, or the signal comes twice, it is raised at once. A commit is never broken into.
"""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

# Seconds that what is cancelled has to end by itself, and between two times that it is asked to.
WAIT, AGAIN = 3.0, 0.25

Cancel = Callable[[], object]


class Stopping:
    """Notes interrupts of the main thread while it is entered; elsewhere, and where others handle the signal, it does nothing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked = threading.Event()
        self._left = threading.Event()
        self._cancels: list[Cancel] = []
        self._holds = 0
        self._before: Any = None
        self._is_raised = False
        self.committed: int | None = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread() and _is_plain(before := signal.getsignal(signal.SIGINT)):
            signal.signal(signal.SIGINT, self._stop)
            self._before = before
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with self._lock:
            self._left.set()
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
        if self._asked.is_set() and not isinstance(error, KeyboardInterrupt):
            raise self._interrupt() from error

    @property
    def is_asked(self) -> bool:
        """Whether the statement is to stop."""
        return self._asked.is_set()

    def check(self) -> None:
        """Raise KeyboardInterrupt if the statement is to stop, once: what tidies up after that may go on."""
        if self._asked.is_set() and not (self._holds or self._is_raised):
            raise self._interrupt()

    def add(self, cancel: Cancel) -> None:
        """`cancel` ends what runs from now on."""
        self._cancels.append(cancel)

    def remove(self, cancel: Cancel) -> None:
        """What `cancel` would end has ended."""
        self._cancels.remove(cancel)

    def hold(self) -> None:
        """From now on nothing is broken into."""
        self._holds += 1

    def release(self) -> None:
        """What must not be broken into has ended."""
        self._holds -= 1

    def _stop(self, number: int, frame: FrameType | None) -> None:
        if not self._asked.is_set():
            self._asked.set()
            threading.Thread(target=self._cancel, name="deltamerge-stop", daemon=True).start()
        elif not self._holds:
            raise self._interrupt()

    def _cancel(self) -> None:
        """Cancel what runs until the statement has ended, and have it broken into where that takes too long."""
        for _ in range(round(WAIT / AGAIN)):
            for cancel in tuple(self._cancels):
                cancel()
            if self._left.wait(AGAIN):
                return
        while not self._left.wait(AGAIN):
            with self._lock:
                if not self._holds and not self._left.is_set():
                    _interrupt_main()
                    return

    def _interrupt(self) -> KeyboardInterrupt:
        self._is_raised = True
        if self.committed is not None:
            return KeyboardInterrupt(f"stopped after version {self.committed} was committed")
        return KeyboardInterrupt("stopped before anything was committed")


def _interrupt_main() -> None:
    """Send the main thread the signal, also where it waits for an answer."""
    main = threading.main_thread().ident
    if main is not None and hasattr(signal, "pthread_kill"):
        signal.pthread_kill(main, signal.SIGINT)
    else:
        _thread.interrupt_main()


def _is_plain(handler: Any) -> bool:
    """Whether a handler is Python's, or PySpark's, which cancels the jobs of all threads."""
    return handler is signal.default_int_handler or str(getattr(handler, "__module__", "")).startswith("pyspark.")
