"""Statements as they are parsed."""

from __future__ import annotations

import pytest

from deltamerge.errors import ParseError
from deltamerge.spark.sql.reader import Reader
from deltamerge.spark.sql.text import tokens_of
from deltamerge.statements.rows.delete import Delete, parse_delete
from deltamerge.statements.rows.update import Update, parse_update
from deltamerge.statements.table.detail import DescribeDetail, DescribeHistory, parse_detail, parse_history
from deltamerge.statements.target import TableOrPath, Target
from deltamerge.statements.with_queries import changes_rows, parse_with


def behind(words: int, text: str) -> Reader:
    reader = Reader(text, tokens_of(text) or ())
    reader.go_to(words)
    return reader


def test_delete() -> None:
    assert parse_delete(behind(2, "DELETE FROM a.b")) == Delete(Target(("a", "b")), None)
    assert parse_delete(behind(2, "DELETE FROM delta.`/p` AS t WHERE t.a IN (1, 2);;")) == Delete(
        Target(("delta", "/p"), "t"), "t.a IN (1, 2)"
    )
    for wrong in ("DELETE FROM t WHERE", "DELETE FROM t x y", "DELETE FROM t WHERE a) OR b", "DELETE FROM"):
        with pytest.raises(ParseError, match="PARSE_SYNTAX_ERROR"):
            parse_delete(behind(2, wrong))


def test_update() -> None:
    found = parse_update(behind(1, "UPDATE t SET a.b = f(1, 2), c = DEFAULT WHERE a = 'x = 1'"))
    assert found == Update(Target(("t",)), (("a.b", "f(1, 2)"), ("c", None)), "a = 'x = 1'")
    assert parse_update(behind(1, "UPDATE t u SET a = 1")) == Update(Target(("t",), "u"), (("a", "1"),), None)
    for wrong in ("UPDATE t", "UPDATE t SET", "UPDATE t SET a", "UPDATE t SET a = 1,", "UPDATE t SET a = 1 WHERE"):
        with pytest.raises(ParseError, match="PARSE_SYNTAX_ERROR"):
            parse_update(behind(1, wrong))


def test_queries_before_statements() -> None:
    text = "WITH a AS (SELECT 1) DELETE FROM t WHERE id IN (TABLE a)"
    assert changes_rows(behind(0, text))
    assert parse_with(behind(1, text)) == Delete(Target(("t",)), "id IN (TABLE a)", "WITH a AS (SELECT 1)")
    found = parse_with(behind(1, "WITH a AS (SELECT 1) UPDATE t SET b = 2"))
    assert found == Update(Target(("t",)), (("b", "2"),), None, "WITH a AS (SELECT 1)")
    for other in (
        "WITH a AS (SELECT 1) SELECT delete FROM t",
        "WITH a",
        "WITH a AS (SELECT 1) DELETE x",
        "WITH update AS (SELECT",
    ):
        assert not changes_rows(behind(0, other))


def test_describe() -> None:
    assert parse_history(behind(2, "DESCRIBE HISTORY t LIMIT 3")) == DescribeHistory(TableOrPath(("t",)), 3)
    assert parse_history(behind(2, "DESC HISTORY 'it\\'s';")) == DescribeHistory(TableOrPath(("delta", "it's")))
    assert parse_detail(behind(2, "DESC DETAIL delta.`/p`")) == DescribeDetail(TableOrPath(("delta", "/p")))
    assert parse_history(behind(2, "DESCRIBE HISTORY")) is None  # a table of that name
    assert parse_detail(behind(2, "DESCRIBE DETAIL")) is None
    for wrong in ("DESCRIBE HISTORY t LIMIT", "DESCRIBE HISTORY t LIMIT 'a'", "DESCRIBE HISTORY t 3", "DESCRIBE HISTORY 3"):
        with pytest.raises(ParseError, match="PARSE_SYNTAX_ERROR"):
            parse_history(behind(2, wrong))
