"""Which columns SQL of a table's metadata may name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from deltamerge.errors import AnalysisError, ConstraintError
from deltamerge.protocol.schema.types import PrimitiveType, StructField, StructType
from deltamerge.spark.expressions.metadata_sql import check_metadata_sql

LONG = PrimitiveType("long")


class Session:
    """A session with some settings."""

    version = "4.3.0"

    def __init__(self, settings: dict[str, str]) -> None:
        self.conf = SimpleNamespace(get=settings.get)


def check(field: dict[str, str] | None = None, settings: dict[str, str] | None = None, **checks: str) -> None:
    """Check a table with the columns a, b, which is generated, and c, whose field has this metadata."""
    session: Any = Session(settings or {})
    generated = StructField("b", LONG, metadata={"delta.generationExpression": "a + 1"})
    schema = StructType((StructField("a", LONG), generated, StructField("c", LONG, metadata=field or {})))
    check_metadata_sql(session, schema, {f"delta.constraints.{name}": text for name, text in checks.items()})


def test_constraints_name_all_columns_generated_ones_those_that_are_given() -> None:
    check({"delta.generationExpression": "A * 2"}, positive="b > 0 AND c > 0")
    with pytest.raises(AnalysisError, match=r"generated column c .* may not use b:"):
        check({"delta.generationExpression": "a * b"})
    with pytest.raises(ConstraintError, match=r"No row can meet the CHECK constraint odd .*: d is no column of the table\."):
        check(odd="a > d")


def test_defaults_name_none() -> None:
    check({"CURRENT_DEFAULT": "1 + 2"})
    with pytest.raises(AnalysisError, match=r"default of the column c .* may not use a:"):
        check({"CURRENT_DEFAULT": "a"})


def test_names_are_read_as_the_session_says() -> None:
    check(same='A <> "a"')
    with pytest.raises(ConstraintError, match="A is no column"):
        check(settings={"spark.sql.caseSensitive": "true"}, same="A > 0")
    with pytest.raises(ConstraintError, match='"v" is no column'):
        check(settings={"spark.sql.ansi.doubleQuotedIdentifiers": "true"}, same='a <> "v"')
