"""Predicates that stand alone: the text of a condition over a table's columns."""

from __future__ import annotations

import re

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions as F

from deltamerge.errors import AnalysisError
from deltamerge.protocol.schema.types import StructType
from deltamerge.spark.expressions.analysis import empty_frame, plain_message
from deltamerge.spark.expressions.expression import Expression, from_user
from deltamerge.spark.pyspark.adapter import extended_plan
from deltamerge.spark.pyspark.older import condition_of
from deltamerge.spark.pyspark.quiet import quietly
from deltamerge.spark.session.frames import Session

_PARSED = re.compile(r"== Parsed Logical Plan ==\n'?Filter (.*?)\n\+- '?(?:Project|Local|Logical)\w*\b", re.DOTALL)
_ABRIDGED = re.compile(r"\.\.\. \d+ more fields")


def printed_predicate(spark: Session, schema: StructType, text: str) -> str:
    """A condition as Spark prints what it has parsed, `('p = a)` for `p = 'a'`; the text itself where Spark abridges that."""
    found = _PARSED.match(extended_plan(empty_frame(spark, schema).where(F.expr(text))))
    return text if found is None or _ABRIDGED.search(found[1]) else found[1]


def predicate_of(spark: Session, schema: StructType, text: str) -> Expression:
    """The expression of a text. Raises AnalysisError for one that does not parse, or is about what the schema does not have."""
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
    except AnalysisException as error:
        raise AnalysisError(
            condition_of(error) or "DELTAMERGE_ANALYSIS_FAILED",
            f"Cannot resolve the predicate {text!r}: {plain_message(str(error))}",
            parameters={"predicate": text},
            hint=f"The table has the columns {', '.join(schema.names)}.",
        ) from error
    return predicate
