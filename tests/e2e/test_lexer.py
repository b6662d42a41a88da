"""Texts are split, and seen into, as Spark's own lexer and parser read them.

Random texts of seeds that are the same on each run; with DELTAMERGE_TEST_ALL more of them. DELTAMERGE_SEED says the first seed.
"""

from __future__ import annotations

import os

import pytest
from pyspark.sql import SparkSession

from deltamerge.errors import ParseError
from deltamerge.merge.statement.clauses import Action
from deltamerge.merge.statement.parse import SqlClause, Statement, parse_merge
from deltamerge.spark.sql.lexer import Kind, NoTokenError, lexed, string_value
from deltamerge.spark.sql.tables import with_ctes
from deltamerge.spark.sql.text import enclosed, parse
from tests.e2e.odd_texts import OddTexts
from tests.e2e.spark_parser import SparkParser, nested, text_of
from tests.e2e.spark_trees import difference

pytestmark = [pytest.mark.classic, pytest.mark.local]
SEED = int(os.environ.get("DELTAMERGE_SEED", "0"))
TIMES = 20 if "DELTAMERGE_TEST_ALL" in os.environ else 1


@pytest.fixture(scope="module")
def parser(spark: SparkSession) -> SparkParser:
    return SparkParser.of(spark)


@pytest.fixture(params=range(SEED, SEED + TIMES))
def texts(request: pytest.FixtureRequest) -> OddTexts:
    return OddTexts(request.param)


_KINDS = {"STRING_LITERAL": Kind.STRING, "DOUBLEQUOTED_STRING": Kind.STRING, "BACKQUOTED_IDENTIFIER": Kind.NAME}


def test_tokens_are_sparks(spark: SparkSession, parser: SparkParser, texts: OddTexts) -> None:
    tried = [texts.pieces() for _ in range(2000)]
    differ = []
    for text, read in zip(tried, parser.tokens(tried), strict=True):
        if "@" in text and spark.version < "4.3":
            continue
        try:
            ours = [(token.start, token.behind) for token in lexed(text)]
            kinds = [token.kind for token in lexed(text)]
        except NoTokenError:
            differ += [] if any(_refused(kind, text[a:b]) for kind, a, b in read) else [(text, read)]
            continue
        theirs = _joined(text, read)
        same = ours == [(a, b) for _, a, b in theirs] and all(_is_kind(k, *t) for k, t in zip(kinds, theirs, strict=True))
        differ += [] if same else [(text, theirs)]
    assert not differ, differ[:5]


def _refused(kind: str, text: str) -> bool:
    """Whether no expression and no MERGE has such a token."""
    broken = kind in ("UNRECOGNIZED", "UNCLOSED") or "DOLLAR" in kind
    return broken or (kind not in _KINDS and not text.isascii()) or (kind == "IDENTIFIER" and "://" in text)


