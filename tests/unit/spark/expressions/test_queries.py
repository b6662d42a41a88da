"""Spark's refusals of statements that are its own."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import PySparkException

from deltamerge.errors import AnalysisError
from deltamerge.spark.expressions.queries import asking_for_formats


class Py4JJavaError(Exception):
    """What classic Spark raises for errors that PySpark has no class for."""


NO_SESSION: Any = None
CALLED = "An error occurred while calling o1.sql.\n: "


@pytest.mark.parametrize(
    "error",
    [
        Py4JJavaError(f"{CALLED}org.apache.spark.SparkException: Job aborted due to stage failure: Task 3 failed"),
        Py4JJavaError(f"{CALLED}org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows to a."),
        Py4JJavaError(f"{CALLED}java.sql.BatchUpdateException: duplicate key"),
        PySparkException("Job aborted."),
        ValueError("Cannot find it"),
    ],
)
def test_failures_of_sparks_statements_stay_as_they_are(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, asking_for_formats(NO_SESSION):
        raise error
    assert caught.value is error


@pytest.mark.parametrize(
    ("said", "condition"),
    [
        ("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: delta. Make sure it is there.", "DATA_SOURCE_NOT_FOUND"),
        ("Cannot find catalog plugin class for catalog 'a': io.delta.A", "CANNOT_LOAD_CATALOG.PLUGIN_CLASS_NOT_FOUND"),
        ("[CANNOT_LOAD_CATALOG.PLUGIN_CLASS_NOT_FOUND] No class.", "CANNOT_LOAD_CATALOG.PLUGIN_CLASS_NOT_FOUND"),
    ],
)
def test_a_format_or_catalog_that_is_not_there_is_told(said: str, condition: str) -> None:
    with pytest.raises(AnalysisError) as caught, asking_for_formats(NO_SESSION):
        raise Py4JJavaError(f"{CALLED}org.apache.spark.SparkException: {said}")
    assert caught.value.condition == condition
    assert caught.value.hint
