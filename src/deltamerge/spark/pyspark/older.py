"""What PySpark 3.5 lacks of PySpark 4.0's interface, by its private parts.

The functions take 4.0's way where there is one. It and the adapter alone look behind PySpark's public interface.
"""

from __future__ import annotations

import copyreg
import dataclasses
import json
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from sqlglot import exp

from deltamerge.errors import InvalidArgumentError
from deltamerge.spark.plans.trees import Read, call, dotted, literal, opaque, opaque_query
from deltamerge.spark.pyspark.nodes import attribute, java_list

IS_OLDER = not hasattr(DataFrame, "toArrow")
# Whether Spark's reader takes files of a narrower type for the wider one that their column has.
READS_WIDENED = not IS_OLDER
# isinstance(type, ()) holds for no type.
VARIANT_TYPE: Any = getattr(T, "VariantType", ())
_INTERVALS = ("YearMonthIntervalType", "CalendarIntervalType", "DayTimeIntervalType")
INTERVALS: Any = tuple(getattr(T, name) for name in _INTERVALS if hasattr(T, name))
_NEWER = "Use PySpark 4.0 or later."


def _by_name(mark: Any) -> tuple[Any, ...]:
    return getattr, (dataclasses, mark.name)


if IS_OLDER:
    # What dataclasses tells fields by is one object each, of which the pickler of 3.5 would make copies: no field would be one.
    copyreg.pickle(type(vars(dataclasses)["_FIELD"]), _by_name)


def condition_of(error: Exception) -> str | None:
    """The condition that an error of PySpark, or of this library, names; None where it names none."""
    given: Any = error
    if hasattr(given, "getCondition"):
        found = given.getCondition()
    else:
        found = given.getErrorClass() if isinstance(error, PySparkException) else None
    return None if found is None else str(found)


def refuse_older(what: str, hint: str = _NEWER) -> None:
    """Raise InvalidArgumentError for what this PySpark is too old for."""
    if IS_OLDER:
        raise InvalidArgumentError(
            "DELTAMERGE_NEEDS_PYSPARK_4",
            f"{what} needs PySpark 4.0 or later.",
            parameters={"feature": what},
            hint=hint,
        )


def struct_of(text: str) -> T.StructType:
    """The columns that SQL text has, as `StructType.fromDDL` reads them."""
    given: Any = T
    return given._parse_datatype_string(text) if IS_OLDER else given.StructType.fromDDL(text)  # type: ignore[no-any-return]


def all_settings(spark: SparkSession) -> dict[str, str]:
    """The session's settings, as `spark.conf.getAll` gives them."""
    given: Any = spark.conf
    if not IS_OLDER:
        return dict(given.getAll)
    pairs = str(given._jconf.getAll().mkString("\0")).split("\0")  # a call for each setting would take as long as a small merge
    return {name: value for name, _, value in (pair.partition(" -> ") for pair in pairs)}


