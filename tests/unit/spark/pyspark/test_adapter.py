"""What is seen of a Spark Connect Column, which needs no session."""

from __future__ import annotations

import pytest
from pyspark.sql import Column
from pyspark.sql.connect import functions as connect
from sqlglot import exp

from deltamerge.spark.pyspark import adapter
from deltamerge.spark.pyspark.adapter import tree_of
from deltamerge.spark.sql.seen import seen
from deltamerge.spark.sql.text import name_parts


def tree(column: Column) -> exp.Expression:
    found = tree_of(column, seen)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("t.n", ["t", "n"]),
        ("t.a b", ["t", "a b"]),
        ("t.c-d", ["t", "c-d"]),
        ("t.`a.b`.x", ["t", "a.b", "x"]),
        ("current_date", ["current_date"]),
        ("case", ["case"]),
        ("a.b.c.d.e", ["a", "b", "c", "d", "e"]),
    ],
)
def test_a_name_has_the_parts_that_spark_sees(name: str, parts: list[str]) -> None:
    equal = tree(connect.col(name) == connect.lit(1))
    assert isinstance(equal, exp.EQ)
    assert name_parts(equal.this) == parts
    assert isinstance(equal.expression, exp.Literal)


@pytest.mark.parametrize("text", ["(SELECT max(n) FROM v)", "abs((select 1))"])
def test_a_query_is_seen_within_what_can_not_be_seen_into(text: str) -> None:
    query = connect.expr(text)
    for column in (query.cast("int"), connect.when(connect.col("n") > 1, query.cast("int")).otherwise(2)):
        assert tree(column).find(exp.Subquery) is not None
        assert tree(column).find(exp.Placeholder) is not None
    assert tree(connect.expr("n + 1").cast("int")).find(exp.Subquery) is None


def test_a_name_that_is_none_shows_nothing() -> None:
    assert tree_of(connect.col("t..n"), seen) is None


class Client:
    """A Connect client that notes what it is asked for."""

    def __init__(self, is_closed: bool = False, fails: bool = False) -> None:
        self.is_closed = is_closed
        self._fails = fails
        self.calls: list[str] = []

    def release_session(self) -> None:
        self.calls.append("release")
        if self._fails:
            raise ConnectionError

    def close(self) -> None:
        self.calls.append("close")


@pytest.mark.parametrize(
    ("first", "fails", "calls"),
    [
        (Client(), False, ["release", "close"]),
        (Client(), True, ["release", "close"]),
        (Client(is_closed=True), False, ["close"]),  # its server may be gone
        (None, False, ["close"]),
    ],
)
def test_another_session_is_closed_when_the_process_ends(first: Client | None, fails: bool, calls: list[str]) -> None:
    client = Client(fails=fails)
    adapter._close(lambda: first, client)
    assert client.calls == calls
