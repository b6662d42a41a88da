"""SQL text run on a session: the statements that this library answers, all others by Spark."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from deltamerge.commands.rows.merge_text import run_merge_text
from deltamerge.commands.table.create import Creation
from deltamerge.errors import AnalysisError, DeltaMergeError, ParseError
from deltamerge.merge.statement.parse import says_merge
from deltamerge.spark.expressions.identifiers import with_identifiers
from deltamerge.spark.expressions.queries import NO_SOURCE, asking_for_formats
from deltamerge.spark.pyspark.plain import plain_sql
from deltamerge.spark.read.catalog import NotDelta, delta_named, table_only
from deltamerge.spark.read.views import TableViews
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.jobs import condition_in
from deltamerge.spark.sql.literals import Arguments, with_arguments
from deltamerge.spark.sql.reader import Reader
from deltamerge.spark.sql.tables import name_at
from deltamerge.spark.sql.text import makes_name, tokens_of
from deltamerge.spark.sql.values import Formatted, formatted
from deltamerge.spark.sql.variables import with_variables
from deltamerge.statements.layout.optimize import parse_optimize, parse_reorg
from deltamerge.statements.layout.restore import parse_restore
from deltamerge.statements.layout.vacuum import parse_vacuum
from deltamerge.statements.misspelt import meant_start
from deltamerge.statements.queries import run_query, run_unread
from deltamerge.statements.rows.delete import parse_delete
from deltamerge.statements.rows.explain import EXPLAINED
from deltamerge.statements.rows.insert import parse_insert
from deltamerge.statements.rows.update import parse_update
from deltamerge.statements.statement import Parser, Statement
from deltamerge.statements.table.alter import parse_alter_table, parse_comment, parse_show_properties
from deltamerge.statements.table.cache import parse_cache, parse_refresh, parse_uncache
from deltamerge.statements.table.convert import parse_convert
from deltamerge.statements.table.create import parse_external, parser_of
from deltamerge.statements.table.describe import parse_describe, parse_show_columns, parse_show_partitions
from deltamerge.statements.table.detail import parse_detail, parse_history
from deltamerge.statements.table.drop import parse_drop, parse_truncate
from deltamerge.statements.table.generate import parse_generate
from deltamerge.statements.temp_views import PARSERS as TEMP_VIEWS
from deltamerge.statements.temp_views import refresh_views
from deltamerge.statements.with_queries import changes_rows, parse_with

# What Spark's internal error says of a view in the place of a table whose rows are to be deleted.
_NO_TABLE = "Unexpected table relation"
# By the words that a statement begins with.
_PARSERS: Mapping[tuple[str, ...], Parser] = {
    ("INSERT",): parse_insert,
    ("OPTIMIZE",): parse_optimize,
    ("REORG", "TABLE"): parse_reorg,
    ("RESTORE",): parse_restore,
    ("VACUUM",): parse_vacuum,
    ("GENERATE",): parse_generate,
    ("CONVERT", "TO", "DELTA"): parse_convert,
    ("CREATE", "TABLE"): parser_of(Creation.CREATE),
    ("CREATE", "EXTERNAL", "TABLE"): parse_external,
    **TEMP_VIEWS,
    ("CREATE", "OR", "REPLACE", "TABLE"): parser_of(Creation.CREATE_OR_REPLACE),
    ("REPLACE", "TABLE"): parser_of(Creation.REPLACE),
    ("DELETE", "FROM"): parse_delete,
    ("UPDATE",): parse_update,
    **EXPLAINED,
    ("DESCRIBE", "HISTORY"): parse_history,
    ("DESC", "HISTORY"): parse_history,
    ("DESCRIBE", "DETAIL"): parse_detail,
    ("DESC", "DETAIL"): parse_detail,
    ("WITH",): parse_with,
    ("ALTER", "TABLE"): parse_alter_table,
    ("SHOW", "TBLPROPERTIES"): parse_show_properties,
    ("COMMENT", "ON", "TABLE"): parse_comment,
    ("DESCRIBE",): parse_describe,
    ("DESC",): parse_describe,
    ("SHOW", "COLUMNS"): parse_show_columns,
    ("SHOW", "PARTITIONS"): parse_show_partitions,
    ("DROP", "TABLE"): parse_drop,
    ("TRUNCATE", "TABLE"): parse_truncate,
    ("REFRESH", "TABLE"): parse_refresh,
    ("UNCACHE", "TABLE"): parse_uncache,
    ("CACHE", "TABLE"): parse_cache,
    ("CACHE", "LAZY", "TABLE"): parse_cache,
}
# Those that Spark may answer for tables of other formats.
_OF_OTHERS = (
    ("INSERT",),
    ("DELETE", "FROM"),
    ("UPDATE",),
    *EXPLAINED,
    ("WITH",),
    ("ALTER", "TABLE"),
    ("SHOW", "TBLPROPERTIES"),
    ("COMMENT", "ON", "TABLE"),
    ("DESCRIBE",),
    ("DESC",),
    ("SHOW", "COLUMNS"),
    ("SHOW", "PARTITIONS"),
    ("DROP", "TABLE"),
    ("TRUNCATE", "TABLE"),
    ("REFRESH", "TABLE"),
    ("UNCACHE", "TABLE"),
    ("CACHE", "TABLE"),
    ("CACHE", "LAZY", "TABLE"),
)
# What a misspelt statement may have been meant to be.
STARTS = frozenset({*_PARSERS, ("MERGE", "INTO"), ("SELECT",)})
# What is said of one: Spark takes the second word of a misspelt DESCRIBE HISTORY for a table, and that of ALTR TABLE for a query.
_SAID_OF_MISSPELT = ("PARSE_SYNTAX_ERROR", "TABLE_OR_VIEW_NOT_FOUND", "DELTAMERGE_UNSUPPORTED_STATEMENT")
# What else may stand before the table's name.
_BEFORE_NAME = (
    "INSERT",
    "UPDATE",
    "DELETE",
    "FROM",
    "WITH",
    "SCHEMA",
    "EVOLUTION",
    "INTO",
    "OVERWRITE",
    "TABLE",
    "EXTENDED",
    "FORMATTED",
    "IF",
    "EXISTS",
    "IN",
)


def run_sql(spark: Session, text: str, arguments: Arguments | None = None, values: Mapping[str, Any] | None = None) -> Frame:
    """Run a statement of Delta's and return its rows; what is none goes to Spark unchanged.

    `values` stand in the text between braces, as `spark.sql` takes them. Raises DeltaMergeError, and whatever Spark raises.
    """
    values = values or {}
    ready = formatted(text, values)
    if ready is None:  # Spark says what is wrong with it
        return plain_sql(spark, text, arguments, **values)
    try:
        return _run_ready(spark, text, ready, arguments, values)
    except Exception as error:
        condition, message = _said(error)
        meant = meant_start(ready.text, STARTS) if condition in _SAID_OF_MISSPELT else None
        if meant is None:
            raise
        raise ParseError("PARSE_SYNTAX_ERROR", message, hint=f"Did you mean {meant}?") from error


def _said(error: Exception) -> tuple[str, str]:
    """The condition that an error names, and what it says of the statement."""
    return (error.condition, error.detail) if isinstance(error, DeltaMergeError) else condition_in(error)


def _run_ready(spark: Session, text: str, ready: Formatted, arguments: Arguments | None, values: Mapping[str, Any]) -> Frame:
    refresh_views(spark, ready.text)
    found = _run(spark, ready, arguments)
    if found is None:
        found = run_query(spark, ready, arguments)
    if found is not None:
        return found
    try:
        with asking_for_formats(spark):
            return plain_sql(spark, text, arguments, **values)
    except AnalysisError as error:
        if error.condition != NO_SOURCE:
            raise
        return run_unread(spark, ready, arguments, error)
    except Exception as error:
        if _NO_TABLE not in str(error):
            raise
        name = _about(with_identifiers(spark, with_arguments(ready.text, arguments)))
        target = delta_named(spark, name) if name else None
        if not isinstance(target, NotDelta):
            raise
        raise table_only(name, target, "DELETE") from error


def _run(spark: Session, ready: Formatted, arguments: Arguments | None) -> Frame | None:
    """The rows of a statement that is run at once; None for one that is Spark's. The frames are temporary views to it."""
    ready = replace(ready, text=with_variables(spark, ready.text))  # they may be a part of the words that say what it is
    if not ready.frames:
        return _run_text(spark, ready.text, arguments)
    if not says_merge(ready.text) and _parser(ready.text) is None:
        return None
    with TableViews(spark) as views:
        return _run_text(spark, ready.named({name: views.add(frame) for name, frame in ready.frames.items()}), arguments)


