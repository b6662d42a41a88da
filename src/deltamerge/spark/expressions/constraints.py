"""What a table requires of written rows, evaluated by Spark: generated columns computed, constraints checked.

Source of the behaviour: delta-spark's CheckDeltaInvariant and ColumnWithDefaultExprUtils.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.errors import AnalysisException
from pyspark.sql import Column
from pyspark.sql import functions as F

from deltamerge.errors import ConstraintError
from deltamerge.protocol.schema.types import StructType
from deltamerge.protocol.table.constraints import Check, TableConstraints
from deltamerge.spark.expressions.analysis import empty_frame, plain_message
from deltamerge.spark.expressions.time import Clock
from deltamerge.spark.plans.attributes import quoted
from deltamerge.spark.pyspark.quiet import quietly
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.schema import spark_type
from deltamerge.spark.sql.text import united, words_of
from deltamerge.worker.scan.row_errors import Refused


def with_constraints(
    rows: Frame,
    schema: StructType,
    constraints: TableConstraints,
    computed: Mapping[str, Column],
    written: Column,
    clock: Clock | None = None,
) -> Frame:
    """Rows with their generated columns, refused when one violates a check; columns are found by the schema's names.

    `computed` says for which rows a generated column is computed; in others it was given, and must fit. `written` says
    which rows are written at all: nothing is required of others. Expressions that ask for the time get that of the `clock`.
    """
    texts = {name: clock.text(text) if clock else text for name, text in constraints.generated}
    types = {field.name: spark_type(field.type) for field in schema}
    columns = []
    for name in rows.columns:
        column = F.col(quoted(name))
        if name in computed:
            column = F.when(computed[name], F.expr(texts[name]).cast(types[name])).otherwise(column).alias(name)
        columns.append(column)
    rows = rows.select(*columns)
    fitting = [(name, f"CAST({text} AS {types[name].simpleString()})") for name, text in texts.items()]
    # A value of each row carries the checks: a filter would be pushed below a join, to rows that are never written.
    carrier = next(name for name in rows.columns if name in types)
    carried = F.col(quoted(carrier))
    computes = [Check("Generated Column", f"{quoted(name)} <=> {value}") for name, value in fitting]
    for check in reversed([*constraints.checks, *computes]):  # the first is asked first
        violated = written & ~F.coalesce(F.expr(clock.text(check.text) if clock else check.text), F.lit(False))
        carried = F.when(violated, F.raise_error(_refusal(check, schema)).cast(types[carrier])).otherwise(carried)
    return rows.select(*[carried.alias(name) if name == carrier else F.col(quoted(name)) for name in rows.columns])


def check_constraints(spark: Session, schema: StructType, constraints: TableConstraints) -> None:
    """Raise ConstraintError, before any job, for a check that is about a column that the table lacks, or can't be evaluated."""
    if not constraints.checks:
        return
    rows = empty_frame(spark, schema)
    for check in constraints.checks:
        try:
            with quietly():
                rows.select(F.expr(check.text)).schema  # noqa: B018 - a Connect client analyses only when asked
        except AnalysisException as error:
            raise met_by_no_row(check, plain_message(str(error))) from error


def met_by_no_row(check: Check, cause: str) -> ConstraintError:
    """The error for a check that can't be evaluated over rows of its table."""
    return ConstraintError(
        "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES",
        f"No row can meet the CHECK constraint {check.name} ({check.text}): {cause}",
        parameters={"constraintName": check.name, "expression": check.text},
        hint="Drop the constraint, or add the column that it is about.",
    )


def columns_in(schema: StructType, texts: list[str]) -> list[str]:
    """Names of the columns that expressions may use; all of them where that can't be said."""
    words = united(map(words_of, texts))
    return [name for name in schema.names if words is None or name.lower() in words]


def _refusal(check: Check, schema: StructType) -> Column:
    """The text by which the driver learns which row violates which check."""
    values = [
        F.concat(F.lit(f"\n - {name} : "), F.coalesce(F.col(quoted(name)).cast("string"), F.lit("null")))
        for name in columns_in(schema, [check.text])
    ]
    fields = {
        "condition": F.lit("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"),
        "message": F.concat(F.lit(f"CHECK constraint {check.name} ({check.text}) violated by row with values:"), *values),
        "parameters": F.array(F.lit(check.name), F.lit(check.text)),
    }
    return F.concat(F.lit(Refused.MARK), F.to_json(F.struct(*[column.alias(key) for key, column in fields.items()])))
