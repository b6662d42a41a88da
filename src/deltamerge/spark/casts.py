"""Store assignment: an expression's value as a value of the column that it is written to.

As delta-spark writes under its ANSI policy: a value that does not fit is an error that names the column, whatever the
session's `spark.sql.ansi.enabled` says. Source: delta-spark's UpdateExpressionsSupport and CheckOverflowInTableWrite.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.errors import AnalysisException
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from deltamerge.errors import AnalysisError
from deltamerge.spark.frames import Session
from deltamerge.worker.refusal import Refused

_INTEGRAL = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_NUMERIC = (*_INTEGRAL, T.FloatType, T.DoubleType, T.DecimalType)
_NESTED = (T.StructType, T.ArrayType, T.MapType)


def assigned(value: Column, source: T.DataType, target: T.DataType, name: str) -> Column:
    """`value`, of Spark type `source`, as one of `target` for the column `name`. Raises AnalysisError without a cast."""
    if same_type(source, target):
        return value
    if isinstance(source, T.NullType):
        return value.cast(target)
    if isinstance(target, _NESTED) or (isinstance(source, _NESTED) and not isinstance(target, T.StringType)):
        raise _mismatch(source, target, name)
    if isinstance(target, T.StringType) or _widens(source, target):
        return value.cast(target)
    tried = value.try_cast(target)
    failed = value.isNotNull() & tried.isNull()
    return F.when(failed, F.raise_error(_refusal(value, source, target, name)).cast(target)).otherwise(tried)


def check_casts(spark: Session, casts: Iterable[tuple[T.DataType, T.DataType, str]]) -> None:
    """Raise AnalysisError for the first (source, target, column) between whose types no cast leads. No job runs."""
    for source, target, name in casts:
        if same_type(source, target):
            continue
        try:
            spark.range(0).select(assigned(F.lit(None).cast(source), source, target, name)).schema  # noqa: B018
        except AnalysisException as error:
            raise AnalysisError(
                error.getCondition() or "DATATYPE_MISMATCH",
                f"Cannot write a value of type {source.simpleString()} to the column {name} of type {target.simpleString()}.",
                parameters={"columnName": name, "sourceType": source.simpleString(), "targetType": target.simpleString()},
                hint="Convert the value explicitly, in the source or in the clause.",
            ) from error


def same_type(a: T.DataType, b: T.DataType) -> bool:
    """Whether two types hold the same values: nullability and metadata aside."""
    if isinstance(a, T.StructType) and isinstance(b, T.StructType):
        pairs = zip(a.fields, b.fields, strict=False)
        return len(a) == len(b) and all(x.name == y.name and same_type(x.dataType, y.dataType) for x, y in pairs)
    if isinstance(a, T.ArrayType) and isinstance(b, T.ArrayType):
        return same_type(a.elementType, b.elementType)
    if isinstance(a, T.MapType) and isinstance(b, T.MapType):
        return same_type(a.keyType, b.keyType) and same_type(a.valueType, b.valueType)
    return a == b


def _widens(source: T.DataType, target: T.DataType) -> bool:
    """Whether every value of one numeric type is one of the other's."""
    if isinstance(source, _INTEGRAL) and isinstance(target, _INTEGRAL):
        return _INTEGRAL.index(type(source)) <= _INTEGRAL.index(type(target))
    if isinstance(source, _NUMERIC) and isinstance(target, T.DoubleType | T.FloatType):
        return True
    if isinstance(source, T.DecimalType) and isinstance(target, T.DecimalType):
        return target.scale >= source.scale and target.precision - target.scale >= source.precision - source.scale
    return False


def _refusal(value: Column, source: T.DataType, target: T.DataType, name: str) -> Column:
    """The text by which the driver learns which value did not fit into which column."""
    numbers = isinstance(source, _NUMERIC) and isinstance(target, _NUMERIC)
    condition = "DELTA_CAST_OVERFLOW_IN_TABLE_WRITE" if numbers else "CAST_INVALID_INPUT"
    types = f"{source.simpleString()} type into the {target.simpleString()} type column {name}"
    reason = "due to an overflow" if numbers else "because it is malformed"
    message = F.concat(F.lit("Failed to write the value "), value.cast("string"), F.lit(f" of {types} {reason}."))
    fields = {
        "condition": F.lit(condition),
        "message": message,
        "parameters": F.array(F.lit(source.simpleString()), F.lit(target.simpleString()), F.lit(name)),
    }
    body = F.to_json(F.struct(*[column.alias(key) for key, column in fields.items()]))
    return F.concat(F.lit(Refused.MARK), body)


def _mismatch(source: T.DataType, target: T.DataType, name: str) -> AnalysisError:
    return AnalysisError(
        "DELTA_UPDATE_SCHEMA_MISMATCH_EXPRESSION",
        f"Cannot cast {source.simpleString()} to {target.simpleString()} for the column {name}. All nested columns must match.",
        parameters={"columnName": name, "fromCatalog": source.simpleString(), "toCatalog": target.simpleString()},
        hint="Cast or rebuild the value in the source so that its type is the column's.",
    )
