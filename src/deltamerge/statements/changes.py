"""`table_changes('table', start[, end])` and `table_changes_by_path('path', start[, end])` in queries.

A bound is a version where it is a whole number, else a time. Source: delta-spark's DeltaTableValueFunctions.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltamerge.errors import AnalysisError, InvalidArgumentError
from deltamerge.log.feed.range import FeedBounds
from deltamerge.log.replay.commit_times import milliseconds
from deltamerge.spark.expressions.queries import query_frame
from deltamerge.spark.read.catalog import target_named
from deltamerge.spark.read.feed import changes_frame
from deltamerge.spark.read.views import TableViews
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.settings import time_zone
from deltamerge.spark.session.storage import open_table
from deltamerge.spark.sql.lexer import Token
from deltamerge.spark.sql.reader import Reader
from deltamerge.spark.sql.tables import partner
from deltamerge.spark.sql.text import keyword_at, name_parts_of, replaced, tokens_of

BY_NAME, BY_PATH = "table_changes", "table_changes_by_path"


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of one of the functions at the places [first, behind) of a text, and the texts of its arguments."""

    function: str
    first: int
    behind: int
    arguments: tuple[str, ...]


def with_changes(spark: Session, text: str, views: TableViews) -> str:
    """The text with a view in place of each call of the functions. Raises AnalysisError."""
    calls = _calls(text)
    return replaced(text, [(call.first, call.behind, views.add(_changes(spark, call))) for call in calls])


def _calls(text: str) -> list[_Call]:
    tokens = tokens_of(text) or []
    found = []
    for n, token in enumerate(tokens):
        if keyword_at(tokens, n).lower() in (BY_NAME, BY_PATH) and keyword_at(tokens, n + 1) == "(" and _reads(tokens, n):
            last = partner(tokens, n + 1)
            if last < len(tokens):
                reader = Reader(text, tokens)
                reader.go_to(n + 1)
                arguments = reader.listed(lambda reader=reader: reader.expression(","))  # type: ignore[misc]
                found.append(_Call(token.text.lower(), token.start, tokens[last].behind, tuple(arguments)))
    return found


def _reads(tokens: list[Token], n: int) -> bool:
    """Whether a table can stand here: behind FROM, JOIN or a comma of such a list."""
    return keyword_at(tokens, n - 1) in ("FROM", "JOIN", ",", "(", "LATERAL")


def _changes(spark: Session, call: _Call) -> Frame:
    if len(call.arguments) not in (2, 3):
        raise AnalysisError(
            "INCORRECT_NUMBER_OF_ARGUMENTS",
            f"{call.function} takes 2 or 3 arguments, found {len(call.arguments)}.",
            parameters={"functionName": call.function, "minArgs": 2, "maxArgs": 3},
            hint="Give the table, the version or time at which the changes begin, and perhaps the one at which they end.",
        )
    values = [f"STRING({argument}), TYPEOF({argument})" for argument in call.arguments]
    name, _, *found = query_frame(spark, f"SELECT {', '.join(values)}").collect()[0]
    zone = time_zone(spark)
    start, *end = [_bound(value, type, zone) for value, type in zip(found[::2], found[1::2], strict=True)]
    if call.function == BY_PATH:
        location = str(name)
    else:
        location = target_named(spark, name_parts_of(str(name)) or (str(name),), call.function).location
    bounds = FeedBounds(*start, *(end[0] if end else (None, None)))
    return changes_frame(spark, open_table(spark, location), bounds)


def _bound(value: str | None, type: str, zone: str) -> tuple[int | None, int | None]:
    """The version that a bound is, or the time in ms."""
    if value is None:
        raise InvalidArgumentError(
            "DELTA_CDC_READ_NULL_RANGE_BOUNDARY",
            "The changes of a table can't begin or end at NULL.",
            hint="Give a version or a time; leave the end out for all changes up to the newest version.",
        )
    if type in ("tinyint", "smallint", "int", "bigint"):
        return int(value), None
    if type in ("string", "timestamp", "timestamp_ntz", "date"):
        return None, milliseconds(value, zone)
    raise AnalysisError(
        "DELTA_UNSUPPORTED_EXPRESSION",
        f"The changes of a table begin and end at a version or a time, found {value} of type {type}.",
        parameters={"expType": type},
        hint="Give a whole number, or a time as text or TIMESTAMP.",
    )
