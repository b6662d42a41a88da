"""Expressions at a given time: what asks for the time of the statement replaced by a literal.

Spark gives each query a time of its own, and a merge may take several queries.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cache

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from deltamerge.spark.expressions.expression import Expression, tells_time
from deltamerge.spark.pyspark.adapter import analyzed_plan, with_texts
from deltamerge.spark.pyspark.plain import plain_sql
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.rows import bare_row
from deltamerge.spark.session.settings import settings
from deltamerge.spark.sql.clock import CLOCKS, asks_time, at_time, has_moment
from deltamerge.spark.sql.text import called_in, has_subquery, name_parts, united, words_of

_UNABRIDGED = {"spark.sql.debug.maxToStringFields": "100000"}
# How Spark prints the call of a function that does not go by its own name.
_PRINTED = {"curdate": "current_date"}
# What stands before a parenthesis in a text, and is no function.
_NO_FUNCTIONS = frozenset(("and", "or", "not", "in", "is", "when", "then", "else", "case", "cast", "try_cast", "if", "decimal"))


@dataclass(frozen=True)
class Clock:
    """A time in microseconds since 1970, and what stands for it: the functions `own` to Spark, but for names of `columns`.

    `days` since 1970 is its date in the session's time zone, if that is known.
    """

    micros: int
    own: frozenset[str]
    columns: frozenset[str]
    days: int | None = None

    def text(self, text: str) -> str:
        """SQL text at that time."""
        return at_time(text, self.micros, self.own, self.columns)

    def expression(self, spark: Session, expression: Expression) -> Expression:
        """An expression at that time; it stays as it is where it can't be taken apart."""
        column = with_texts(expression.column, spark, self.text) if tells_time(expression) else None
        return expression if column is None else replace(expression, build=lambda: column, has_time=True)


def frame_asks_time(frame: Frame) -> bool:
    """Whether the rows of a frame may depend on the time at which they are evaluated; True when in doubt. No job runs."""
    plan = _whole_plan(frame)
    return not plan or asks_time(plan) or has_moment(plan)


def _whole_plan(frame: Frame) -> str:
    plan = analyzed_plan(frame)
    if " more fields" in plan and not asks_time(plan):
        with settings(frame.sparkSession, _UNABRIDGED):
            plan = analyzed_plan(frame)
    return plan


def first_asking(frame: Frame, expressions: Sequence[Expression]) -> Expression | None:
    """The first of some expressions that may ask for the time of their statement, over a frame that doesn't; None if none does.

    A text such as 'now' that is cast asks for no such time: in delta-spark, too, it is a moment of its own.
    """
    if not _ask(frame, expressions):
        return None
    return next((expression for expression in expressions if _ask(frame, [expression])), None)


def _ask(frame: Frame, expressions: Sequence[Expression]) -> bool:
    plan = _whole_plan(_with(frame, expressions))
    return not plan or asks_time(plan)


def _with(frame: Frame, expressions: Sequence[Expression]) -> Frame:
    return frame.select(F.lit(1).alias("one"), *[found.column.alias(f"c{number}") for number, found in enumerate(expressions)])


def empty_like(frame: Frame) -> Frame:
    """A frame with the same columns and no rows, which asks for nothing."""
    return frame.sparkSession.createDataFrame([], frame.schema)


def may_ask_time(expression: Expression) -> bool:
    """Whether an expression may ask for the time, be it within a function or a view of the session."""
    parts = name_parts(expression.tree)
    if parts and CLOCKS.isdisjoint(part.lower() for part in parts):
        return False
    return asks_unseen(expression) or tells_time(expression)


def asks_unseen(expression: Expression) -> bool:
    """Whether an expression may ask for the time, or read tables, where it can't be seen: within a function or a query."""
    if name_parts(expression.tree):
        return False
    called = called_in(expression.text)
    return called is None or not called <= _known() or has_subquery(expression.tree, expression.text)


def time_of(spark: Session) -> tuple[int, int] | None:
    """Spark's time in microseconds since 1970, and its date in days; None where the session has functions of its own for them."""
    if own_clocks(spark, ["current_timestamp() = current_date()"]) != {"current_timestamp", "current_date"}:
        return None
    query = "SELECT CAST(current_timestamp() AS DECIMAL(20, 6)) AS seconds, CAST(current_date() AS STRING) AS day FROM VALUES (1)"
    seconds, day = plain_sql(spark, query).collect()[0]
    try:
        return int(seconds.scaleb(6)), (date.fromisoformat(day) - date(1970, 1, 1)).days
    except ValueError:  # beyond the years that Python knows
        return None


@cache
def _known() -> frozenset[str]:
    """The names of functions that ask for nothing behind their names."""
    return frozenset(name.lower() for name in getattr(F, "__all__", ())) | _NO_FUNCTIONS


def own_clocks(spark: Session, texts: Iterable[str]) -> frozenset[str]:
    """Those functions that ask for the time and that texts may call which are Spark's, not the session's own of that name."""
    words = united(map(words_of, texts))
    said = CLOCKS if words is None else CLOCKS & words
    return frozenset(name for name in said if _is_own(spark, name))


def _is_own(spark: Session, name: str) -> bool:
    printed = _PRINTED.get(name, name)
    try:
        plan = analyzed_plan(bare_row(spark).select(F.expr(f"{name}()").alias("c")))
    except AnalysisException:
        return False
    return re.search(rf"^Project \[{printed}\((?:[^()]|\([^()]*\))*\) AS c#\d+L?\]$", plan.strip(), re.MULTILINE) is not None
