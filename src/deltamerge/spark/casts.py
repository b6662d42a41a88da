"""Store assignment: an expression's value as a value of the column that it is written to.

As delta-spark writes under its ANSI policy: a value that does not fit is an error that names the column, whatever the
session's `spark.sql.ansi.enabled` says. Source: delta-spark's UpdateExpressionsSupport and CheckOverflowInTableWrite.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.errors import AnalysisException
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from deltamerge.errors import AnalysisError
from deltamerge.spark.expression import Expression
from deltamerge.spark.frames import Session
from deltamerge.spark.sqltext import united
from deltamerge.worker.refusal import Refused

_INTEGRAL = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_NUMERIC = (*_INTEGRAL, T.FloatType, T.DoubleType, T.DecimalType)
_NESTED = (T.StructType, T.ArrayType, T.MapType)


def assigned(value: Column, source: T.DataType, target: T.DataType, name: str) -> Column:
    """`value`, of Spark type `source`, as one of `target` for the column `name`; structs go by field names.

    Raises AnalysisError without a cast.
    """
    if same_type(source, target):
        return value
    if isinstance(source, T.NullType):
        return value.cast(target)
    if isinstance(source, T.StructType) and isinstance(target, T.StructType):
        return _struct(value, source, target, name)
    if isinstance(source, T.ArrayType) and isinstance(target, T.ArrayType):
        items = source.elementType, target.elementType
        return F.transform(value, lambda item: assigned(item, *items, name)).cast(target)
    if isinstance(source, T.MapType) and isinstance(target, T.MapType):
        keys, values = (source.keyType, target.keyType), (source.valueType, target.valueType)
        if not same_type(*keys):
            value = F.transform_keys(value, lambda key, _: assigned(key, *keys, name))
        if not same_type(*values):
            value = F.transform_values(value, lambda _, item: assigned(item, *values, name))
        return value.cast(target)
    if isinstance(target, _NESTED) or (isinstance(source, _NESTED) and not isinstance(target, T.StringType)):
        raise _no_cast(source, target, name)
    if isinstance(target, T.StringType) or _widens(source, target):
        return value.cast(target)
    tried = value.try_cast(target)
    failed = value.isNotNull() & tried.isNull()
    return F.when(failed, F.raise_error(_refusal(value, source, target, name)).cast(target)).otherwise(tried)


def _struct(value: Column, source: T.StructType, target: T.StructType, name: str) -> Column:
    """A struct rebuilt by its fields' names, compared without case; a null one stays null."""
    given = {field.name.lower(): field for field in source.fields}
    if len(given) != len(source) or set(given) != {field.name.lower() for field in target.fields}:
        raise _mismatch(source, target, name)
    fields = []
    for field in target.fields:
        found = given[field.name.lower()]
        inner = assigned(value.getField(found.name), found.dataType, field.dataType, f"{name}.{field.name}")
        fields.append(inner.alias(field.name))
    return F.when(value.isNotNull(), F.struct(*fields)).cast(target)


def rebuilt(
    column: Column, type: T.StructType, values: Mapping[tuple[str, ...], tuple[Column, T.DataType]], path: tuple[str, ...]
) -> Column:
    """The struct `column` at `path` with some of its fields given: a value and its type by the field's whole path."""
    fields = []
    for field in type.fields:
        here = (*path, field.name)
        inner = column.getField(field.name)
        if here in values:
            value, given = values[here]
            inner = assigned(value, given, field.dataType, ".".join(here))
        elif isinstance(field.dataType, T.StructType) and any(other[: len(here)] == here for other in values):
            inner = rebuilt(inner, field.dataType, values, here)
        fields.append(inner.alias(field.name))
    return F.struct(*fields)


def check_casts(spark: Session, casts: Iterable[tuple[T.DataType, T.DataType, str]]) -> None:
    """Raise AnalysisError for the first (source, target, column) between whose types no cast leads. No job runs."""
    for source, target, name in casts:
        if same_type(source, target):
            continue
        try:
            spark.range(0).select(assigned(F.lit(None).cast(source), source, target, name)).schema  # noqa: B018
        except AnalysisException as error:
            raise _no_cast(source, target, name, error.getCondition()) from error


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


def _no_cast(source: T.DataType, target: T.DataType, name: str, condition: str | None = None) -> AnalysisError:
    return AnalysisError(
        condition or "DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION",
        f"Cannot write a value of type {source.simpleString()} to the column {name} of type {target.simpleString()}.",
        parameters={"columnName": name, "sourceType": source.simpleString(), "targetType": target.simpleString()},
        hint="Convert the value explicitly, in the source or in the clause.",
    )


def _mismatch(source: T.DataType, target: T.DataType, name: str) -> AnalysisError:
    return AnalysisError(
        "DELTA_UPDATE_SCHEMA_MISMATCH_EXPRESSION",
        f"Cannot cast {source.simpleString()} to {target.simpleString()} for the column {name}. All nested columns must match.",
        parameters={"columnName": name, "fromCatalog": source.simpleString(), "toCatalog": target.simpleString()},
        hint="Cast or rebuild the value in the source so that its type is the column's.",
    )


def with_fields(
    column: Expression, type: T.DataType, values: Mapping[tuple[str, ...], tuple[Expression, T.DataType]], path: tuple[str, ...]
) -> Expression:
    """The struct `column` at `path` with some of its fields given, by their whole paths; the others stay.

    A null struct becomes one of nulls and what is given.
    """
    assert isinstance(type, T.StructType)
    parts = [column, *(value for value, _ in values.values())]
    columns = {place: (value.column, given) for place, (value, given) in values.items()}
    text = ", ".join(f"{'.'.join(place)} = {value.text}" for place, (value, _) in values.items())
    return Expression(rebuilt(column.column, type, columns, path), text, None, united(part.words for part in parts))
