"""Running Spark jobs, and saying what went wrong in one of them in this library's terms."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import pyarrow as pa
from pyspark.errors import PySparkException, PythonException
from pyspark.sql import types as T

from deltamerge.errors import (
    ArithmeticDataError,
    ConstraintError,
    CorruptTableError,
    DeltaMergeError,
    ExecutionError,
    InvalidArgumentError,
    InvalidDateTimeError,
    InvalidNumberError,
    ResultTooLargeError,
    SourceLostError,
    StorageError,
)
from deltamerge.protocol.table.identity import EXHAUSTED
from deltamerge.spark.pyspark.older import arrow_frame, arrow_rows, condition_of
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.running import described
from deltamerge.spark.session.schema import nullable_frame, nullable_type
from deltamerge.spark.session.settings import job_settings
from deltamerge.spark.session.variants import marked, unmarked
from deltamerge.worker.scan.outcomes import AttemptEnded, NotThisWay, TooLarge, outcome_in
from deltamerge.worker.scan.row_errors import Refused

_UNCHANGED = "Nothing was committed; the table is as it was."
_FILE_HINTS = {
    "DELTAMERGE_CORRUPT_DATA_FILE": "Restore the file from a backup, or restore a version of the table that does not need it.",
    "DELTAMERGE_ROW_GROUP_TOO_LARGE": "Write the file's rows again in smaller row groups, or give the workers more memory.",
    "DELTAMERGE_MISSING_FIELD_IDS": "Write the file's rows again with a tool that knows the table's column mapping.",
    "DELTAMERGE_AMBIGUOUS_COLUMN": "Write the file's rows again with columns whose names differ by more than case.",
    "DELTAMERGE_ANCIENT_DATETIME": "Write the file's rows again with Spark, told by its conf which calendar they are in.",
    "DELTAMERGE_OLD_PYARROW": "Install pyarrow 21 or newer where Spark's workers run, or open the account by its key.",
}
_TOO_LARGE = re.compile(r"Total size of serialized results .* is bigger than spark\.driver\.maxResultSize [^\n]*\)")
UNNAMED = "DELTAMERGE_JOB_FAILED"
_LOST = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"
_NAMELESS_LOST = re.compile(r"Checkpoint block rdd_\d+_\d+ not found!")  # as PySpark 3.5 says it
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]+)\]\s*(.*)")
_CAUSED = re.compile(r"^(?:Caused by)?: [\w.$]+: (.+)$", re.MULTILINE)
_LAST_LINE = re.compile(r"^(?:[\w.]+\.)?(\w+(?=: )|\w+(?:Error|Exception)$)(?:: (.*))?$", re.MULTILINE)
_DIED = re.compile(r"Python worker exited unexpectedly[^.\n]*|ExecutorLostFailure[^\n]*")
_WORKERS_PYTHON = (
    "The workers may run another Python than your program. On one machine, activate the environment of your program, or set "
    "PYSPARK_PYTHON to its Python, before the session starts; on a cluster, install what is missing on the workers. "
    f"{_UNCHANGED}"
)
_MORE_MEMORY = (
    "Give workers more memory (spark.executor.memoryOverhead, spark.executor.pyspark.memory), or fewer tasks at a time "
    f"(spark.executor.cores). {_UNCHANGED}"
)


def collect(
    frame: Frame, description: str, schema: T.StructType | None = None, set_to: Mapping[str, str] | None = None
) -> pa.Table:
    """The rows of a frame in Arrow, by one job. Raises DeltaMergeError with the cause of a failure.

    Spark need not be asked for a `schema` that is known; `set_to` are settings of the session for that time.
    """
    spark = frame.sparkSession
    with translating(), job_settings(spark, set_to), described(spark, description):
        known = frame.schema if schema is None else schema
        return arrow_rows(unmarked(nullable_frame(frame, known), known))


def attempt(
    frame: Frame, description: str, schema: T.StructType | None = None, set_to: Mapping[str, str] | None = None
) -> pa.Table | NotThisWay:
    """As `collect`; but what a task ends the job with comes as a value, and so does a result that the driver may not take."""
    try:
        return collect(frame, description, schema, set_to)
    except AttemptEnded as ended:
        return ended.outcome
    except ResultTooLargeError as error:
        return TooLarge(error.detail)


@contextlib.contextmanager
def translating() -> Iterator[None]:
    """Failures of Spark within come out in this library's terms."""
    try:
        yield
    except PySparkException as error:
        raise translated(error) from error
    except Exception as error:
        if "Py4J" in type(error).__name__:
            raise translated(error) from error
        raise


