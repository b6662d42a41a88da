"""SQL text as trees and words; what is not understood stays unknown."""

from __future__ import annotations

import pytest
from sqlglot import exp

from deltamerge.spark.sql.text import name_parts, parse, qualifiers_of, unseen_words, words_of


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("a <=> b", exp.NullSafeEQ),
        ("a == b", exp.EQ),
        ("a.b['c'] = 1", exp.EQ),
        ("date'2020-01-01'", exp.Cast),
        ('"text"', exp.Literal),
        ("`a b`", exp.Column),
    ],
)
def test_expressions_are_parsed_as_spark_reads_them(text: str, kind: type[exp.Expression]) -> None:
    assert isinstance(parse(text), kind)


@pytest.mark.parametrize("text", ["", "a = ", "(", "a b c d", "'open"])
def test_what_is_no_expression_has_no_tree(text: str) -> None:
    assert parse(text) is None


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


@pytest.mark.parametrize(("text", "word"), [("current_date", "current_date"), ("coalesce(values, 1)", "values")])
def test_a_word_that_the_tree_has_no_name_for_is_told(text: str, word: str) -> None:
    assert word in unseen_words(parse(text))


def test_a_name_that_the_tree_has_is_not_unseen() -> None:
    assert not {"id", "t", "s"} & unseen_words(parse("t.id = s.id"))
