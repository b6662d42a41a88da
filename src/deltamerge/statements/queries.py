"""Statements that are Spark's, over Delta tables that this library reads: frames stand for the tables in their text.

Spark is given these frames by name, so that what it makes of them lives on when the names are gone.
"""

from __future__ import annotations

from collections.abc import Sequence

from deltamerge.errors import AnalysisError, DeltaMergeError
from deltamerge.spark.expressions.identifiers import with_identifiers
from deltamerge.spark.expressions.queries import NO_SOURCE, asking_for_formats
from deltamerge.spark.pyspark.plain import plain_sql
from deltamerge.spark.read.views import TableViews
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.sql.lexer import Token
from deltamerge.spark.sql.literals import Arguments, with_arguments
from deltamerge.spark.sql.tables import name_at, tables_in
from deltamerge.spark.sql.text import keyword_at, tokens_of
from deltamerge.spark.sql.values import Formatted
from deltamerge.spark.sql.variables import with_variables
from deltamerge.statements.changes import BY_NAME, with_changes
from deltamerge.statements.rows.explain import MODES

# The first words of statements that Spark answers at once, with frames in the place of tables.
_QUERIES = frozenset(("(", "DESC", "DESCRIBE", "FROM", "INSERT", "MAP", "REDUCE", "SELECT", "SET", "TABLE", "VALUES", "WITH"))
# Where the place of an argument decides which table is read.
_BOUND = ("AS OF", "IDENTIFIER", BY_NAME.upper())


def run_query(spark: Session, ready: Formatted, arguments: Arguments | None) -> Frame | None:
    """The rows of a statement that names Delta tables which only this library reads; None where it sees none in it.

    Raises AnalysisError for a statement that can't be answered in this way.
    """
    # EXPLAIN says in its row, and by no error, that Spark can't read a table.
    found = _named(spark, ready, arguments, unread=_explained(tokens_of(ready.text) or []) is not None)
    if found is None:
        return None
    try:
        return _asked(spark, *found)
    except AnalysisError as error:
        if error.condition != NO_SOURCE:
            raise
        return run_unread(spark, ready, arguments, error)


def run_unread(spark: Session, ready: Formatted, arguments: Arguments | None, error: AnalysisError) -> Frame:
    """The rows of a statement for which Spark lacks a format, `error`, which is raised where that is not Delta's."""
    found = _named(spark, ready, arguments, unread=True)
    if found is None:
        raise error
    return _asked(spark, *found)


def _asked(spark: Session, ready: Formatted, arguments: Arguments | None) -> Frame:
    text = ready.text.replace("{", "{{").replace("}", "}}")
    text = Formatted(text).named({name: f"{{{name}}}" for name in ready.frames})
    with asking_for_formats(spark):
        return plain_sql(spark, text, arguments, **ready.frames)


def _named(
    spark: Session, ready: Formatted, arguments: Arguments | None, unread: bool
) -> tuple[Formatted, Arguments | None] | None:
    """The statement with frames in place of Delta tables, and the arguments that it still has; None where it names none."""
    if _sets_text(tokens_of(ready.text) or []):
        return None
    text = with_variables(spark, ready.text)
    if any(word in text.upper() for word in _BOUND):
        try:
            text, arguments = with_identifiers(spark, with_arguments(text, arguments)), None
        except DeltaMergeError:  # Spark says what is wrong, if anything is
            return None
    tokens = tokens_of(text) or []
    if _sets_text(tokens):
        return None
    target = _target(tokens)
    if [part.name.lower() for part in target[:-1]] == ["delta"]:
        raise _unsupported(
            tokens, "a Delta table", "Write rows by deltamerge.write(df, path, mode=..), which makes a table, too."
        )
    first = target[-1].behind if target else 0
    said = with_changes(spark, text[first:], views := TableViews(spark, registers=False))
    asks, paths = _keeps_no_text(tokens), [table for table in tables_in(said) if table.parts[0].lower() == "delta"]
    query = views.named(said, unread) if asks or not paths else said
    if not (views.frames or paths):
        return None
    if not asks:
        raise _unsupported(tokens, "a Delta table that Spark can't read itself", _instead_of(tokens))
    return Formatted(text[:first] + query, {**ready.frames, **views.frames}), arguments


_TEMPORARY = "Make a temporary view in each session: CREATE OR REPLACE TEMP VIEW name AS SELECT .."
_NO_FORMAT = "Use delta-spark for it; DESCRIBE, SHOW COLUMNS and SHOW TBLPROPERTIES tell of the table here."
_NO_PLAN = "EXPLAIN works for queries, MERGE, DELETE, UPDATE and INSERT."


def _instead_of(tokens: Sequence[Token]) -> str:
    """What may be used instead of a statement that is not supported."""
    if _explained(tokens) is not None:
        return _NO_PLAN
    return _TEMPORARY if "VIEW" in _leading(tokens) else _NO_FORMAT


def _explained(tokens: Sequence[Token]) -> int | None:
    """The place of the statement behind EXPLAIN and its mode; None where there is no EXPLAIN."""
    if keyword_at(tokens, 0) != "EXPLAIN":
        return None
    return 1 + (keyword_at(tokens, 1) in MODES)


def _target(tokens: Sequence[Token]) -> list[Token]:
    """The name of the table that a statement writes or makes, [] where it does neither."""
    at = 1
    if not _makes_table(tokens) and keyword_at(tokens, 0) != "INSERT":
        return []
    while keyword_at(tokens, at) in ("OR", "REPLACE", "EXTERNAL", "INTO", "OVERWRITE", "TABLE", "IF", "NOT", "EXISTS"):
        at += 1
    return name_at(tokens, at)


def _makes_table(tokens: Sequence[Token]) -> bool:
    begins = keyword_at(tokens, 0) in ("CREATE", "REPLACE")
    return begins and any(keyword_at(tokens, n) == "TABLE" for n in range(1, 5))


def _sets_text(tokens: Sequence[Token]) -> bool:
    """Whether a statement gives a setting its text, whatever that says; SET VARIABLE gives a variable the value of a query."""
    is_variable = keyword_at(tokens, 1) in ("VAR", "VARIABLE") and keyword_at(tokens, 2) != "="
    return keyword_at(tokens, 0) == "SET" and not is_variable


def _keeps_no_text(tokens: Sequence[Token]) -> bool:
    """Whether a statement is a query, or takes the rows of one: others keep its text, or are about the table itself."""
    return keyword_at(tokens, _explained(tokens) or 0) in _QUERIES or _makes_table(tokens)


def _unsupported(tokens: Sequence[Token], what: str, hint: str) -> AnalysisError:
    said = " ".join(_leading(tokens))
    return AnalysisError(
        "DELTAMERGE_UNSUPPORTED_STATEMENT",
        f"{said} is not supported for {what}.",
        parameters={"statement": said},
        hint=hint,
    )


def _leading(tokens: Sequence[Token]) -> list[str]:
    """The words that say what a statement is: its first ones, up to a name that is quoted or dotted."""
    words = [keyword_at(tokens, n) for n in range(min(len(tokens), 5))]
    kinds = ("VIEW", "TABLE", "FUNCTION", "BEGIN")
    end = next((n + 1 for n, word in enumerate(words) if word in kinds), 1)
    return words[:end]
