"""`CREATE [OR REPLACE] [GLOBAL] TEMP VIEW`: over Delta tables that Spark can't read the view is made of this library's frames.

A frame stays at the version that was the newest one when it was made. So the query is kept, and the view is made anew before each
statement that names it. Source: Spark's grammar, `createView`; a temporary view of Spark's is resolved at each use.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from deltamerge.errors import AnalysisError, InvalidArgumentError
from deltamerge.spark.expressions.queries import NO_SOURCE, asking, asking_for_formats, query_frame
from deltamerge.spark.plans.attributes import quoted
from deltamerge.spark.pyspark.plain import plain_sql
from deltamerge.spark.read.catalog import source_named, sql_name
from deltamerge.spark.read.kept_views import KeptView, aliased, are_kept, keep, kept_alias, kept_view, may_be_kept
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.rows import no_rows
from deltamerge.spark.sql.literals import literal_of
from deltamerge.spark.sql.reader import Reader
from deltamerge.spark.sql.tables import StandIn, name_at, tables_in, with_stand_ins
from deltamerge.spark.sql.text import keyword_at, tokens_of
from deltamerge.spark.sql.values import Formatted
from deltamerge.statements.clauses import not_allowed, one_name, properties, text
from deltamerge.statements.queries import run_query, run_unread
from deltamerge.statements.statement import Parser, Statement

# Behind these stands the table that a statement is about; `tables_in` finds those of queries.
_TARGETS = ("INTO", "UPDATE", "FROM", "USING", "OVERWRITE")
_WORDS = tuple(
    ("CREATE", *replaces, *is_global, word, "VIEW")
    for replaces in ((), ("OR", "REPLACE"))
    for is_global in ((), ("GLOBAL",))
    for word in ("TEMP", "TEMPORARY")
)


@dataclass(frozen=True, slots=True)
class CreateTempView:
    """A temporary view: its name, what it calls the columns of its query and says of them, () for their own names."""

    statement: str
    name: str
    query: str
    columns: tuple[tuple[str, str | None], ...] = ()
    replaces: bool = False
    is_global: bool = False

    def run(self, spark: Session) -> Frame:
        """No rows. Spark makes the view where it reads all that the query names. Raises AnalysisError."""
        query = _qualified(spark, self.query)
        if self.name.lower() in _below(spark, query):
            raise AnalysisError(
                "RECURSIVE_VIEW",
                f"The view {quoted(self.name)} would show itself.",
                parameters={"viewIdent": quoted(self.name)},
                hint="Give it another name.",
            )
        frame = self._kept_frame(spark)
        if frame is None:
            try:
                with asking_for_formats(spark):
                    return plain_sql(spark, self.statement)
            except AnalysisError as error:
                if error.condition != NO_SOURCE:
                    raise
                frame = run_unread(spark, Formatted(self.query), None, error)
        found = tuple(frame.columns)
        names = tuple(name for name, _ in self.columns) or found
        _check_names(self.name, found, names)
        comments = tuple(comment for _, comment in self.columns) or (None,) * len(found)
        view = KeptView(query, str(spark.catalog.currentDatabase()), found, names, comments, self.is_global)
        _make(self.name, view, frame, self.replaces)
        return no_rows(spark)

    def _kept_frame(self, spark: Session) -> Frame | None:
        """The rows of the query, if it names Delta tables by path or version, or views that are kept; None for others."""
        found = run_query(spark, Formatted(self.query), None)
        if found is None and any(may_be_kept(name[-1]) for name in _named(self.query)):
            return _rows(spark, self.query)
        return found


def parse_create_temp_view(words: tuple[str, ...]) -> Parser:
    """The parser of what follows these words."""

    def parse(reader: Reader) -> Statement | None:
        if reader.sees("IF"):  # Spark refuses it
            return None
        name = one_name(reader)
        columns = tuple(reader.listed(lambda: _column(reader))) if reader.sees("(") else ()
        while reader.sees("COMMENT") or reader.sees("TBLPROPERTIES"):
            if reader.take("COMMENT"):
                text(reader)
            else:
                reader.expect("TBLPROPERTIES")
                reader.enclosed()
        if reader.take("AS"):
            query = reader.rest()
        elif columns or not (reader.take("USING") and reader.take("DELTA")):  # columns would be a schema, which Spark refuses
            return None
        else:
            query = _table_query(reader)
        return CreateTempView(reader.text, name, query, columns, "REPLACE" in words, "GLOBAL" in words)

    return parse


def _table_query(reader: Reader) -> str:
    """The query of the table that OPTIONS name. Raises ParseError, InvalidArgumentError, AnalysisError."""
    reader.expect("OPTIONS")
    options = {name.lower(): value for name, value in properties(reader).items()}
    reader.end()
    path, version, time = (options.pop(name, None) for name in ("path", "versionasof", "timestampasof"))
    if options or (version is not None and time is not None):
        raise not_allowed(
            f"CREATE TEMP VIEW .. OPTIONS with {', '.join(options) or 'versionAsOf and timestampAsOf'}",
            "There are path, and one of versionAsOf and timestampAsOf.",
        )
    if path is None:
        raise InvalidArgumentError("DELTAMERGE_NO_PATH", "'path' is not specified.", hint="OPTIONS (path '..')")
    travel = "" if version is None else f" VERSION AS OF {literal_of(version)}"
    travel = travel if time is None else f" TIMESTAMP AS OF {literal_of(time)}"
    return " ".join(("SELECT *", f"FROM delta.{quoted(path)}{travel}"))


PARSERS = {words: parse_create_temp_view(words) for words in _WORDS}
"""By the words that such a statement begins with."""


def _column(reader: Reader) -> tuple[str, str | None]:
    return one_name(reader), text(reader) if reader.take("COMMENT") else None


def refresh_views(spark: Session, statement: str) -> None:
    """Have the kept views that a statement names show the newest versions of their tables. Raises AnalysisError."""
    for name in _named(statement):
        refresh_view(spark, name)


def refresh_view(spark: Session, name: Sequence[str]) -> None:
    """Have a view show the newest versions of its tables, if its query is kept; nothing to do for another name.

    Raises AnalysisError.
    """
    view = _kept(spark, name)
    if view is None:
        return
    with _database(spark, view.database):
        refresh_views(spark, view.query)
        frame = _rows(spark, view.query)
    missing = [column for column in view.columns if column not in frame.columns]
    if missing:
        raise AnalysisError(
            "INCOMPATIBLE_VIEW_SCHEMA_CHANGE",
            f"The view {sql_name(name)} has a column {missing[0]} that its query has no more.",
            parameters={"viewName": sql_name(name), "colName": missing[0]},
            hint="Make the view anew: CREATE OR REPLACE TEMP VIEW.",
        )
    _make(name[-1], view, frame, replaces=True)


def _named(statement: str) -> list[tuple[str, ...]]:
    """The tables and views that a statement reads or writes, once each, as far as their names may be those of kept views."""
    tokens = (tokens_of(statement) or []) if are_kept() else []
    if keyword_at(tokens, 0) == "DROP" or not any(may_be_kept(token.name) for token in tokens):
        return []
    found = [table.parts for table in tables_in(statement, plain=True) if table.is_plain]
    targets = (name_at(tokens, n + 1) for n in range(len(tokens)) if keyword_at(tokens, n) in _TARGETS)
    found += [tuple(part.name for part in name) for name in targets if name]
    return [name for name in dict.fromkeys(found) if may_be_kept(name[-1])]


def _qualified(spark: Session, query: str) -> str:
    """The query with whole names of Delta tables: a view that takes such a name later stands for no table of it."""
    found = [(table, source_named(spark, table.parts)) for table in tables_in(query, plain=True) if table.is_plain]
    views = [StandIn(table, known.name, sql_name(known.name)) for table, known in found if known is not None]
    return with_stand_ins(query, views)


def _below(spark: Session, query: str) -> Iterator[str]:
    """The names of what a query reads without a database, and of what the kept views among them read, in lower case."""
    for table in tables_in(query, plain=True):
        if len(table.parts) == 1:
            yield table.parts[0].lower()
    for name in _named(query):
        view = _kept(spark, name)
        if view is not None:
            yield from _below(spark, view.query)


def _kept(spark: Session, name: Sequence[str]) -> KeptView | None:
    if not may_be_kept(name[-1]):
        return None
    try:
        alias = kept_alias(query_frame(spark, f"TABLE {sql_name(name)}"))  # on Connect spark.table asks spark.read, and so us
    except AnalysisError:  # there is none any more, or Spark says what is wrong with it
        return None
    return None if alias is None else kept_view(alias)


def _rows(spark: Session, query: str) -> Frame:
    """The rows of a query, lazily. Raises AnalysisError."""
    found = run_query(spark, Formatted(query), None)
    if found is not None:
        return found
    try:
        with asking(spark):
            frame = plain_sql(spark, query)
            frame.schema  # noqa: B018 - a Connect client analyses only when asked
            return frame
    except AnalysisError as error:
        if error.condition != NO_SOURCE:
            raise
        return run_unread(spark, Formatted(query), None, error)


def _make(name: str, view: KeptView, frame: Frame, replaces: bool) -> None:
    """Give a view's name to the rows of its query. Raises AnalysisError where another view has it that is not to be replaced."""
    if tuple(frame.columns) != view.names or any(view.comments):
        columns = [_shown(*column) for column in zip(view.columns, view.names, view.comments, strict=True)]
        frame = frame.select(*columns)
    shown, view_name = aliased(frame, keep(name, view)), quoted(name)
    with asking(frame.sparkSession):
        if view.is_global:
            (shown.createOrReplaceGlobalTempView if replaces else shown.createGlobalTempView)(view_name)
        else:
            (shown.createOrReplaceTempView if replaces else shown.createTempView)(view_name)


