"""`CREATE TABLE`, `REPLACE TABLE` and `CREATE OR REPLACE TABLE` of Delta tables, with `AS SELECT` or without."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from deltamerge.commands.table.create import Creation
from deltamerge.commands.table.create_named import CreateNamed, create_named
from deltamerge.commands.table.definition import TableDefinition
from deltamerge.spark.read.catalog import is_path
from deltamerge.spark.read.views import TableViews
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.rows import no_rows
from deltamerge.spark.sql.reader import Reader
from deltamerge.statements.clauses import (
    ColumnText,
    any_name,
    column,
    columns_of,
    not_allowed,
    one_name,
    properties,
    text,
)
from deltamerge.statements.statement import Parser, Statement
from deltamerge.statements.table.clone import parse_clone
from deltamerge.statements.table.create_like import left_to_delta, parse_like

_FOREIGN = ("CLUSTERED", "SORTED", "SKEWED", "STORED", "ROW", "OPTIONS", "DEFAULT", "WITH")
_QUERIES = ("AS", "SELECT", "WITH", "TABLE", "VALUES", "FROM", "(")


@dataclass(frozen=True, slots=True)
class CreateTableStatement:
    """A table as a statement says it."""

    name: tuple[str, ...]
    creation: Creation
    columns: tuple[ColumnText, ...] = ()
    definition: TableDefinition = field(default_factory=TableDefinition)
    location: str | None = None
    query: str | None = None

    def run(self, spark: Session) -> Frame | None:
        """Make the table. Where delta-spark is the catalog, tables by name are made by it."""
        if left_to_delta(spark, self.name):
            return None
        definition = replace(self.definition, columns=columns_of(list(self.columns)))
        request = CreateNamed(self.name, self.creation, definition, self.location)
        if self.query is None:
            create_named(spark, request)
        else:
            with TableViews(spark) as views:
                create_named(spark, replace(request, query=lambda: views.query(f"({self.query})")))
        return no_rows(spark)


def parser_of(creation: Creation) -> Parser:
    """The parser of what follows `CREATE TABLE` and the like; None for a table of another format."""

    def parse(reader: Reader) -> Statement | None:
        asked = creation
        if creation is Creation.CREATE and reader.take("IF"):
            reader.expect("NOT")
            reader.expect("EXISTS")
            asked = Creation.CREATE_IF_NOT_EXISTS
        name = any_name(reader)
        if reader.sees("SHALLOW") and reader.sees("CLONE", 1):
            return parse_clone(reader, name, asked)
        if reader.sees("LIKE") and not creation.replaces:
            return parse_like(reader, name, asked)
        format = _format(reader)
        if format != "DELTA" and (format or not is_path(name)):
            return None
        return _statement(reader, CreateTableStatement(name, asked))

    return parse


def parse_external(reader: Reader) -> Statement | None:
    """What follows `CREATE EXTERNAL TABLE`; None for a table of another format. Raises ParseError, AnalysisError."""
    found = parser_of(Creation.CREATE)(reader)
    if isinstance(found, CreateTableStatement) and found.location is None and not is_path(found.name):
        raise not_allowed("CREATE EXTERNAL TABLE without LOCATION", "Say where it lies: LOCATION '..'; or leave EXTERNAL out.")
    return found


def _format(reader: Reader) -> str:
    """The word behind USING, in upper case; '' where there is none before the query."""
    begin, depth = reader.behind, 0
    try:
        while not reader.done:
            depth += reader.sees("(") - reader.sees(")")
            if not depth and reader.sees("AS"):
                return ""
            if not depth and reader.sees("USING"):
                reader.go_to(reader.behind + 1)
                return reader.name_text().upper()
            reader.go_to(reader.behind + 1)
        return ""
    finally:
        reader.go_to(begin)


def _statement(reader: Reader, found: CreateTableStatement) -> CreateTableStatement:
    if reader.sees("(") and not reader.sees("SELECT", 1):
        found = replace(found, columns=tuple(reader.listed(lambda: column(reader))))
    while not reader.done and not reader.sees(";"):
        if reader.take("USING"):
            reader.name_text()
        elif reader.take("PARTITIONED"):
            found = _partitioned(reader, found)
        elif reader.take("CLUSTER"):
            reader.expect("BY")
            names = tuple(reader.listed(lambda: any_name(reader)))
            found = replace(found, definition=replace(found.definition, cluster_by=names))
        elif reader.take("LOCATION"):
            found = replace(found, location=text(reader))
        elif reader.take("COMMENT"):
            found = replace(found, definition=replace(found.definition, comment=text(reader)))
        elif reader.take("TBLPROPERTIES"):
            found = replace(found, definition=replace(found.definition, properties=properties(reader)))
        elif any(reader.sees(word) for word in _QUERIES):
            return _as_query(reader, found)
        else:
            word = next((word for word in _FOREIGN if reader.sees(word)), None)
            if word is None:
                raise reader.error("PARSE_SYNTAX_ERROR", "Syntax error")
            raise not_allowed(f"CREATE TABLE .. {word}", "Use PARTITIONED BY, CLUSTER BY, TBLPROPERTIES, LOCATION or COMMENT.")
    reader.end()
    return found


def _partitioned(reader: Reader, found: CreateTableStatement) -> CreateTableStatement:
    """Names of columns; one with a type is a column that the table gets for it."""
    reader.expect("BY")
    added: list[ColumnText] = []

    def item() -> str:
        if reader.sees("(", 1):
            raise not_allowed("Partitioning by expressions", "Add a generated column, and partition by it.")
        if reader.sees(",", 1) or reader.sees(")", 1):
            return one_name(reader)
        added.append(column(reader))
        return added[-1].name

    names = tuple(reader.listed(item))
    return replace(found, columns=(*found.columns, *added), definition=replace(found.definition, partition_by=names))


def _as_query(reader: Reader, found: CreateTableStatement) -> CreateTableStatement:
    reader.take("AS")
    if found.columns:
        raise not_allowed("A list of columns for CREATE TABLE AS SELECT", "Name and cast the columns in the query.")
    return replace(found, query=reader.rest())
