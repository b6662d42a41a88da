"""A condition that a table is to get as a CHECK constraint: is it one, and which rows do not meet it?"""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from deltamerge.errors import AnalysisError
from deltamerge.protocol.schema.types import StructType
from deltamerge.spark.expressions.analysis import empty_frame, parsed, plain_message
from deltamerge.spark.expressions.expression import from_user
from deltamerge.spark.expressions.metadata_sql import columns_of, unfit
from deltamerge.spark.pyspark.quiet import quietly
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.jobs import collect
from deltamerge.spark.session.rows import bare_row
from deltamerge.spark.sql.allowed.functions import OF_CHECKS


def check_condition(spark: Session, schema: StructType, name: str, text: str) -> None:
    """Raise AnalysisError for what is no condition about the columns of a schema."""
    value = parsed(text, from_user).column
    rows = empty_frame(spark, schema)
    try:
        with quietly():
            # A join's condition takes no other rows and no other evaluation.
            type = rows.join(bare_row(spark), value.isNull(), "left_anti").select(value.alias("value")).schema["value"].dataType
    except AnalysisException as error:
        raise _unsupported(name, text, plain_message(str(error))) from error
    found = unfit(spark, text, OF_CHECKS, columns_of(spark, schema.names))
    if found is not None:
        raise _unsupported(name, text, f"it may not use {found}.")
    if type.simpleString() != "boolean":
        raise AnalysisError(
            "DELTA_NON_BOOLEAN_CHECK_CONSTRAINT",
            f"CHECK constraint '{name}' ({text}) should be a boolean expression, and is {type.simpleString()}.",
            parameters={"name": name, "expr": text},
        )


def _unsupported(name: str, text: str, cause: str) -> AnalysisError:
    return AnalysisError(
        "DELTA_UNSUPPORTED_EXPRESSION_CHECK_CONSTRAINT",
        f"{text} cannot be used in the CHECK constraint {name}: {cause}",
        parameters={"expression": text, "constraintName": name},
    )


def violating_rows(rows: Frame, text: str) -> int:
    """How many rows do not meet a condition; null does not. One job."""
    violated = ~F.coalesce(F.expr(text), F.lit(False))
    counted = collect(rows.where(violated).agg(F.count(F.lit(1)).alias("n")), "deltamerge: check rows for a new constraint")
    return int(counted["n"][0].as_py())
