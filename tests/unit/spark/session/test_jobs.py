"""What a failed job is told as."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from deltamerge.errors import ArithmeticDataError, CorruptTableError, ExecutionError, ResultTooLargeError, SourceLostError
from deltamerge.spark.session.jobs import refused, translated


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


def test_a_lost_block_is_a_lost_source() -> None:
    text = "org.apache.spark.SparkException: [CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND] Checkpoint block rdd_3_1 not found!"
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
