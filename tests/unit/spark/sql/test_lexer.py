"""The tokens that Spark's lexer makes of a text. `tests/e2e/test_lexer.py` compares them with that lexer itself."""

from __future__ import annotations

import pytest

from deltamerge.spark.sql.lexer import Kind, NoTokenError, lexed, string_value


def tokens(text: str) -> list[str]:
    return [token.text for token in lexed(text)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a -- b", ["a"]),
        ("a -- b\\\nc\nd", ["a", "d"]),
        ("a -- b\\\\\nc\nd", ["a", "d"]),
        ("a -- b\\\r\nc", ["a", "c"]),
        ("a -- b\rc", ["a", "c"]),
        ("a -- b\u2028c\n d", ["a", "d"]),
        ("a--b", ["a"]),
        ("a /* b /* c */ d */ e", ["a", "e"]),
        ("/**/a/*/ b */c", ["a", "c"]),
        ("a /* -- */ b", ["a", "b"]),
        ("a -- /*\nb", ["a", "b"]),
        ("a /* \\*/ b", ["a", "b"]),
        ("a /*+ b */ c", ["a", "/*+", "b", "*/", "c"]),
        ("a /* /*+ b */ c", ["a", "c"]),
        ("2*/*c*/3", ["2", "*/", "*", "c", "*/", "3"]),
        ("a /* b */ */ c", ["a", "*/", "c"]),
    ],
)
def test_comments_end_where_sparks_do(text: str, found: list[str]) -> None:
    assert tokens(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (r"'a\'b' c", [r"'a\'b'", "c"]),
        (r"'a\\' b", [r"'a\\'", "b"]),
        ("'it''s'", ["'it''s'"]),
        ("'a' 'b'", ["'a'", "'b'"]),
        ("'a\nb'", ["'a\nb'"]),
        (r"r'\' b", [r"r'\'", "b"]),
        ('R"it\'s" b', ['R"it\'s"', "b"]),
        ("ar'b'", ["ar", "'b'"]),
        ('"a""b"', ['"a""b"']),
        ("`a``b`.`--`", ["`a``b`", ".", "`--`"]),
        ("x'1F'", ["x", "'1F'"]),
        ("date'2020-01-01'", ["date", "'2020-01-01'"]),
    ],
)
def test_quotes_close_where_sparks_do(text: str, found: list[str]) -> None:
    assert tokens(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1L 1Y 1bd 1.5D 1e3 1E-3F .5 1. 1.e3", ["1L", "1Y", "1bd", "1.5D", "1e3", "1E-3F", ".5", "1.", "1.e3"]),
        ("1a 1_0 1e 1e3x 12Lx", ["1a", "1_0", "1e", "1e3x", "12Lx"]),
        ("1.a a.1 a.1b a.5d", ["1", ".", "a", "a", ".1", "a", ".", "1b", "a", ".5d"]),
        ("1.5L 1..2 1.5e+x", ["1", ".", "5L", "1.", ".2", "1", ".", "5e", "+", "x"]),
    ],
)
def test_numbers_and_names_that_begin_with_digits(text: str, found: list[str]) -> None:
    assert tokens(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a<=>b==c!=d<>e", ["a", "<=>", "b", "==", "c", "!=", "d", "<>", "e"]),
        ("a!>b!<c!d", ["a", "!>", "b", "!<", "c", "!", "d"]),
        ("a->b=>c::d|>e||f|g", ["a", "->", "b", "=>", "c", "::", "d", "|>", "e", "||", "f", "|", "g"]),
        ("a->>b &&~~ ", ["a", "->", ">", "b", "&", "&", "~", "~"]),
        ("a>>b>>>c", ["a", ">>", "b", ">>>", "c"]),
        ("a::map<b,array<c>> >> d", ["a", "::", "map", "<", "b", ",", "array", "<", "c", ">", ">", ">>", "d"]),
        ("array(a) >> b", ["array", "(", "a", ")", ">", ">", "b"]),
        ("t@v1 @x", ["t", "@v", "1", "@", "x"]),
        (":p ? ;", [":", "p", "?", ";"]),
    ],
)
def test_signs_are_as_long_as_sparks(text: str, found: list[str]) -> None:
    assert tokens(text) == found


def test_sparks_blanks_part_words() -> None:
    blanks = "\t\n\r\f\v\u00a0\u1680\u2003\u2028\u202f\u205f\u3000"
    assert tokens(f"{blanks}a{blanks}b{blanks}") == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a = 'b", "'"),
        (r"a = 'b\'", "'"),
        ("a `b", "`"),
        ("a /* b /* c */", "/*"),
        ("a /* /* */ b */ c /*", "/*"),
        ("naïve", "ï"),
        ("\ufeffa", "\ufeff"),
        ("a\u0085b", "\u0085"),
        ("a\u200bb", "\u200b"),
        ("a\x1cb", "\x1c"),
        ("\u0131nsert", "\u0131"),
        ("$$ a $$", "$"),
        ("{a}", "{"),
        ("a # b", "#"),
        ("a://b", "a"),
    ],
)
def test_what_no_expression_has_is_no_token(text: str, found: str) -> None:
    with pytest.raises(NoTokenError) as error:
        lexed(text)
    assert error.value.found == found


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'a'", "a"),
        ("''", ""),
        (r"'\u0041\U0001F600\101\8'", "A\U0001f600A8"),
        (r"'\ud83d\ude00'", "\U0001f600"),
        (r"'\0\b\n\r\t\Z\q\'\"'", "\0\b\n\r\t\x1aq'\""),
        (r"'a\%b\_c'", r"a\%b\_c"),
        (r"'\u00g0\08\400'", "u00g0\x0084" + "00"),
        (r"r'\n'", r"\n"),
        ('"it\'s"', "it's"),
        ("\"a''b\"", "a''b"),
        ("'it''s'", None),
        ('"a""b"', None),
        (r"'\ud83d'", None),
        (r"'\U00110000'", None),
    ],
)
def test_a_string_has_the_value_that_spark_gives_it(text: str, value: str | None) -> None:
    (token,) = lexed(text)
    assert token.kind is Kind.STRING
    assert string_value(token) == value


def test_names_lose_their_quotes() -> None:
    assert [token.name for token in lexed('a.`b``c`."d""e"') if token.text != "."] == ["a", "b`c", 'd"e']
    assert [token.upper for token in lexed("when `when` 'when' 1L =")] == ["WHEN", "", "", "", "="]
