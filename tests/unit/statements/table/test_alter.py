"""ALTER TABLE as it is parsed."""

from __future__ import annotations

import pytest

from deltamerge.spark.sql.reader import Reader
from deltamerge.spark.sql.text import tokens_of
from deltamerge.statements.table.alter import AlterTableStatement, parse_alter_table


def parsed(text: str) -> AlterTableStatement:
    """The statement behind ALTER TABLE."""
    found = parse_alter_table(Reader(text, tokens_of(text) or ()))
    assert isinstance(found, AlterTableStatement)
    return found


@pytest.mark.parametrize(
    "text",
    [
        "t CHANGE COLUMN a a INT NOT NULL",
        "t CHANGE a a BIGINT DEFAULT 5",
        "t CHANGE a a BIGINT GENERATED ALWAYS AS (b)",
        "t CHANGE a a BIGINT GENERATED ALWAYS AS IDENTITY FIRST",
        "t ALTER COLUMN a TYPE INT NOT NULL",
        "t ALTER COLUMN a TYPE STRUCT<b: INT NOT NULL> DEFAULT 1",
    ],
)
def test_what_a_change_of_type_would_ignore_is_refused(text: str) -> None:
    error = parsed(text).error
    assert error is not None
    assert error.condition == "DELTA_OPERATION_NOT_ALLOWED"


@pytest.mark.parametrize(
    "text",
    [
        "t CHANGE COLUMN a a INT COMMENT 'NOT NULL' FIRST",
        "t ALTER COLUMN a TYPE STRUCT<b: INT NOT NULL>",
        "t ALTER COLUMN a TYPE INT",
        "t ALTER COLUMN a SET NOT NULL",
    ],
)
def test_one_change_is_taken(text: str) -> None:
    assert parsed(text).error is None
