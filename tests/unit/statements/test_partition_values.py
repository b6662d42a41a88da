"""PARTITION of an INSERT: its columns, its values, and the rows that they name."""

from __future__ import annotations

import pytest

from deltamerge.errors import AnalysisError
from deltamerge.protocol.schema.types import PrimitiveType, StructField, StructType
from deltamerge.spark.sql.literals import literal_of
from deltamerge.statements.partition_values import check_partition, is_literal, rows_of_partition

SCHEMA = StructType(tuple(StructField(name, PrimitiveType(name)) for name in ("string", "integer", "date")))


@pytest.mark.parametrize("text", ["1", "-1.5BD", "'a' 'b'", "null", "TRUE", "DATE'2020-01-01'", "X'ab'", "(1)", "(-1)"])
def test_literals(text: str) -> None:
    assert is_literal(text)


@pytest.mark.parametrize("value", [None, True, 5, 2**40, -5, 1.5, float("nan"), "a", "it's", b"a"])
def test_arguments_are_literals(value: object) -> None:
    assert is_literal(literal_of(value))


@pytest.mark.parametrize("text", ["v", "DATE", "DATE 1", "DEFAULT", "1 + v", "'a' || v", "rand()", "(SELECT 1)", "-v", "`a`"])
def test_no_literals(text: str) -> None:
    assert not is_literal(text)


def test_a_value_has_the_columns_type() -> None:
    values = {"STRING": "1", "integer": "'1'", "date": "'2020-01-01'"}
    assert rows_of_partition(SCHEMA, values) == (
        "`STRING` <=> CAST((1) AS string) AND `integer` <=> CAST(('1') AS int) AND `date` <=> CAST(('2020-01-01') AS date)"
    )
    assert rows_of_partition(SCHEMA, {"string": "'1'", "integer": "1"}) == "`string` <=> ('1') AND `integer` <=> (1)"
    assert rows_of_partition(SCHEMA, {"string": "NULL"}) == "`string` <=> (NULL)"


def test_only_partition_columns_can_be_named() -> None:
    check_partition(["P"], ["p", "q"])
    for columns in ([], ["p"]):
        with pytest.raises(AnalysisError, match="NON_PARTITION_COLUMN"):
            check_partition(["v"], columns)
