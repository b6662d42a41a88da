"""Conditions as predicates for data skipping: always necessary conditions, and as narrow as is sure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltamerge.merge.plan.literals import literal_of, predicate_of
from deltamerge.protocol.schema.types import PrimitiveType, StructField, StructType
from deltamerge.protocol.values.predicate import And, Compare, IsNotNull, IsNull, Or, Predicate, StartsWith
from tests.unit.merge.merges import scope_of, struct, tree

TARGET = struct(i="integer", l="long", b="byte", f="float", d="double", p="decimal(5,2)", w="string", day="date", yes="boolean")
SCOPE = scope_of(TARGET, struct(id="long", word="string"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("t.i = 5", "i = 5"),
        ("5 = t.i", "i = 5"),
        ("i <=> 5", "i <=> 5"),
        ("5 < i", "i > 5"),
        ("5 >= i", "i <= 5"),
        ("i > -5", "i > -5"),
        ("i BETWEEN 1 AND 3", "i >= 1 AND i <= 3"),
        ("i BETWEEN id AND 3", "i <= 3"),
        ("i IN (1, 2)", "i = 1 OR i = 2"),
        ("i IS NULL", "i IS NULL"),
        ("i IS NOT NULL", "i IS NOT NULL"),
        ("NOT i IS NULL", "i IS NOT NULL"),
        ("w = 'it\\'s'", 'w = "it\'s"'),
        ("w LIKE 'ab%c'", "w LIKE 'ab%'"),
        ("w LIKE 'ab'", "w LIKE 'ab%'"),
        ("w LIKE 'a\\\\%'", "w LIKE 'a%'"),
        ("day >= '2020-02-29'", "day >= 2020-02-29"),
        ("day >= DATE '2020-02-29'", "day >= 2020-02-29"),
        ("day < CAST('2020-02-29' AS DATE)", "day < 2020-02-29"),
        ("p = 1.5", "p = 1.50"),
        ("p = 3", "p = 3.00"),
        ("d > 0.1", "d > 0.1"),
        ("yes = true", "yes = True"),
        ("(i = 1) AND (w = 'a' OR l = 2)", "i = 1 AND (w = 'a' OR l = 2)"),
        ("i = 1 AND upper(w) = 'A'", "i = 1"),
        ("i = 1 AND id = 2", "i = 1"),
    ],
)
def test_comparisons_with_literals_are_seen(text: str, expected: str) -> None:
    assert str(predicate_of(tree(text), SCOPE)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "i = id",
        "i = 1.5",
        "i = '1'",
        "i = 3000000000",
        "b = 128",
        "b < -129",
        "f = 0.5",
        "d = '0.5'",
        "d > 1e5",
        "p = 1.555",
        "p = 12345.6",
        "w = 1",
        "w = -'5'",
        "day = '2020-02-30'",
        "day = '2020-2-3'",
        "day = '2020-02-29 10:00:00'",
        "day = CAST(5 AS DATE)",
        "yes = 1",
        "i <> 5",
        "NOT (i = 5)",
        "i = 5 OR upper(w) = 'A'",
        "i = 5 OR id = 2",
        "i IN (1, id)",
        "i IN (1, NULL)",
        "i NOT IN (1, 2)",
        "i IN (SELECT 1)",
        "i NOT BETWEEN 1 AND 3",
        "i BETWEEN SYMMETRIC 3 AND 1",
        "i = NULL",
        "i IS TRUE",
        "w LIKE '%a'",
        "w LIKE '_a'",
        "w LIKE word",
        "w NOT LIKE 'a%'",
        "w ILIKE 'a%'",
        "w LIKE ANY ('a%', 'b%')",
        "w LIKE 'a!%' ESCAPE '!'",
        "w RLIKE 'a'",
        "id = 5",
        "i + 0 = 5",
        "true",
    ],
)
def test_what_is_not_sure_says_nothing(text: str) -> None:
    assert predicate_of(tree(text), SCOPE) is None


def test_nested_fields_and_columns_compared_otherwise_than_by_bytes_say_nothing() -> None:
    fields = [
        StructField("n", struct(x="long")),
        StructField("c", PrimitiveType("string"), metadata={"__COLLATIONS": {"c": "ICU.UNICODE_CI"}}),
        StructField("v", PrimitiveType("string"), metadata={"__CHAR_VARCHAR_TYPE_STRING": "char(5)"}),
    ]
    scope = scope_of(StructType(tuple(fields)))
    for text in ("n.x = 1", "c = 'a'", "v = 'a'", "c LIKE 'a%'", "v IS NULL"):
        assert predicate_of(tree(text), scope) is None


@pytest.mark.parametrize(("name", "bits"), [("byte", 8), ("short", 16), ("integer", 32), ("long", 64)])
def test_integers_are_literals_of_a_column_up_to_its_range(name: str, bits: int) -> None:
    limit = 2 ** (bits - 1)
    for value, fits in ((limit - 1, True), (-limit, True), (limit, False), (-limit - 1, False)):
        found = literal_of(tree(str(value)), PrimitiveType(name))
        assert (None if found is None else found.as_py()) == (value if fits else None)


TEXTS = ["", "a", "ab", "abc", "b", "%", "a%", "é", "A", "-5"]
ROWS: list[dict[str, Any]] = [
    {
        "i": [None, -3, 0, 1, 2, 5][n % 6],
        "p": [None, Decimal("-1.50"), Decimal("0.00"), Decimal("2.00"), Decimal("2.50")][n % 5],
        "d": [None, -1.5, 0.0, 2.0, 2.5, 0.1, float("nan")][n % 7],
        "w": [None, *TEXTS][n % 11],
        "day": [None, date(2020, 2, 28), date(2020, 2, 29), date(1, 1, 1)][n % 4],
        "yes": [None, True, False][n % 3],
        "id": n % 4,
    }
    for n in range(60)
]
LITERALS = {
    "i": ["-3", "0", "2", "5", "2.5", "-(2)"],
    "p": ["-1.50", "2", "2.5", "0.001"],
    "d": ["-1.5", "0", "0.1", "2.50"],
    "w": [f"'{text}'" for text in TEXTS],
    "day": ["'2020-02-29'", "DATE '2020-02-28'", "CAST('0001-01-01' AS DATE)"],
    "yes": ["true", "false"],
}


@st.composite
def comparisons(draw: st.DrawFn) -> str:
    """A comparison of a column, in words that Spark and DuckDB read alike."""
    column = draw(st.sampled_from(list(LITERALS)))
    literal = st.sampled_from([*LITERALS[column], "NULL"])
    op = draw(st.sampled_from(["=", "<", "<=", ">", ">=", "<>", "IS NOT DISTINCT FROM", "BETWEEN", "IN", "IS", "LIKE"]))
    negated = draw(st.sampled_from(["", "", "NOT "]))
    if op == "BETWEEN":
        return f"{column} {negated}BETWEEN {draw(literal)} AND {draw(literal)}"
    if op == "IN":
        return f"{column} {negated}IN ({', '.join(draw(st.lists(literal, min_size=1, max_size=3)))})"
    if op == "IS":
        return f"{column} IS {negated}NULL"
    if op == "LIKE":
        return f"w {negated}LIKE {draw(st.sampled_from(LITERALS['w']))}"
    sides = [column, draw(literal)]
    return f" {op} ".join(draw(st.permutations(sides)))


conditions = st.recursive(
    comparisons() | st.just("id = 1"),
    lambda inner: (
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda parts: f"({' '.join(parts)})")
        | inner.map(lambda text: f"NOT ({text})")
    ),
    max_leaves=4,
)


@pytest.fixture(scope="module")
def rows_where() -> Iterator[Any]:
    """The numbers of the rows for which a condition is true, by another engine."""
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE t (n INT, i INT, p DECIMAL(5, 2), d DOUBLE, w VARCHAR, day DATE, yes BOOLEAN, id BIGINT)"
        )
        connection.executemany(
            "INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?, ?)", [[n, *row.values()] for n, row in enumerate(ROWS)]
        )
        yield lambda text: {n for (n,) in connection.execute(f"SELECT n FROM t WHERE {text}").fetchall()}


@settings(max_examples=60, deadline=None)
@given(text=conditions)
def test_a_row_that_fulfils_a_condition_fulfils_its_predicate(text: str, rows_where: Any) -> None:
    predicate = predicate_of(tree(text), SCOPE)
    if predicate is not None:
        assert rows_where(text) <= {n for n, row in enumerate(ROWS) if holds(predicate, row)}


def holds(predicate: Predicate, row: dict[str, Any]) -> bool:
    """Whether a predicate is true for a row; NaN is larger than all else, as in Spark and DuckDB."""
    if isinstance(predicate, And):
        return all(holds(part, row) for part in predicate.parts)
    if isinstance(predicate, Or):
        return any(holds(part, row) for part in predicate.parts)
    value = row[predicate.column[0]]
    if isinstance(predicate, IsNull | IsNotNull):
        return (value is None) == isinstance(predicate, IsNull)
    if isinstance(predicate, StartsWith):
        return value is not None and value.startswith(predicate.prefix)
    assert isinstance(predicate, Compare)
    if value is None:
        return False
    a, b = order(value), order(predicate.value.as_py())
    return bool({"=": a == b, "<=>": a == b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[predicate.op])


def order(value: Any) -> tuple[bool, Any]:
    nan = isinstance(value, float) and value != value
    return nan, 0 if nan else value
