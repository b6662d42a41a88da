"""The types of columns over a frame, also of texts without a collation: PySpark has no schema with such columns."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.errors import AnalysisException, PySparkValueError
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from deltamerge.errors import AnalysisError
from deltamerge.spark.session.frames import Frame

# What a Connect client is told of a text without a collation; a classic session can't tell the schema.
_UNKNOWN = "collate null"
# Any collation but the default one: a text that has it is cast to a STRING, as one without a collation must be.
_CAST = "UNICODE"


def column_types(frame: Frame, columns: Sequence[Column]) -> list[T.DataType]:
    """The types of columns over a frame; a text without a collation is one with some. Raises AnalysisException."""
    found = _types(frame, columns)
    return [_type(frame, column) for column in columns] if found is None else found


def _types(frame: Frame, columns: Sequence[Column]) -> list[T.DataType] | None:
    """The types of columns; None where a text, or one in another value, has no collation."""
    named = [column.alias(f"c{number}") for number, column in enumerate(columns)]
    try:
        fields = frame.select(F.lit(1).alias("one"), *named).schema.fields
    except PySparkValueError:
        return None
    types = [field.dataType for field in fields[1:]]
    return None if any(_UNKNOWN in type.simpleString() for type in types) else types


def _type(frame: Frame, column: Column) -> T.DataType:
    found = _types(frame, [column])
    if found is not None:
        return found[0]
    # What holds such a text, as a struct does, is refused by Spark: it has no order and no equality.
    if _is_text(frame, column):
        return T.StringType(_CAST)
    frame.where(column.eqNullSafe(column)).schema  # noqa: B018 - a Connect client analyses only when asked
    raise AnalysisError(
        "INDETERMINATE_COLLATION_IN_EXPRESSION",
        "A text within a value has no collation, for it comes of texts with several.",
        hint="Say which one it has: .. COLLATE UTF8_BINARY.",
    )


def _is_text(frame: Frame, column: Column) -> bool:
    try:
        frame.select(F.length(column)).schema  # noqa: B018 - a Connect client analyses only when asked
    except AnalysisException:
        return False
    return True