def rebalanced(frame: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """The frame with the hint to have rows with the same values of columns come together."""
    hidden: Any = frame
    if not IS_OLDER or not columns:
        found: DataFrame = hidden.hint("rebalance", *columns)
        return found
    return DataFrame(hidden._jdf.hint("rebalance", hidden._jseq([parts_of(column) for column in columns])), frame.sparkSession)


def _jvm() -> Any:
    from pyspark import SparkContext  # a PySpark that is a client only has none

    context: Any = SparkContext
    return context._jvm


def qualified(name: str, field: T.StructField, qualifier: str) -> Column:
    """A column of a frame of 3.5 as a field that goes by a qualifier, too, without a subquery of that name."""
    jvm = _jvm()
    packages = jvm.org.apache.spark.sql
    expressions = packages.catalyst.expressions
    metadata = jvm.scala.Some(packages.types.Metadata.fromJson(json.dumps(field.metadata)))
    id = getattr(getattr(expressions, "NamedExpression$"), "MODULE$").newExprId()
    qualifiers, none = (jvm.PythonUtils.toSeq(names) for names in ([qualifier], []))
    alias = expressions.Alias(parts_of(F.col(name)), field.name, id, qualifiers, metadata, none)
    return Column(made_of(alias, jvm))


def tried_cast(column: Column, type: T.DataType) -> Column:
    """A Column as another type, null where its value can't be: `Column.try_cast`."""
    hidden: Any = column
    if not IS_OLDER:
        return hidden.try_cast(type)  # type: ignore[no-any-return]
    jvm = _jvm()
    packages = jvm.org.apache.spark.sql
    kind = packages.types.DataType.fromJson(type.json())
    expressions = packages.catalyst.expressions
    cast = expressions.Cast(parts_of(column), kind, jvm.scala.Option.empty(), expressions.EvalMode.TRY())
    return Column(made_of(cast, jvm))


def arrow_rows(frame: DataFrame) -> pa.Table:
    """The rows of a frame, as `DataFrame.toArrow` gives them."""
    hidden: Any = frame
    if not IS_OLDER:
        return hidden.toArrow()
    schema = to_arrow_schema(frame.schema)
    return pa.Table.from_batches(hidden._collect_as_arrow() or [pa.RecordBatch.from_pylist([], schema)]).cast(schema)


def arrow_frame(spark: SparkSession, table: pa.Table, schema: T.StructType | None = None) -> DataFrame:
    """An Arrow table as a frame, as `createDataFrame` makes it."""
    given: Any = spark
    if not IS_OLDER:
        found: DataFrame = given.createDataFrame(table) if schema is None else given.createDataFrame(table, schema=schema)
        return found
    from pyspark.sql.pandas.serializers import ArrowStreamSerializer  # a PySpark that is a client only has none

    wanted = from_arrow_schema(table.schema) if schema is None else schema
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    columns = [_localized(column, field.dataType, zone) for column, field in zip(table.columns, wanted.fields, strict=True)]
    arrow = to_arrow_schema(wanted)
    batches = pa.table(columns, names=arrow.names).cast(arrow).to_batches(max_chunksize=given._jconf.arrowMaxRecordsPerBatch())
    jvm = given._jvm
    rows = given._sc._serialize_to_jvm(
        batches, ArrowStreamSerializer(), jvm.PythonSQLUtils.readArrowStreamFromFile, jvm.ArrowIteratorServer
    )
    return DataFrame(jvm.PythonSQLUtils.toDataFrame(rows, wanted.json(), given._jsparkSession), given)


def _localized(column: pa.ChunkedArray, type: T.DataType, zone: str) -> pa.ChunkedArray:
    """A column of times without a zone as instants in the session's zone, and the other way round, as its new type asks."""
    if not pa.types.is_timestamp(column.type):
        return column
    if isinstance(type, T.TimestampType) and column.type.tz is None:
        return pc.assume_timezone(column, zone, ambiguous="earliest", nonexistent="latest")
    if isinstance(type, T.TimestampNTZType) and column.type.tz is not None:
        return pc.local_timestamp(column.cast(pa.timestamp(column.type.unit, zone)))
    return column


# A Column of PySpark 3.5 is made of Catalyst's expressions, for which 4.0 has nodes (`nodes.py`). F.expr has read its text.


def parts_of(column: Any) -> Any:
    """What a Column is made of."""
    return column._jc.expr()


def made_of(part: Any, jvm: Any) -> Any:
    """The JVM's Column that is made of a part."""
    return jvm.org.apache.spark.sql.Column(part)


def part_name(part: Any) -> tuple[Any, list[str]] | None:
    """The mark of the column that a part names, None where it is bound to no frame, and the parts of its name."""
    return (None, java_list(part.nameParts())) if _kind(part) == "UnresolvedAttribute" else attribute(part)


def part_sql(part: Any) -> str | None:
    """The SQL text that a part is."""
    return None


def star_of(part: Any) -> str | None:
    """The SQL text of the star that a part is."""
    return "*" if _kind(part) == "UnresolvedStar" else None


def star_counts(part: Any) -> bool:
    """Whether a part counts rows by a star: no part does, which has become a count of ones."""
    return False


def part_text(part: Any) -> str | None:
    """A part as SQL text, where it is a name of one word, or a function of no argument or of a whole number."""
    kind = _kind(part)
    if kind == "UnresolvedAttribute":
        names = java_list(part.nameParts())
        return str(names[0]) if len(names) == 1 and str(names[0]).isidentifier() else None
    children = java_list(part.children())
    plain = len(children) < 2 and all(_kind(child) == "Literal" and isinstance(child.value(), int) for child in children)
    return str(part.sql()) if plain and kind not in ("Literal", "AttributeReference") else None


def part_tree(part: Any, seen: Read) -> exp.Expression:
    """A part's tree in sqlglot's terms."""
    kind = _kind(part)
    if kind == "UnresolvedAttribute":
        return dotted(java_list(part.nameParts()))
    if attribute(part) is not None:
        return opaque(bound=True)
    if kind == "Alias":
        return part_tree(part.child(), seen)
    if kind == "Literal":
        return literal(_plain_value(part))
    if kind == "UnresolvedStar":
        return exp.Star()
    if kind in _OPERATORS:
        return call(_OPERATORS[kind], [part_tree(child, seen) for child in java_list(part.children())])
    if kind == "UnresolvedFunction":
        name = ".".join(java_list(part.nameParts()))
        return call(name, [part_tree(child, seen) for child in java_list(part.children())])
    return opaque() if _SUBQUERIES.isdisjoint(_kinds(part)) else opaque_query()


_OPERATORS = {
    "EqualTo": "=",
    "EqualNullSafe": "<=>",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "And": "and",
    "Or": "or",
    "Not": "not",
    "In": "in",
    "IsNull": "isnull",
    "IsNotNull": "isnotnull",
}
_SUBQUERIES = frozenset({"ScalarSubquery", "Exists", "ListQuery", "InSubquery", "LateralSubquery"})


def _plain_value(part: Any) -> Any:
    """The value of a literal, where it is a truth value, a whole number or a text."""
    type = str(part.dataType().typeName())
    value = part.value()
    if type == "string" and value is not None:
        return str(value.toString())
    return value if type in ("boolean", "integer", "long", "short", "byte", "tinyint", "smallint", "bigint") else None


def _kinds(part: Any) -> set[str]:
    return {_kind(part)}.union(*map(_kinds, java_list(part.children())))


def mapped_part(part: Any, visit: Callable[[Any], Any], jvm: Any) -> Any:
    """A part with those of its own parts replaced for which `visit` gives another one."""
    found = visit(part)
    if found is not None:
        return found
    children = java_list(part.children())
    if not children or attribute(part) is not None:
        return part
    return part.withNewChildren(jvm.PythonUtils.toSeq([mapped_part(child, visit, jvm) for child in children]))


def mapped_call(part: Any, visit: Callable[[Any], Any], jvm: Any) -> Any:
    """None: `mapped_part` looks into all calls."""
    return None


def _kind(part: Any) -> str:
    return str(part.getClass().getSimpleName())