def local_frame(spark: Session, table: pa.Table, schema: T.StructType) -> Frame:
    """An Arrow table as a frame of local rows, all nullable: below a null struct even a field that must not be null is.

    Raises StorageError when there is no room to hand it to Spark.
    """
    wanted = cast("T.StructType", nullable_type(schema))
    try:
        return arrow_frame(spark, marked(table, wanted), wanted)
    except OSError as error:
        raise StorageError(
            "DELTAMERGE_STORAGE_REFUSED",
            f"Cannot hand rows to Spark: {error}.",
            parameters={"errno": error.errno},
            hint=f"Make room in Spark's local folder (spark.local.dir, SPARK_LOCAL_DIRS). {_UNCHANGED}",
        ) from error


@contextlib.contextmanager
def in_process() -> Iterator[None]:
    """Worker code that runs in this process: its failures come out as they do from a job."""
    try:
        yield
    except Refused as error:
        raise refused(error.condition, error.message, error.parameters) from error
    except OSError as error:
        raise _storage_failure(str(error)) from error
    except (pa.ArrowException, MemoryError) as error:
        raise _python_failure(type(error).__name__, str(error)) from error


def translated(error: Exception) -> DeltaMergeError | AttemptEnded:
    """What a failed job says, as an error of this library: the condition, the innermost cause, a hint where one helps."""
    text = str(error)
    if (outcome := outcome_in(text)) is not None:
        return AttemptEnded(outcome)
    if Refused.MARK in text:
        return _marked(text)
    if "PYTHON_VERSION_MISMATCH" in text or "Python in worker has different version" in text:
        return ExecutionError(
            "PYTHON_VERSION_MISMATCH",
            _line_with(text, "Python in worker has different version", "PYTHON_VERSION_MISMATCH"),
            hint="Driver and workers must run the same Python minor version: set PYSPARK_PYTHON (and PYSPARK_DRIVER_PYTHON) "
            "to one interpreter before the session starts.",
        )
    if "No module named 'pyarrow'" in text:
        return ExecutionError(
            "DELTAMERGE_WORKER_WITHOUT_PYARROW",
            "The workers' Python has no pyarrow.",
            hint=_WORKERS_PYTHON,
        )
    if isinstance(error, PythonException) or "PythonException" in text:
        return _worker_failure(text)
    if too_large := _TOO_LARGE.search(text):
        hint = f"Raise spark.driver.maxResultSize (and spark.driver.memory). {_UNCHANGED}"
        return ResultTooLargeError("DELTAMERGE_RESULT_TOO_LARGE", f"{too_large[0]}.", hint=hint)
    condition, message = condition_in(error)
    kind: type[DeltaMergeError] = ExecutionError
    if condition == _LOST or _LOST in text or _NAMELESS_LOST.search(text):
        return SourceLostError(_LOST, f"Rows of the materialized source are lost: {message}", hint=_UNCHANGED)
    if died := _DIED.search(text):
        return ExecutionError(
            "DELTAMERGE_WORKER_DIED",
            f"Workers ended while they ran a task, more often than Spark tries again: {died[0]}",
            hint=f"Often they are killed for want of memory. {_MORE_MEMORY}",
        )
    if condition.startswith(("CAST_OVERFLOW", "ARITHMETIC_OVERFLOW", "NUMERIC_VALUE_OUT_OF_RANGE", "DIVIDE_BY_ZERO")):
        kind = ArithmeticDataError
    elif condition == "CAST_INVALID_INPUT":
        kind = InvalidDateTimeError if re.search(r'"(?:DATE|TIMESTAMP)', message) else InvalidNumberError
    return kind(condition, message, hint=_UNCHANGED)


def read_failure(error: Exception) -> DeltaMergeError | AttemptEnded:
    """`translated`, of a query that would have committed nothing: the hint does not say that nothing was."""
    found = translated(error)
    if isinstance(found, DeltaMergeError) and found.hint is not None:
        found.hint = found.hint.removesuffix(_UNCHANGED).strip() or None
    return found


