"""What an UPDATE writes to CHAR and VARCHAR columns: too many blanks at the end are cut off, a CHAR gets its blanks.

A MERGE does neither. Source: Spark's CharVarcharCodegenUtils, which delta-spark's UPDATE goes through and its MERGE does not.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import Column
from pyspark.sql import functions as F

from deltamerge.protocol.schema.char_varchar import CharVarchar
from deltamerge.spark.expressions.expression import Expression


def fitted(value: Expression, sized: CharVarchar) -> Expression:
    """The value as an UPDATE writes it; what is too long without its blanks stays so, and is refused where it is written."""
    return replace(value, build=lambda: _fitted(value.column, sized), tree=None, type=None)


def _fitted(value: Column, sized: CharVarchar) -> Column:
    """The value is computed once: it may be another one each time."""

    def fit(text: Column) -> Column:
        shortened = F.when(F.rtrim(F.substring(text, sized.length + 1, 2**31 - 1)) == "", F.substring(text, 1, sized.length))
        long = F.length(text) > sized.length
        return F.when(long, F.coalesce(shortened, text)).otherwise(F.rpad(text, sized.length, " ") if sized.padded else text)

    return F.get(F.transform(F.array(value.cast("string")), fit), F.lit(0))