def _run_text(spark: Session, text: str, arguments: Arguments | None) -> Frame | None:
    found = run_merge_text(spark, text, arguments)
    if found is not None:
        return found
    statement = _parsed(spark, text, arguments)
    return None if statement is None else statement.run(spark)


def _parsed(spark: Session, text: str, arguments: Arguments | None) -> Statement | None:
    """The statement that a text without variables is; None for Spark's own."""
    parser = _parser(text)
    if parser is None:
        return None
    try:
        return _read(parser, with_identifiers(spark, with_arguments(text, arguments)))
    except DeltaMergeError:
        if _is_sparks(spark, parser, text):
            return None
        raise


def _read(parser: Parser, text: str) -> Statement | None:
    reader, words = Reader(text, tokens_of(text) or ()), _words(text)
    reader.go_to(len(words))
    return parser(reader)


def _is_sparks(spark: Session, parser: Parser, text: str) -> bool:
    """Whether a statement that this library can't read is about another format's table, which the text has to name.

    Spark may take what has no literal here, and other words than Delta's statements have.
    """
    with contextlib.suppress(ParseError, AnalysisError):
        if _read(parser, text) is None:
            return True
    name = _about(text)
    try:
        return bool(name) and isinstance(delta_named(spark, name), NotDelta)
    except AnalysisError:
        return False


def _about(text: str) -> list[str]:
    """The name of the table that a statement changes; [] where the text does not say it, or the statement is Delta's alone."""
    tokens, words = tokens_of(text) or [], _words(text)
    if words not in _OF_OTHERS:
        return []
    reader = Reader(text, tokens)
    if words == ("WITH",):
        reader.ctes()
    else:
        reader.go_to(len(words))
    while any(map(reader.sees, _BEFORE_NAME)):
        reader.go_to(reader.behind + 1)
    name = name_at(tokens, reader.behind)
    made = any(makes_name(tokens, n) for n in range(reader.behind, min(len(tokens), reader.behind + 2 * len(name))))
    return [] if made else [part.name for part in name]


def _parser(text: str) -> Parser | None:
    words = _words(text)
    return _PARSERS.get(words) if words else None


def _words(text: str) -> tuple[str, ...]:
    """The words that a known statement begins with; () for a text that begins with those of none."""
    reader = Reader(text, tokens_of(text) or ())
    found = next((words for words in _PARSERS if all(reader.sees(word, n) for n, word in enumerate(words))), ())
    return () if found == ("WITH",) and not changes_rows(reader) else found
