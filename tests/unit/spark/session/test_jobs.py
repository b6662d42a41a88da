"""What a failed job is told as."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from deltamerge.errors import ArithmeticDataError, CorruptTableError, ExecutionError, ResultTooLargeError, SourceLostError
from deltamerge.spark.session.jobs import in_process, refused, translated


def test_a_failure_without_a_condition_has_its_first_line() -> None:
    found = translated(PySparkException("\n  Job aborted: the executor is gone.\n\tat java.lang.Thread"))
    assert type(found) is ExecutionError
    assert found.condition == "DELTAMERGE_JOB_FAILED"
    assert found.detail == "Job aborted: the executor is gone."
    assert found.hint == "Nothing was committed; the table is as it was."


@pytest.mark.parametrize("condition", ["DELTAMERGE_AMBIGUOUS_COLUMN", "DELTAMERGE_CORRUPT_DATA_FILE"])
def test_a_file_that_can_not_be_read_is_a_corrupt_table(condition: str) -> None:
    found = refused(condition, "It can't be read.", ("part-1.parquet",))
    assert isinstance(found, CorruptTableError)
    assert found.parameters == {"file": "part-1.parquet"}
    assert found.hint


@pytest.mark.parametrize("condition", ["ARITHMETIC_OVERFLOW", "NUMERIC_VALUE_OUT_OF_RANGE", "DIVIDE_BY_ZERO"])
def test_arithmetic_keeps_sparks_condition(condition: str) -> None:
    found = translated(PySparkException(f"Job aborted.\n[{condition}] The value is too large. SQLSTATE: 22003\n\tat x"))
    assert type(found) is ArithmeticDataError
    assert (found.condition, found.detail) == (condition, "The value is too large.")


@pytest.mark.parametrize("said", ["MemoryError", "pyarrow.lib.ArrowMemoryError: malloc of size 64 failed"])
def test_a_worker_without_memory_has_a_name_and_a_cure(said: str) -> None:
    text = "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n  File x\n"
    found = translated(PySparkException(f"PythonException: {text}{said}\n\n\tat java.lang.Thread"))
    assert type(found) is ExecutionError
    assert found.condition == "DELTAMERGE_WORKER_OUT_OF_MEMORY"
    assert said.rpartition(": ")[2] in found.detail
    assert "spark.executor.memoryOverhead" in (found.hint or "")


@pytest.mark.parametrize("error", [MemoryError(), pa.ArrowMemoryError("malloc of size 64 failed")])
def test_a_driver_without_memory_is_told_as_workers_are(error: Exception) -> None:
    with pytest.raises(ExecutionError) as caught, in_process():
        raise error
    assert caught.value.condition == "DELTAMERGE_WORKER_OUT_OF_MEMORY"
    assert str(error) in caught.value.detail


def test_an_exception_that_says_nothing_is_told_by_its_name() -> None:
    found = translated(PySparkException("PythonException: \nTraceback (most recent call last):\n  File x\nAssertionError\n"))
    assert (found.condition, found.detail) == ("DELTAMERGE_PYTHON_FAILED", "Python code failed on a worker: AssertionError")


def test_a_package_that_workers_lack_leads_to_their_python() -> None:
    text = "PythonException: \nTraceback (most recent call last):\n  File x\nModuleNotFoundError: No module named 'numpy'\n"
    found = translated(PySparkException(text))
    assert (found.condition, found.parameters) == ("DELTAMERGE_PYTHON_FAILED", {"exception": "ModuleNotFoundError"})
    assert "No module named 'numpy'" in found.detail
    assert "traceback is this error's cause" in (found.hint or "")
    assert "PYSPARK_PYTHON" in (found.hint or "")


@pytest.mark.parametrize(
    "said",
    [
        "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). Consider setting x",
        "ExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason: Command exited with code 137",
    ],
)
def test_a_worker_that_dies_again_and_again_is_told(said: str) -> None:
    found = translated(PySparkException(f"Job aborted due to stage failure: Task 0 in stage 5.0 failed 4 times: {said}\n\tat x"))
    assert found.condition == "DELTAMERGE_WORKER_DIED"
    assert "memory" in (found.hint or "")
    assert "crashed" in found.detail or "137" in found.detail


@pytest.mark.parametrize("named", ["[CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND] ", ""], ids=["4.0", "3.5"])
def test_a_lost_block_is_a_lost_source(named: str) -> None:
    text = f"org.apache.spark.SparkException: {named}Checkpoint block rdd_3_1 not found!"
    text += "\nExecutorLostFailure (executor 1 exited)"
    found = translated(PySparkException(text))
    assert type(found) is SourceLostError
    assert found.condition == "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"


@pytest.mark.parametrize("begin", ["", "\n  Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: "])
def test_a_result_that_the_driver_may_not_hold_has_a_name_and_a_cure(begin: str) -> None:
    text = "Total size of serialized results of 5 tasks (1030.8 MiB) is bigger than spark.driver.maxResultSize (1024.0 MiB)"
    found = translated(PySparkException(f"Exception thrown in awaitResult: {begin}{text}\n\tat java.lang.Thread"))
    assert type(found) is ResultTooLargeError
    assert (found.condition, found.detail) == ("DELTAMERGE_RESULT_TOO_LARGE", f"{text}.")
    assert "Raise spark.driver.maxResultSize" in str(found)
