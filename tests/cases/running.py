"""One case run by one engine, and what came of it in the words of a case."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from deltamerge.budgets import using
from tests.cases.format import Call, Case
from tests.cases.tables import Rows, Tables, content, feed, last_commit, newest, source_view
from tests.e2e.tables import LARGE_SOURCES

_TARGET = re.compile(r"(?i)(\bINTO\s+)t\b(\s+AS\s+\w+|\s+(?!USING\b)\w+)?")
_CONDITION = re.compile(r"\[([A-Z_][A-Z0-9_]{5,}(?:\.[A-Z0-9_]+)*)\]")
_UNKNOWN = re.compile(r"Cannot find main error class '([A-Z0-9_.]+)'")
_FEED = ("delta.enableChangeDataFeed", "true")
Sql = Callable[[SparkSession, str], Any]


@dataclass(frozen=True)
class Engine:
    """Who runs a merge: its `sql`, its `DeltaTable`, settings of the session for it, and what else holds meanwhile."""

    sql: Sql
    table: Any
    settings: tuple[tuple[str, str], ...] = ()
    within: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext


@contextlib.contextmanager
def large_sources() -> Iterator[None]:
    """Every source counts as too large to be held, and a filter of its keys as worth its while."""
    with using(**LARGE_SOURCES, bloom_rows_per_key=0):
        yield


@contextlib.contextmanager
def spliced() -> Iterator[None]:
    """Every file that is written again is spliced, however small, if it can be."""
    with using(small_file_bytes=0):
        yield


@dataclass(frozen=True)
class Outcome:
    """How a merge ended: rows and counts, or an error's condition, message and class; whether it made a version."""

    content: Rows
    counts: tuple[int, int, int] | None
    error: str | None = None
    message: str = ""
    committed: bool = False
    metrics: dict[str, str] = field(default_factory=dict)
    feed: Rows | None = None
    raised: type[Exception] | None = None


def run_case(spark: SparkSession, case: Case, tables: Tables, engine: Engine, vectors: bool) -> Outcome:
    """Run a case on a fresh copy of its target."""
    return run_at(spark, case, tables.copy_of(case.target, vectors), engine)


def run_at(spark: SparkSession, case: Case, path: Path, engine: Engine) -> Outcome:
    """Run a case on the table at a path, which it changes."""
    if case.source is not None:
        source_view(spark, case.source)
    before = newest(path)
    with _settings(spark, (*case.settings, *engine.settings)), engine.within():
        try:
            row = _merge(spark, case, engine, path).collect()[0]
        except Exception as error:
            committed = newest(path).version > before.version
            return Outcome(content(path), None, condition_of(error), str(error), committed, raised=type(error))
    committed = newest(path).version > before.version
    metrics = last_commit(path)["commitInfo"][0].get("operationMetrics", {}) if committed else {}
    changes = feed(path, before) if committed and _FEED in case.target.properties else None
    counts = (int(row["num_updated_rows"]), int(row["num_deleted_rows"]), int(row["num_inserted_rows"]))
    return Outcome(content(path), counts, None, "", committed, metrics, changes)


def _merge(spark: SparkSession, case: Case, engine: Engine, path: Path) -> Any:
    if case.statement is not None:
        return engine.sql(spark, statement_for(case.statement, path))
    table = engine.table.forPath(spark, str(path)).alias("t")
    first, *calls = case.builder
    builder = table.merge(spark.table("s").alias("s"), first.condition)
    for call in calls:
        builder = _called(builder, call)
    return builder.execute()


def _called(builder: Any, call: Call) -> Any:
    arguments: list[Any] = [] if call.condition is None else [call.condition]
    if call.assignments is not None:
        values = dict(call.assignments)
        word = "values" if "Insert" in call.method else "set"
        return getattr(builder, call.method)(*arguments, **{word: values})
    return getattr(builder, call.method)(*arguments)


def statement_for(text: str, path: Path) -> str:
    """A case's statement about the table at a path: `INTO t` and `{t}` stand for it."""

    def named(match: re.Match[str]) -> str:
        return f"{match[1]}delta.`{path}`{match[2] or ' AS t'}"

    return _TARGET.sub(named, text).replace("{t}", f"delta.`{path}`")


def condition_of(error: BaseException) -> str:
    """The condition name of an error; that of its cause where Spark wraps one in another."""
    own = getattr(error, "getCondition", lambda: None)() or ""
    unknown = _UNKNOWN.search(str(error))
    if unknown is not None:  # the name is not Spark's own, so that Spark's Python side can't look up its text
        return unknown[1]
    named = [name for name in _CONDITION.findall(str(error)) if not name.startswith(_WRAPPERS)]
    if own and not own.startswith(_WRAPPERS):
        return own
    return named[0] if named else own or type(error).__name__


_WRAPPERS = ("FAILED_EXECUTE_UDF", "TASK_WRITE_FAILED", "FAILED_READ_FILE", "DELTA_MERGE_MATERIALIZE", "INTERNAL_ERROR")


@contextlib.contextmanager
def _settings(spark: SparkSession, settings: tuple[tuple[str, str], ...]) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name, _ in settings}
    for name, value in settings:
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)
