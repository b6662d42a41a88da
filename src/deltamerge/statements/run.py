"""SQL text run on a session: the statements that this library answers, all others by Spark."""

from __future__ import annotations

from collections.abc import Mapping

from deltamerge.commands.table.create import Creation
from deltamerge.merge.sql import run_merge_text
from deltamerge.spark.expressions.identifiers import with_identifiers
from deltamerge.spark.expressions.queries import asking_for_formats
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.sql.literals import Arguments, with_arguments
from deltamerge.spark.sql.reader import Reader
from deltamerge.spark.sql.text import tokens_of
from deltamerge.spark.sql.variables import with_variables
from deltamerge.statements.create_table import parser_of
from deltamerge.statements.optimize import parse_optimize
from deltamerge.statements.restore import parse_restore
from deltamerge.statements.statement import Parser, Statement
from deltamerge.statements.vacuum import parse_vacuum

# By the words that a statement begins with.
_PARSERS: Mapping[tuple[str, ...], Parser] = {
    ("OPTIMIZE",): parse_optimize,
    ("RESTORE",): parse_restore,
    ("VACUUM",): parse_vacuum,
    ("CREATE", "TABLE"): parser_of(Creation.CREATE),
    ("CREATE", "OR", "REPLACE", "TABLE"): parser_of(Creation.CREATE_OR_REPLACE),
    ("REPLACE", "TABLE"): parser_of(Creation.REPLACE),
}


def run_sql(spark: Session, text: str, arguments: Arguments | None = None) -> Frame:
    """Run a statement of Delta's and return its rows; what is none goes to Spark unchanged."""
    found = run_merge_text(spark, text, arguments)
    if found is not None:
        return found
    statement = _parsed(spark, text, arguments)
    found = None if statement is None else statement.run(spark)
    if found is not None:
        return found
    with asking_for_formats(spark):
        frame: Frame = spark.sql(text) if arguments is None else spark.sql(text, arguments)  # type: ignore[arg-type]
        return frame


def _parsed(spark: Session, text: str, arguments: Arguments | None) -> Statement | None:
    """The statement that a text is; None for Spark's own."""
    parser = _parser(text)
    if parser is None:
        return None
    ready = with_identifiers(spark, with_arguments(with_variables(spark, text), arguments))
    reader, words = Reader(ready, tokens_of(ready) or ()), _words(ready)
    reader.go_to(len(words))
    return parser(reader)


def _parser(text: str) -> Parser | None:
    words = _words(text)
    return _PARSERS.get(words) if words else None


def _words(text: str) -> tuple[str, ...]:
    """The words that a known statement begins with; () for a text that begins with those of none."""
    reader = Reader(text, tokens_of(text) or ())
    return next((words for words in _PARSERS if all(reader.sees(word, n) for n, word in enumerate(words))), ())