def _shown(column: str, name: str, comment: str | None) -> Column:
    metadata = {} if comment is None else {"metadata": {"comment": comment}}
    return F.col(quoted(column)).alias(name, **metadata)


def _check_names(view: str, found: tuple[str, ...], names: tuple[str, ...]) -> None:
    if len(found) != len(names):
        raise AnalysisError(
            "CREATE_VIEW_COLUMN_ARITY_MISMATCH.NOT_ENOUGH_DATA_COLUMNS"
            if len(found) < len(names)
            else "CREATE_VIEW_COLUMN_ARITY_MISMATCH.TOO_MANY_DATA_COLUMNS",
            f"The view {quoted(view)} names {len(names)} columns, its query has {len(found)}.",
            parameters={"viewName": view, "viewColumns": list(names), "dataColumns": list(found)},
            hint="Name as many columns as the query has.",
        )
    for columns in (names, found):
        lower = [name.lower() for name in columns]
        twice = next((name for name in columns if lower.count(name.lower()) > 1), None)
        if twice is not None:
            raise AnalysisError(
                "COLUMN_ALREADY_EXISTS",
                f"The view {quoted(view)} would have the column {quoted(twice)} twice.",
                parameters={"columnName": quoted(twice)},
                hint="Give the columns of the query names of their own.",
            )


@contextlib.contextmanager
def _database(spark: Session, name: str) -> Iterator[None]:
    """Names are found in this database meanwhile."""
    before = str(spark.catalog.currentDatabase())
    if before == name:
        yield
        return
    spark.catalog.setCurrentDatabase(name)
    try:
        yield
    finally:
        spark.catalog.setCurrentDatabase(before)
