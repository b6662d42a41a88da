"""SQL that a table's metadata carries: refused, before any job, where it does more than compute a value of the row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from deltamerge.errors import AnalysisError
from deltamerge.protocol.schema.types import StructType
from deltamerge.protocol.table.constraints import GENERATED, constraints_of, default_of
from deltamerge.spark.expressions.constraints import met_by_no_row
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.settings import DOUBLE_QUOTED_NAMES, NAME_PATTERNS, RESERVED_WORDS, case_sensitive, setting
from deltamerge.spark.sql.allowed.functions import OF_CHECKS, OF_DEFAULTS, OF_ROWS, forbidden, lacking
from deltamerge.spark.sql.allowed.operands import Columns, Reading


def check_metadata_sql(spark: Session, schema: StructType, configuration: Mapping[str, str]) -> None:
    """Raise for a constraint, generated column or default that may not be evaluated.

    AnalysisError, but ConstraintError for a constraint about what is no column: delta-spark takes its value for null.
    """
    constraints = constraints_of(schema, configuration)
    if constraints:
        every = columns_of(spark, schema.names)
        given = Columns(given_names(schema), every.reading)
        for check in constraints.checks:
            _check(spark, f"CHECK constraint {check.name}", check.text, OF_CHECKS)
            other = unfit(spark, check.text, OF_CHECKS, every)
            if other is not None:
                raise met_by_no_row(check, f"{other} is no column of the table.")
        for name, text in constraints.generated:
            _check(spark, f"generated column {name}", text, OF_ROWS, given)
    check_defaults(spark, {field.name: default_of(field) for field in schema})


def check_defaults(spark: Session, defaults: Mapping[str, str | None]) -> None:
    """Raise AnalysisError for a default, by the name of its column, that may not be evaluated. It is of no row."""
    texts = [(name, text) for name, text in defaults.items() if text is not None]
    none = columns_of(spark, ()) if texts else Columns(())
    for name, text in texts:
        _check(spark, f"default of the column {name}", text, OF_DEFAULTS, none)


def given_names(schema: StructType) -> list[str]:
    """The columns that generated columns may name: those that are not generated."""
    return [field.name for field in schema if GENERATED not in field.metadata]


def columns_of(spark: Session, names: Iterable[str]) -> Columns:
    """Columns of a row, with names as the session reads them."""

    def is_set(key: str) -> bool:
        return setting(spark, key, "false").strip().lower() == "true"

    return Columns(
        names, Reading(case_sensitive(spark), is_set(DOUBLE_QUOTED_NAMES), is_set(NAME_PATTERNS), is_set(RESERVED_WORDS))
    )


def unfit(spark: Session, text: str, allowed: frozenset[str], columns: Columns | None = None) -> str | None:
    """What SQL text of a table's metadata uses that it may not, as `forbidden` says it for the session's version of Spark."""
    return forbidden(text, allowed - _lacking(spark), columns)


@lru_cache(maxsize=8)
def _lacking(spark: Session) -> frozenset[str]:
    """The functions that the session's Spark does not have. On Connect its version is a request."""
    return lacking(spark.version)


def _check(spark: Session, place: str, text: str, allowed: frozenset[str], columns: Columns | None = None) -> None:
    found = unfit(spark, text, allowed, columns)
    if found is None:
        return
    named = "" if allowed is OF_DEFAULTS else "columns of the table and "
    raise AnalysisError(
        "DELTAMERGE_FORBIDDEN_EXPRESSION",
        f"The {place} is not evaluated, because SQL of a table's metadata may not use {found}: {text}.",
        parameters={"name": place, "expression": text, "function": found},
        hint=f"Use {named}Spark's own deterministic functions, or compute the value where you write the rows.",
    )