def _joined(text: str, tokens: list[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """PySpark 4.0 takes two quotes for the end of a string and the beginning of another one."""
    found: list[tuple[str, int, int]] = []
    for kind, start, behind in tokens:
        before = found[-1] if found and _KINDS.get(kind) is Kind.STRING else ("", 0, -1)
        if before[::2] == (kind, start) and text[start] == text[before[1]]:
            found[-1] = (kind, before[1], behind)
        else:
            found.append((kind, start, behind))
    return found


def _is_kind(ours: Kind, kind: str, start: int, behind: int) -> bool:
    if kind in _KINDS:
        return ours is _KINDS[kind]
    if ours is Kind.NUMBER:
        return kind.endswith(("_LITERAL", "_VALUE"))
    return ours is (Kind.SIGN if kind in _SIGNS else Kind.WORD)


_SIGNS = set(
    "SEMICOLON LEFT_PAREN RIGHT_PAREN COMMA DOT LEFT_BRACKET RIGHT_BRACKET BANG EQ NSEQ NEQ NEQJ LT LTE GT GTE SHIFT_LEFT "  # noqa: SIM905
    "SHIFT_RIGHT SHIFT_RIGHT_UNSIGNED PLUS MINUS ASTERISK SLASH PERCENT TILDE AMPERSAND PIPE CONCAT_PIPE OPERATOR_PIPE HAT COLON "
    "DOUBLE_COLON AT_SIGN AT_VERSION ARROW FAT_ARROW HENT_START HENT_END QUESTION".split()
)


def test_strings_have_sparks_values(parser: SparkParser, texts: OddTexts) -> None:
    tried = [text for text in (texts.string() for _ in range(500)) if _is_string(text)]
    for text, theirs in zip(tried, parser.expressions(tried), strict=True):
        value = string_value(lexed(text)[0])
        assert theirs is not None, text
        assert value is None or value == text_of(nested(theirs)[2]), text


def _is_string(text: str) -> bool:
    try:
        return [token.kind for token in lexed(text)] == [Kind.STRING]
    except NoTokenError:
        return False


def test_what_is_seen_in_an_expression_is_what_spark_reads(parser: SparkParser, texts: OddTexts) -> None:
    tried = [texts.expression() for _ in range(600)]
    both = [
        (text, tree, read) for text, read in zip(tried, parser.expressions(tried), strict=True) if read and (tree := parse(text))
    ]
    differ = [(text, found) for text, tree, read in both if (found := difference(tree, read)) is not None]
    assert not differ, differ[:5]
    assert len(both) > 120


def test_statements_are_split_as_spark_splits_them(parser: SparkParser, texts: OddTexts) -> None:
    tried = [texts.statement() for _ in range(250)]
    both = 0
    for text, theirs in zip(tried, parser.statements(tried), strict=True):
        try:
            ours = parse_merge(text)
        except ParseError:
            continue
        if ours is None:
            assert theirs is None or theirs == "other", text
            continue
        found = _as_spark_reads_it(parser, ours)
        both += found is not None
        assert found is None or found == _with_default(theirs), (text, found, theirs)
    assert both > 50, both


def _as_spark_reads_it(parser: SparkParser, statement: Statement) -> str | None:
    """The statement in Spark's words, by what Spark reads in each of its parts; None where it refuses one."""
    source = statement.source if statement.source_is_query else f"TABLE {statement.source}"
    clauses = statement.clauses
    values = [value for clause in clauses for _, value in clause.assignments if value is not None]
    texts = [statement.condition, *(clause.condition for clause in clauses if clause.condition is not None), *values]
    columns = [column for clause in clauses for column, _ in clause.assignments]
    read = dict(zip((*texts, *columns), parser.expressions([*map(enclosed, texts), *columns]), strict=True))
    if None in read.values() or parser.statements([with_ctes(f"({source})", statement.ctes)]) == [None]:
        return None
    told = ["merge", str(statement.with_schema_evolution).lower(), str(read[statement.condition])]
    return "\t".join([*told, *(_clause(clause, read) for clause in clauses)])


def _clause(clause: SqlClause, read: dict[str, str | None]) -> str:
    name = clause.action.name.capitalize() + ("Star" if clause.star and clause.action is not Action.DELETE else "")
    condition = "" if clause.condition is None else str(read[clause.condition])
    pairs = [f"{read[column]}={_DEFAULT if value is None else read[value]}" for column, value in clause.assignments]
    return "|".join([clause.kind.value, f"{name}Action", condition, *pairs])


_DEFAULT = "(UnresolvedAttribute x" + "DEFAULT".encode("utf-16-be").hex() + ")"


def _with_default(statement: str | None) -> str | None:
    """A statement as Spark reads it, with each DEFAULT in upper case."""
    lower = _DEFAULT.replace("DEFAULT".encode("utf-16-be").hex(), "default".encode("utf-16-be").hex())
    return None if statement is None else statement.replace(f"={lower}", f"={_DEFAULT}")
