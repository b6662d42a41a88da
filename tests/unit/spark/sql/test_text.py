"""SQL text as trees and words; what is not understood stays unknown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from sqlglot import exp

import deltamerge
from deltamerge.spark.sql.text import enclosed, has_subquery, name_parts, parse, qualifiers_of, unseen_words, words_of


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("a <=> b", exp.NullSafeEQ),
        ("a == b", exp.EQ),
        ("a.b['c'] = 1", exp.EQ),
        ("date'2020-01-01'", exp.Cast),
        ("date('2020-01-01')", exp.Cast),
        ("x'1F'", exp.HexString),
        (".5", exp.Literal),
        (r"r'\d'", exp.Literal),
        ("a = 1 -- and \\\n OR b = 2", exp.EQ),
        ("a = 1 /* OR b */", exp.EQ),
        ("a LIKE ANY ('x', 'y')", exp.Like),
        ("a.b.f(c, d)", exp.Dot),
        ("if(a, b, c)", exp.Anonymous),
        ("broadcast(a)", exp.Anonymous),
        ('"text"', exp.Literal),
        ("a = ';'", exp.EQ),
        ("`a b`", exp.Column),
    ],
)
def test_expressions_are_parsed_as_spark_reads_them(text: str, kind: type[exp.Expression]) -> None:
    assert isinstance(parse(text), kind)


@pytest.mark.parametrize("text", ["", "a = ", "(", "a b c d", "'open", "a = b;", "a = b ; -- c"])
def test_what_is_no_expression_has_no_tree(text: str) -> None:
    assert parse(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "a = 1 AND b ISNULL",
        "a NOTNULL",
        "a = + '1'",
        "a = b LIKE c",
        "a = b < c",
        "a BETWEEN 1 AND 2 = b",
        "a <=> b IN (c)",
        "like(a, 'x')",
        "a = or(1)",
        "a !> b",
        "a -> 'b' AND c",
        "a -> b AND c",
        "naïve = 1",
        "a = '\\ud83d",
    ],
)
def test_what_spark_may_read_otherwise_has_no_tree(text: str) -> None:
    assert parse(text) is None


@pytest.mark.parametrize("text", ["(a -> '[')", "a -> 1.5"])
def test_nothing_is_logged_about_what_is_not_understood(text: str, caplog: pytest.LogCaptureFixture) -> None:
    assert parse(text) is None
    assert not caplog.records


def test_only_one_place_has_sqlglot_read_text() -> None:
    """Where trees and tokens of sqlglot are made is also where they are compared with Spark's tokens."""
    root = Path(deltamerge.__file__).parent
    calls = re.compile(
        r"sqlglot\.(?:parse|tokenize|transpile)|\bparse_one\(|Tokenizer\(|from sqlglot import (?!exp$)", re.MULTILINE
    )
    assert {path.name for path in root.rglob("*.py") if calls.search(path.read_text("utf-8"))} == {"text.py", "plain.py"}


@pytest.mark.parametrize("text", ["'it''s'", '"a""b"', r"'\ud83d'", "1L", "1.5D", "1BD"])
def test_a_value_that_is_not_sure_is_no_literal(text: str) -> None:
    found = parse(f"a = {text}")
    assert isinstance(found, exp.EQ)
    assert not isinstance(found.expression, exp.Literal)


def test_a_text_that_nests_too_deep_has_no_tree() -> None:
    assert parse("(" * 20_000 + "1" + ")" * 20_000) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r"'a\u0041'", "aA"),
        (r"'\101'", "A"),
        (r"'\n\t\0'", "\n\t\0"),
        (r"'\q\x41'", "qx41"),
        (r"'a\%b'", r"a\%b"),
        (r"'a\_b'", r"a\_b"),
        (r"'\\'", "\\"),
        (r"'it\'s'", "it's"),
        ('"it\'s"', "it's"),
    ],
)
def test_string_literals_have_the_value_that_spark_gives_them(text: str, value: str) -> None:
    found = parse(text)
    assert isinstance(found, exp.Literal)
    assert found.this == value


def test_words_are_all_that_may_name_a_column() -> None:
    words = words_of("T.Id = `My Col` AND upper(name) = 'x' -- other")
    assert words is not None
    assert {"t", "id", "my col", "upper", "name"} <= words
    assert "other" not in words
    assert words_of("IDENTIFIER('id') = 1") is None
    assert words_of("a = '${b}'") is None
    assert words_of("\"Id\" = '\\151d'") == {"id"}


def test_a_text_that_cannot_be_split_has_no_words() -> None:
    assert words_of("'open") is None
    assert qualifiers_of("'open") == ()


def test_qualifiers_are_the_words_before_a_dot() -> None:
    assert qualifiers_of("t.id = `s x`.id AND t.a.b > 1.5 AND c = 'd.e'") == ("t", "s x", "a")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a", ["a"]),
        ("A.b", ["A", "b"]),
        ("`a.b`.c", ["a.b", "c"]),
        ("`a``b`", ["a`b"]),
        ("(a.b)", ["a", "b"]),
        ("a.b.c.d.e.f", ["a", "b", "c", "d", "e", "f"]),
        ("a[0].b", []),
        ("f(a).b", []),
        ("a + b", []),
        ("'a'", []),
        ("a.*", []),
    ],
)
def test_the_parts_of_a_name(text: str, parts: list[str]) -> None:
    assert name_parts(parse(text)) == parts


def test_nothing_has_no_name() -> None:
    assert name_parts(None) == []


@pytest.mark.parametrize("name", ["comment", "set", "refresh", "begin", "analyze"])
def test_a_column_named_like_a_statement_is_a_column(name: str) -> None:
    assert isinstance(parse(name), exp.Column)
    assert isinstance(parse(f"{name} = 'x'"), exp.EQ)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("current_date", "current_date"),
        ("coalesce(values, 1)", "values"),
        ("struct(a AS b).b = c", "b"),
        ("transform(a, x -> x + 1) = x", "x"),
    ],
)
def test_a_word_that_the_tree_has_no_name_for_is_told(text: str, word: str) -> None:
    assert word in unseen_words(parse(text))


def test_a_name_that_the_tree_has_is_not_unseen() -> None:
    assert not {"id", "t", "s"} & unseen_words(parse("t.id = s.id"))


@pytest.mark.parametrize("text", ["(SELECT 1)", "a IN (SELECT b FROM c)", "EXISTS (SELECT 1)"])
def test_a_query_is_seen_with_and_without_a_tree(text: str) -> None:
    assert has_subquery(parse(text), text)
    assert has_subquery(None, text)
    assert not has_subquery(None, text.replace("SELECT ", "'SELECT'"))


@pytest.mark.parametrize("text", ["a = b", "map(a, b)", "reduce(a, b, c)", "t.values + 1", "(SELECT 1)"])
def test_an_expression_is_put_in_parentheses(text: str) -> None:
    assert enclosed(text) == f"({text})"


@pytest.mark.parametrize("text", ["SELECT 1", "values + 1", "table", "map"])
def test_what_might_be_a_query_in_parentheses_stays(text: str) -> None:
    assert enclosed(text) == text


@pytest.mark.parametrize("text", ["a >> 1", "a << b", "a = b >> 1"])
def test_what_sqlglot_splits_into_other_tokens_has_no_tree(text: str) -> None:
    assert parse(text) is None
