"""Case files are read as they are meant, and what is wrong with one is said with its line."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as T

from tests.cases.format import CaseError, counts_text, parse_cases, split_commas
from tests.cases.values import Malformed, parse_row, parse_value, render, sort_key

TABLES = """# A remark.
target
    id int | v string
    1 | 'a|b'
    ~~~
    2 | 'c'
source
    id int | v string
"""
MERGE = "merge\n    MERGE INTO t USING s ON t.id = s.id\n      WHEN MATCHED THEN DELETE\n"
STRUCT = T.StructType([T.StructField("a", T.IntegerType()), T.StructField("b c", T.ArrayType(T.StringType()))])


def test_what_stands_before_the_first_title_holds_for_all() -> None:
    one, other = parse_cases(
        f"{TABLES}\n## one\n{MERGE}counts 1 deleted\nresult\n    id int | v string\n"
        "## other\ntarget\n    k int\n    7\nbuilder\n    on(t.k = s.id)\n"
        "    whenMatchedUpdate(t.k > f(1)): k = g(1, 2), v = '='\n"
        "error SOME_CONDITION\nsays k\n",
        "f",
    )
    assert one.target.header == ("id int", "v string")
    assert one.target.files == (("1 | 'a|b'",), ("2 | 'c'",))
    assert one.statement == "MERGE INTO t USING s ON t.id = s.id\n  WHEN MATCHED THEN DELETE"
    assert one.expected.counts == (0, 1, 0)
    assert one.expected.result is not None
    assert one.expected.result.files == ((),)
    assert (other.target.header, other.source) == (("k int",), one.source)
    assert [call.method for call in other.builder] == ["on", "whenMatchedUpdate"]
    assert other.builder[1].condition == "t.k > f(1)"
    assert other.builder[1].assignments == (("k", "g(1, 2)"), ("v", "'='"))
    assert (other.expected.error, other.says, other.id, other.line) == ("SOME_CONDITION", ("k",), "f: other", 17)


def test_a_difference_has_what_delta_spark_does() -> None:
    (case,) = parse_cases(f"{TABLES}## one\n{MERGE}counts nothing\ndiffers a reason\ndelta-spark error THEIRS\n", "f")
    assert case.of_delta_spark.error == "THEIRS"
    assert case.expected.error is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"## one\n{MERGE}", r"f\.case:1: one: there is no target"),
        (f"{TABLES}## one\n", r"f\.case:9: one: either merge or builder"),
        (f"{TABLES}## one\nmerge\n{MERGE}", r"f\.case:10: one: merge has no lines"),
        (f"{TABLES}## one\n{MERGE}results\n", r"f\.case:13: unknown keyword in 'results'"),
        (f"{TABLES}## one\n    x\n{MERGE}", r"f\.case:10: an indented line belongs to no block: x"),
        (f"{TABLES}## one\n{MERGE}counts\n", r"f\.case:13: one: counts is one line with a value"),
        (f"{TABLES}## one\n{MERGE}differs why\n", "differs and what delta-spark does go together"),
        (f"{TABLES}## one\n{MERGE}## one\n{MERGE}", r"f\.case:9: two cases have the title 'one'"),
        (f"{TABLES}## one\nbuilder\n    on t.id\n", r"f\.case:9: one: no call of the builder: on t\.id"),
        (f"{TABLES}## one\n{MERGE}property x\n", "a name, = and a value are needed: x"),
    ],
)
def test_a_malformed_case_is_named(text: str, problem: str) -> None:
    with pytest.raises(CaseError, match=problem):
        parse_cases(text, "f")


@pytest.mark.parametrize(
    ("text", "type", "value"),
    [
        ("null", T.IntegerType(), None),
        ("'it''s\\n'", T.StringType(), "it's\n"),
        ("'null'", T.StringType(), "null"),
        ("X'00FF'", T.BinaryType(), b"\x00\xff"),
        ("1.50", T.DecimalType(5, 2), Decimal("1.50")),
        ("2020-02-29", T.DateType(), date(2020, 2, 29)),
        ("2020-02-29 01:02:03.000004", T.TimestampType(), datetime(2020, 2, 29, 1, 2, 3, 4, UTC)),
        ("{a: 1, `b c`: ['x', null]}", STRUCT, {"a": 1, "b c": ["x", None]}),
        ("{1: true, 2: null}", T.MapType(T.IntegerType(), T.BooleanType()), [(1, True), (2, None)]),
        ("[[], [1]]", T.ArrayType(T.ArrayType(T.LongType())), [[], [1]]),
        ("-Infinity", T.DoubleType(), float("-inf")),
    ],
)
def test_values_go_there_and_back(text: str, type: T.DataType, value: Any) -> None:
    assert parse_value(text, type) == value
    assert render(value, type) == text


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("one", T.IntegerType()),
        ("1 2", T.IntegerType()),
        ("'a", T.StringType()),
        ("a", T.StringType()),
        ("maybe", T.BooleanType()),
        ("{b: 1}", STRUCT),
        ("[1", T.ArrayType(T.IntegerType())),
        ("", T.DateType()),
    ],
)
def test_a_malformed_value_is_refused(text: str, type: T.DataType) -> None:
    with pytest.raises(Malformed):
        parse_value(text, type)


def test_a_row_has_a_value_per_column() -> None:
    assert parse_row("1 | 'a|b'", [T.IntegerType(), T.StringType()]) == (1, "a|b")
    with pytest.raises(Malformed, match="1 values for 2 columns: 1"):
        parse_row("1", [T.IntegerType(), T.StringType()])


@given(st.text())
def test_every_text_goes_there_and_back(text: str) -> None:
    assert parse_value(render(text, T.StringType()), T.StringType()) == text


def test_commas_within_brackets_and_quotes_separate_nothing() -> None:
    assert split_commas("a = f(1, 2), b = 'x, y', c = [1, {2, 3}]") == ["a = f(1, 2)", "b = 'x, y'", "c = [1, {2, 3}]"]


@pytest.mark.parametrize(("counts", "text"), [((0, 0, 0), "nothing"), ((1, 0, 2), "1 updated, 2 inserted")])
def test_counts_are_said(counts: tuple[int, int, int], text: str) -> None:
    assert counts_text(counts) == text


def test_rows_of_any_values_have_one_order() -> None:
    nan = float("nan")
    rows = [(None,), (nan,), (0.0,), (-0.0,), (2.5,), (float("inf"),)]
    assert [repr(value) for (value,) in sorted(rows, key=sort_key)] == ["-0.0", "0.0", "2.5", "inf", "nan", "None"]
