"""Predicates that stand alone: the text of a condition over a table's columns."""

from __future__ import annotations

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions as F

from deltamerge.errors import AnalysisError
from deltamerge.protocol.schema.types import StructType
from deltamerge.spark.expressions.analysis import empty_frame
from deltamerge.spark.expressions.expression import Expression, from_user
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.quiet import quietly


def predicate_of(spark: Session, schema: StructType, text: str) -> Expression:
    """The expression of a text. Raises AnalysisError for one that does not parse; its names are left to whoever evaluates it."""
    try:
        with quietly():
            predicate = from_user(text)
            empty_frame(spark, schema).select(F.expr(text)).schema  # noqa: B018 - a Connect client parses only when asked
    except ParseException as error:
        raise AnalysisError(
            "DELTA_FAILED_RECOGNIZE_PREDICATE",
            f"Cannot recognize the predicate {text!r}.",
            parameters={"predicate": text},
            hint="Write a condition over the table's columns, for example: day >= '2024-01-01'.",
        ) from error
    except AnalysisException:
        return from_user(text)
    return predicate
