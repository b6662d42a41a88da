"""PySpark's log of refused queries is silent while this library asks, for the thread that asks."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from unittest.mock import patch

import pytest
from pyspark.logger import PySparkLogger

from deltamerge.spark.pyspark.quiet import quietly

NAMES = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


class Kept(logging.Handler):
    """Keeps messages."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@pytest.fixture(params=NAMES)
def kept(request: pytest.FixtureRequest) -> Iterator[tuple[logging.Logger, list[str]]]:
    """One of PySpark's loggers, and the messages that get through it, which nobody prints."""
    logger, handler = PySparkLogger.getLogger(request.param), Kept()
    with patch.object(logger, "handlers", [handler]), patch.object(logger, "propagate", False):
        yield logger, handler.messages


def refuse(logger: logging.Logger, message: str) -> None:
    """Log as PySpark does where Spark refuses a query."""
    logger.exception(message, errorClass="UNRESOLVED_COLUMN")  # type: ignore[call-arg]


def test_what_is_refused_within_is_not_logged(kept: tuple[logging.Logger, list[str]]) -> None:
    logger, messages = kept
    refuse(logger, "before")
    with quietly():
        refuse(logger, "within")
        with quietly():
            refuse(logger, "further within")
        refuse(logger, "within again")
    with contextlib.suppress(ValueError), quietly():
        raise ValueError
    refuse(logger, "after")
    assert messages == ["before", "after"]


def test_other_threads_go_on_to_log(kept: tuple[logging.Logger, list[str]]) -> None:
    logger, messages = kept
    with quietly():
        other = threading.Thread(target=refuse, args=(logger, "of another thread"))
        other.start()
        other.join()
        refuse(logger, "within")
    assert messages == ["of another thread"]


def test_the_loggers_are_pysparks_whoever_asks_for_them_first() -> None:
    with quietly():
        pass
    assert all(isinstance(logging.getLogger(name), PySparkLogger) for name in NAMES)
    assert all(len(logging.getLogger(name).filters) == 1 for name in NAMES)


def test_ctrl_c_in_a_call_of_java_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """It is raised, too: the program says what became of the table, and no traceback stands above it."""
    said = "KeyboardInterrupt while sending command."  # by py4j, on the root logger
    with quietly():
        logging.getLogger().error(said)
        logging.getLogger().error("another")
    logging.getLogger().error(said)
    assert caplog.messages == ["another", said]


def test_without_such_loggers_what_is_within_runs() -> None:
    ran = []
    with patch.object(PySparkLogger, "getLogger", side_effect=RuntimeError), quietly():
        ran.append("within")
    assert ran == ["within"]
