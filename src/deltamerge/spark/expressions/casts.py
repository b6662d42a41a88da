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
from deltamerge.spark.expressions.expression import Expression
from deltamerge.spark.pyspark.older import condition_of, tried_cast
from deltamerge.spark.pyspark.quiet import quietly
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.schema import nullable_type
from deltamerge.spark.sql.text import united
from deltamerge.worker.scan.row_errors import Refused

_INTEGRAL = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_NUMERIC = (*_INTEGRAL, T.FloatType, T.DoubleType, T.DecimalType)
_NESTED = (T.StructType, T.ArrayType, T.MapType)


def assigned(value: Column, source: T.DataType, target: T.DataType, name: str) -> Column:
    """`value`, of Spark type `source`, as one of `target` for the column `name`; structs go by field names.

    Nulls are allowed everywhere: whether the column takes them is seen row by row. Raises AnalysisError without a cast.
    """
    target = nullable_type(target)
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
    tried = tried_cast(value, target)
    failed = value.isNotNull() & tried.isNull()
    return F.when(failed, F.raise_error(_refusal(value, source, target, name)).cast(target)).otherwise(tried)


def _struct(value: Column, source: T.StructType, target: T.StructType, name: str) -> Column:
    """A struct rebuilt by its fields' names, compared without case; a null one stays null, a missing field is null."""
    given = {field.name.lower(): field for field in source.fields}
    if len(given) != len(source) or not set(given) <= {field.name.lower() for field in target.fields}:
        raise _mismatch(source, target, name)
    fields = []
    for field in target.fields:
        found = given.get(field.name.lower())
        if found is None:
            inner = F.lit(None).cast(field.dataType)
        else:
            inner = assigned(value.getField(found.name), found.dataType, field.dataType, f"{name}.{field.name}")
        fields.append(inner.alias(field.name))
    return F.when(value.isNotNull(), F.struct(*fields)).cast(target)


def kept(value: Column, source: T.DataType, target: T.DataType, old: Column, old_type: T.DataType, name: str) -> Column:
    """`value` as `assigned` makes it of `target`, except that struct fields which it does not have stay as they are in `old`.

    As delta-spark's `UPDATE SET *` under schema evolution: a null struct is one of nulls where such a field must be kept.
    """
    if not (isinstance(source, T.StructType) and isinstance(target, T.StructType) and isinstance(old_type, T.StructType)):
        return assigned(value, source, target, name)
    if not lacks_fields(source, target):
        return assigned(value, source, target, name)
    given = {field.name.lower(): field for field in source.fields}
    had = {field.name.lower(): field for field in old_type.fields}
    fields = []
    for field in target.fields:
        found, before = given.get(field.name.lower()), had.get(field.name.lower())
        place = f"{name}.{field.name}"
        if found is not None and before is not None:
            parts = value.getField(found.name), old.getField(before.name)
            inner = kept(parts[0], found.dataType, field.dataType, parts[1], before.dataType, place)
        elif found is not None:
            inner = assigned(value.getField(found.name), found.dataType, field.dataType, place)
        elif before is not None:
            inner = assigned(old.getField(before.name), before.dataType, field.dataType, place)
        else:
            inner = F.lit(None).cast(field.dataType)
        fields.append(inner.alias(field.name))
    return F.when(value.isNotNull() | old.isNotNull(), F.struct(*fields)).cast(nullable_type(target))


def lacks_fields(source: T.DataType, target: T.DataType) -> bool:
    """Whether a struct has no value for some field of the target, at any level of structs in structs."""
    if not isinstance(source, T.StructType) or not isinstance(target, T.StructType):
        return False
    given = {field.name.lower(): field.dataType for field in source.fields}
    return any(f.name.lower() not in given or lacks_fields(given[f.name.lower()], f.dataType) for f in target.fields)


def _set_fields(
    column: Column | None,
    old: T.DataType,
    type: T.StructType,
    values: Mapping[tuple[str, ...], tuple[Column, T.DataType]],
    path: tuple[str, ...],
) -> Column:
    """The struct `column` (None: there is none yet) at `path` with some of its fields given: value and type by whole path."""
    had = {field.name: field.dataType for field in old.fields} if isinstance(old, T.StructType) else {}
    fields = []
    for field in type.fields:
        here = (*path, field.name)
        before = None if column is None or field.name not in had else column.getField(field.name)
        if here in values:
            value, given = values[here]
            inner = assigned(value, given, field.dataType, ".".join(here))
        elif isinstance(field.dataType, T.StructType) and any(other[: len(here)] == here for other in values):
            inner = _set_fields(before, had.get(field.name, T.NullType()), field.dataType, values, here)
        elif before is None:
            inner = F.lit(None).cast(field.dataType)
        else:
            inner = assigned(before, had[field.name], field.dataType, ".".join(here))
        fields.append(inner.alias(field.name))
    return F.struct(*fields)


def check_casts(spark: Session, casts: Iterable[tuple[T.DataType, T.DataType, str]], fills: bool = False) -> None:
    """Raise AnalysisError for the first (source, target, column) between whose types no cast leads. No job runs.

    `fills` says that a struct may lack fields of the target's.
    """
    for source, target, name in casts:
        if same_type(source, target):
            continue
        if not fills and _lacks_anywhere(source, target):
            raise _mismatch(source, target, name)
        try:
            with quietly():
                spark.range(0).select(assigned(F.lit(None).cast(source), source, target, name)).schema  # noqa: B018
        except AnalysisException as error:
            raise _no_cast(source, target, name, condition_of(error)) from error


def _lacks_anywhere(source: T.DataType, target: T.DataType) -> bool:
    """Whether a struct anywhere in a type, also in arrays and maps, lacks fields of the target's."""
    if isinstance(source, T.StructType) and isinstance(target, T.StructType):
        given = {field.name.lower(): field.dataType for field in source.fields}
        return any(f.name.lower() not in given or _lacks_anywhere(given[f.name.lower()], f.dataType) for f in target.fields)
    if isinstance(source, T.ArrayType) and isinstance(target, T.ArrayType):
        return _lacks_anywhere(source.elementType, target.elementType)
    if isinstance(source, T.MapType) and isinstance(target, T.MapType):
        return _lacks_anywhere(source.keyType, target.keyType) or _lacks_anywhere(source.valueType, target.valueType)
    return False


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
    column: Expression | None,
    old: T.DataType,
    type: T.DataType,
    values: Mapping[tuple[str, ...], tuple[Expression, T.DataType]],
    path: tuple[str, ...],
) -> Expression:
    """The struct `column` at `path`, of type `old`, as one of `type` with some of its fields given, by their whole paths.

    The others stay, and are null where `old` lacks them. A null struct, or none (`column` is None), becomes one of nulls and
    what is given.
    """
    assert isinstance(type, T.StructType)
    parts = [*([column] if column else []), *(value for value, _ in values.values())]
    columns = {place: (value.column, given) for place, (value, given) in values.items()}
    text = ", ".join(f"{'.'.join(place)} = {value.text}" for place, (value, _) in values.items())
    made = _set_fields(column.column if column else None, old, type, columns, path)
    return Expression(lambda: made, text, None, united(part.words for part in parts))


def keeping(
    value: Expression, source: T.DataType, target: T.DataType, old: Expression, old_type: T.DataType, name: str
) -> Expression:
    """`kept` for expressions: one of type `target`."""
    column = kept(value.column, source, target, old.column, old_type, name)
    return Expression(lambda: column, value.text, None, united([value.words, old.words]))
