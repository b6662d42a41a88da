"""Asking Spark's analyzer without PySpark's log of what it refuses.

PySpark logs each refusal of a query on stderr, with a Java stack trace of 15 kB and more, as soon as it makes the exception.
This library says what was refused in an error of its own, whose cause is that exception.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from contextvars import ContextVar

_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_QUIET: ContextVar[bool] = ContextVar("quiet", default=False)


class _UnlessQuiet(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return not _QUIET.get()


class _UnlessStopped(logging.Filter):
    """Py4J logs with a traceback that Ctrl-C has broken into a call of Java, and raises it then."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (_QUIET.get() and str(record.msg).startswith("KeyboardInterrupt while sending command"))


_FILTER = _UnlessQuiet()
_STOPPED = _UnlessStopped()


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """What Spark refuses within is not logged; other threads go on to log, and so does whatever runs afterwards."""
    _install()
    token = _QUIET.set(True)
    try:
        yield
    finally:
        _QUIET.reset(token)


def _install() -> None:
    """Give PySpark's loggers the filter. A PySpark without them logs nothing, or elsewhere: then it stays as it is."""
    logging.getLogger().addFilter(_STOPPED)
    try:
        from pyspark.logger import PySparkLogger

        for name in _LOGGERS:
            PySparkLogger.getLogger(name).addFilter(_FILTER)
    except Exception:
        return