def refused(condition: str, message: str, parameters: Sequence[str]) -> DeltaMergeError:
    """The error for a row that must not be written, or a file that can't be read."""
    if condition in _FILE_HINTS or condition.startswith(("DELTAMERGE_CORRUPT_", "DELTA_DELETION_VECTOR_")):
        hint = f"{_FILE_HINTS.get(condition, _FILE_HINTS['DELTAMERGE_CORRUPT_DATA_FILE'])} {_UNCHANGED}"
        return CorruptTableError(condition, message, parameters={"file": parameters[0]}, hint=hint)
    if condition in ("DELTAMERGE_WORKER_WITHOUT_STORE", "DELTAMERGE_FILE_IN_OTHER_STORE"):
        hint = f"Install a pyarrow that is built with the store's file system, or move the file. {_UNCHANGED}"
        return StorageError(condition, message, parameters={"place": parameters[0]}, hint=hint)
    if condition == "DELTAMERGE_UNSUPPORTED_PARTITION_VALUE":
        hint = f"Partition by another column, or by hex(column). {_UNCHANGED}"
        return InvalidArgumentError(condition, message, parameters={"value": parameters[0]}, hint=hint)
    kind: type[DeltaMergeError] = ConstraintError
    if condition in ("DELTA_CAST_OVERFLOW_IN_TABLE_WRITE", EXHAUSTED):
        kind = ArithmeticDataError
    elif condition == "CAST_INVALID_INPUT":
        temporal = len(parameters) > 1 and parameters[1].startswith(("date", "timestamp"))
        kind = InvalidDateTimeError if temporal else InvalidNumberError
    return kind(condition, message, parameters={"values": list(parameters)}, hint=_UNCHANGED)


def _marked(text: str) -> DeltaMergeError:
    body = text[text.index(Refused.MARK) + len(Refused.MARK) :]
    value, _ = json.JSONDecoder().raw_decode(body)
    return refused(value["condition"], value["message"], value["parameters"])


def _storage_failure(message: str) -> StorageError:
    return StorageError(
        "DELTAMERGE_STORAGE_REFUSED",
        f"A worker could not read or write: {message}",
        hint=f"Check that the file is there, and space and permissions of the table's folder. {_UNCHANGED}",
    )


def _worker_failure(text: str) -> DeltaMergeError:
    found = _LAST_LINE.findall(text)
    name, message = found[-1] if found else ("error", _first_line(text))
    if name in ("OSError", "PermissionError", "FileNotFoundError", "ArrowIOError") or "Errno" in message:
        return _storage_failure(message)
    return _python_failure(name, message)


def _python_failure(name: str, message: str) -> ExecutionError:
    if name in ("MemoryError", "ArrowMemoryError"):
        return ExecutionError(
            "DELTAMERGE_WORKER_OUT_OF_MEMORY",
            f"Python has too little memory: {message or name}",
            parameters={"exception": name},
            hint=_MORE_MEMORY,
        )
    return ExecutionError(
        "DELTAMERGE_PYTHON_FAILED",
        f"Python code failed on a worker: {name}: {message}".removesuffix(": "),
        parameters={"exception": name},
        hint=f"The full traceback is this error's cause. {_WORKERS_PYTHON if name == 'ModuleNotFoundError' else _UNCHANGED}",
    )


def condition_in(error: Exception) -> tuple[str, str]:
    """The condition that one of Spark's errors names, UNNAMED where it names none, and the line that says what is wrong."""
    text = str(error)
    found = _CONDITION.search(text)
    named = condition_of(error)
    if found is None:
        return named or UNNAMED, _cause(text)
    return found[1], found[2].split(" SQLSTATE:")[0].strip()


def _cause(text: str) -> str:
    """What Spark says of a failure to which it gives no condition: the innermost cause where Py4J shows a stack trace."""
    causes = _CAUSED.findall(text) if text.startswith("An error occurred while calling") else []
    return causes[-1] if causes else _first_line(text)


def _line_with(text: str, *marks: str) -> str:
    """The first line that holds one of the marks, the marks in order of preference."""
    lines = [line.strip() for line in text.splitlines()]
    return next((line for mark in marks for line in lines if mark in line), _first_line(text))


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no message")
