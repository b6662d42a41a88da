"""SQL that a table's metadata carries: refused, before any job, where it does more than compute a value of the row."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from deltamerge.errors import AnalysisError
from deltamerge.protocol.schema.types import StructType
from deltamerge.protocol.table.constraints import constraints_of, default_of
from deltamerge.spark.sql.functions import OF_CHECKS, OF_DEFAULTS, OF_ROWS, forbidden


def check_metadata_sql(schema: StructType, configuration: Mapping[str, str]) -> None:
    """Raise AnalysisError for a constraint, generated column or default that may not be evaluated."""
    constraints = constraints_of(schema, configuration)
    for check in constraints.checks:
        _check(f"CHECK constraint {check.name}", check.text, OF_CHECKS)
    for name, text in constraints.generated:
        _check(f"generated column {name}", text, OF_ROWS)
    for field in schema:
        check_default(field.name, default_of(field))


def check_default(name: str, text: str | None) -> None:
    """Raise AnalysisError for the default of a column that may not be evaluated."""
    if text is not None:
        _check(f"default of the column {name}", text, OF_DEFAULTS)


def _check(place: str, text: str, allowed: Collection[str]) -> None:
    found = forbidden(text, allowed)
    if found is None:
        return
    raise AnalysisError(
        "DELTAMERGE_FORBIDDEN_EXPRESSION",
        f"The {place} is not evaluated, because SQL of a table's metadata may not use {found}: {text}.",
        parameters={"name": place, "expression": text, "function": found},
        hint="Use Spark's own deterministic functions of the row's values, or compute the value where you write the rows.",
    )
