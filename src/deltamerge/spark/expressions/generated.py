"""Whether the expressions of generated columns can be computed from a row's other columns. No job runs.

Source of the behaviour: delta-spark's GeneratedColumn.validateGeneratedColumns.
"""

from __future__ import annotations

from typing import NoReturn

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from deltamerge.errors import AnalysisError
from deltamerge.protocol.schema.types import StructType, has_variant
from deltamerge.protocol.table.constraints import constraints_of
from deltamerge.spark.expressions.analysis import empty_frame, parsed, plain_message
from deltamerge.spark.expressions.expression import from_user
from deltamerge.spark.expressions.metadata_sql import columns_of, given_names, unfit
from deltamerge.spark.pyspark.older import condition_of
from deltamerge.spark.pyspark.quiet import quietly
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.rows import bare_row
from deltamerge.spark.session.schema import nullable_type, spark_type
from deltamerge.spark.sql.allowed.functions import OF_DEFAULTS, OF_ROWS
from deltamerge.spark.sql.clock import CLOCKS
from deltamerge.spark.sql.text import words_of

_CONDITIONS = {
    "INVALID_NON_DETERMINISTIC_EXPRESSIONS": (
        "DELTA_NON_DETERMINISTIC_EXPRESSION_IN_GENERATED_COLUMN",
        "Found a non-deterministic expression in the generated column {}: {}.",
    ),
    "UNRESOLVED": (
        "DELTA_INVALID_GENERATED_COLUMN_REFERENCES",
        "The generated column {} can't be {}: a generated column cannot use a non-existent column or another generated column.",
    ),
}
# delta-spark takes none of them in a generated column.
_OF_VARIANTS = frozenset({"variant_get", "try_variant_get"})
_OTHER = ("DELTA_UNSUPPORTED_EXPRESSION_GENERATED_COLUMN", "The generated column {} can't be {}.")


def check_generated(spark: Session, schema: StructType) -> None:
    """Raise AnalysisError for a generated column that is no value of the row's other columns, or has another type."""
    generated = dict(constraints_of(schema, {}).generated)
    if not generated:
        return
    rows = empty_frame(spark, StructType(tuple(field for field in schema if field.name not in generated)))
    columns = columns_of(spark, given_names(schema))
    for name, text in generated.items():
        value = parsed(text, from_user).column
        words = words_of(text) or frozenset[str]()
        if words & _OF_VARIANTS:
            _refuse("", name, text)
        if words & set(CLOCKS):
            _refuse("INVALID_NON_DETERMINISTIC_EXPRESSIONS", name, text)
        try:
            with quietly():
                # Unlike a projection, a join's condition takes no other rows and no other evaluation.
                rows = rows.join(bare_row(spark), value.isNull(), "left_anti")
                found = rows.select(F.lit(1), value.alias("value")).schema["value"].dataType
        except AnalysisException as error:
            _refuse(condition_of(error) or "", name, text, error)
        if unfit(spark, text, OF_ROWS) is not None:
            _refuse("", name, text)
        other = unfit(spark, text, OF_ROWS, columns)
        if other is not None:
            _refuse("" if other.lower() in OF_DEFAULTS else "UNRESOLVED", name, text)
        field = schema.find(name)
        assert field is not None
        wanted = spark_type(field.type)
        if has_variant(field.type):
            raise AnalysisError(
                "DELTA_UNSUPPORTED_DATA_TYPE_IN_GENERATED_COLUMN",
                f"{wanted.simpleString().upper()} cannot be the result of a generated column.",
                parameters={"columnName": name, "dataType": wanted.simpleString()},
                hint="Generate a column of another type, or write the value itself.",
            )
        if nullable_type(found) != nullable_type(wanted):
            raise AnalysisError(
                "DELTA_GENERATED_COLUMNS_EXPR_TYPE_MISMATCH",
                f"The expression type of the generated column {name} is {found.simpleString()}, "
                f"but the column type is {wanted.simpleString()}.",
                parameters={"columnName": name, "expressionType": found.simpleString(), "columnType": wanted.simpleString()},
                hint=f"CAST({text} AS {wanted.simpleString().upper()})",
            )


def _refuse(condition: str, name: str, text: str, error: AnalysisException | None = None) -> NoReturn:
    found = next((pair for begin, pair in _CONDITIONS.items() if condition.startswith(begin)), _OTHER)
    detail = "" if error is None else f" {plain_message(str(error))}"
    raise AnalysisError(
        found[0], found[1].format(name, text) + detail, parameters={"columnName": name, "expression": text}
    ) from error
