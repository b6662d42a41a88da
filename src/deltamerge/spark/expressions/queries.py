"""Queries that Spark answers, with its refusals as this library's errors."""

from __future__ import annotations

from pyspark.errors import AnalysisException

from deltamerge.errors import AnalysisError
from deltamerge.spark.expressions.analysis import plain_message
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.quiet import quietly


def query_frame(spark: Session, query: str) -> Frame:
    """The rows of a query, lazily. Raises AnalysisError, which PySpark does not log."""
    try:
        with quietly():
            frame: Frame = spark.sql(query)
            frame.schema  # noqa: B018 - a Connect client analyses only when asked
            return frame
    except AnalysisException as error:
        raise refusal(error) from error


def refusal(error: AnalysisException) -> AnalysisError:
    """The error of this library that says what Spark's says."""
    return AnalysisError(
        error.getCondition() or "DELTAMERGE_ANALYSIS_FAILED",
        plain_message(str(error)),
        parameters=dict(error.getMessageParameters() or {}),
    )
