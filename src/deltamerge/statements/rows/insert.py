"""`INSERT INTO|OVERWRITE table ..`: rows of a query or VALUES, columns by position or by name.

Source: Spark's grammar, `insertInto`; delta-spark's DeltaAnalysis. Expressions and queries stay text, which Spark parses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from deltamerge.commands.rows.request import DYNAMIC, STATIC, WriteRequest
from deltamerge.commands.rows.write import write_into
from deltamerge.errors import AnalysisError, ParseError
from deltamerge.protocol.schema.types import StructType
from deltamerge.protocol.table.constraints import default_of
from deltamerge.protocol.table.identity import is_identity
from deltamerge.spark.expressions.metadata_sql import check_defaults
from deltamerge.spark.read.catalog import NamedTable, delta_named
from deltamerge.spark.read.views import TableViews
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.rows import no_rows
from deltamerge.spark.session.settings import setting
from deltamerge.spark.session.storage import open_table
from deltamerge.spark.sql.reader import Reader
from deltamerge.spark.sql.tables import query_with_ctes
from deltamerge.spark.sql.text import name_parts_of
from deltamerge.spark.stages.writing import by_position, with_constants
from deltamerge.statements.partition_values import check_partition, is_literal, rows_of_partition

_QUERIES = ("SELECT", "VALUES", "TABLE", "FROM", "WITH", "MAP", "REDUCE")
_PARTITION_OVERWRITE = "spark.sql.sources.partitionOverwriteMode"


@dataclass(frozen=True, slots=True)
class Insert:
    """An INSERT in text. `columns` are those that it names, () for all by position; `partition` has the columns of PARTITION,
    each with the text of its value or None. `rows` are those of VALUES with a DEFAULT among them, None for DEFAULT; the others
    are the `query`'s. `refused` is what is wrong with the text for a Delta table: Spark may insert by it into another one.
    """

    target: tuple[str, ...]
    query: str = ""
    rows: tuple[tuple[str | None, ...], ...] = ()
    columns: tuple[str, ...] = ()
    by_name: bool = False
    overwrites: bool = False
    replace_where: str | None = None
    partition: tuple[tuple[str, str | None], ...] = ()
    evolves: bool = False
    ctes: str = ""
    refused: ParseError | None = None

    def run(self, spark: Session) -> Frame | None:
        """No rows; None where the table is no Delta table. Raises DeltaMergeError."""
        found = delta_named(spark, self.target)
        if not isinstance(found, NamedTable):
            return None
        if self.refused is not None:
            raise self.refused
        log = open_table(spark, found.location)
        schema = log.snapshot().schema
        check_partition([name for name, _ in self.partition], log.snapshot().partition_columns)
        given, query = self._given(spark, schema)
        with TableViews(spark) as views:
            frame = views.query(query_with_ctes(query, self.ctes))
            write_into(given._named(frame, schema), log, given._request(spark, log.snapshot().partition_schema))
        return no_rows(spark)

    def query_for(self, spark: Session, schema: StructType) -> str:
        """The query whose rows are inserted into a table with this schema, without `ctes`. Raises AnalysisError."""
        return self._given(spark, schema)[1]

    def _given(self, spark: Session, schema: StructType) -> tuple[Insert, str]:
        return self._rows(spark, schema) if self.rows else (self, self.query)

    def _request(self, spark: Session, partition_schema: StructType) -> WriteRequest:
        request = WriteRequest("append", merge_schema=True if self.evolves else None)
        if self.replace_where is not None:
            return replace(request, mode="overwrite", replace_where=self.replace_where)
        if not self.overwrites:
            return request
        request = replace(request, mode="overwrite")
        static = {name: value for name, value in self.partition if value is not None}
        if not static or setting(spark, _PARTITION_OVERWRITE, STATIC).lower() == DYNAMIC:
            return request
        return replace(request, replace_where=rows_of_partition(partition_schema, static))

    def _named(self, frame: Frame, schema: StructType) -> Frame:
        """The rows with the table's names for their columns. Raises AnalysisError."""
        static = {_spelled(schema, name): value for name, value in self.partition if value is not None}
        if not self.by_name:
            named = [_spelled(schema, name) for name in self.columns] or schema.names
            wanted = [name for name in named if name not in static]
            _check_count(len(frame.columns), len(wanted), bool(self.columns))
            fields = {field.name: field for field in schema}
            frame = by_position(frame, StructType(tuple(fields[name] for name in wanted)))
        return with_constants(frame, static)

    def _rows(self, spark: Session, schema: StructType) -> tuple[Insert, str]:
        """The statement with the columns that VALUES gives, and these VALUES: one with nothing but DEFAULT is left out.

        In others DEFAULT is the column's, NULL where it has none. Raises AnalysisError.
        """
        static = {name.lower() for name, value in self.partition if value is not None}
        names = [_spelled(schema, name) for name in self.columns] or [n for n in schema.names if n.lower() not in static]
        for row in self.rows:
            _check_count(len(row), len(names), exact=True)
        _check_numbers(schema, names, self.rows)
        check_defaults(spark, {field.name: default_of(field) for field in schema})
        kept = [n for n in range(len(names)) if any(row[n] is not None for row in self.rows)]
        defaults = [default_of(field) or "NULL" for name in names for field in schema if field.name == name]
        if not kept:
            first = next(
                (field for field in schema if not is_identity(field) and field.name.lower() not in static), schema.fields[0]
            )
            value = f"({default_of(first) or 'NULL'})"
            return replace(self, columns=(first.name,)), "VALUES " + ", ".join([value] * len(self.rows))
        rows = [", ".join(f"({defaults[n] if row[n] is None else row[n]})" for n in kept) for row in self.rows]
        return replace(self, columns=tuple(names[n] for n in kept)), "VALUES " + ", ".join(f"({row})" for row in rows)


def parse_insert(reader: Reader, ctes: str = "") -> Insert | None:
    """What follows INSERT, with `ctes` before it; None for what is no table's. Raises ParseError."""
    evolves = reader.take("WITH")
    if evolves:
        reader.expect("SCHEMA")
        reader.expect("EVOLUTION")
    overwrites = reader.take("OVERWRITE")
    if overwrites and (reader.sees("DIRECTORY") or reader.sees("LOCAL")):
        return None
    if not (overwrites or reader.take("INTO")):
        raise reader.error("PARSE_SYNTAX_ERROR", "Syntax error: INTO or OVERWRITE expected")
    reader.take("TABLE")
    target = name_parts_of(reader.name_text())
    insert = Insert(target, overwrites=overwrites, evolves=evolves, ctes=ctes)
    try:
        return _completed(reader, insert)
    except ParseError as error:
        return replace(insert, refused=error)


def _completed(reader: Reader, insert: Insert) -> Insert:
    """The statement with what stands behind the table. Raises ParseError."""
    if reader.take("PARTITION"):
        insert = replace(insert, partition=tuple(reader.listed(lambda: _partition(reader))))
        if reader.sees("IF"):
            raise reader.error("PARSE_SYNTAX_ERROR", "Syntax error: IF NOT EXISTS is not supported for Delta tables")
    if reader.take("BY"):
        reader.expect("NAME")
        insert = replace(insert, by_name=True)
    elif reader.sees("(") and not _begins_query(reader):
        insert = replace(insert, columns=tuple(name_parts_of(name)[-1] for name in reader.listed(reader.name_text)))
    if not insert.overwrites and reader.take("REPLACE"):
        hint = "REPLACE USING and REPLACE ON are not supported: use MERGE with WHEN NOT MATCHED BY SOURCE THEN DELETE."
        if not reader.take("WHERE"):
            raise reader.error("PARSE_SYNTAX_ERROR", "Syntax error: WHERE expected", hint)
        insert = replace(insert, replace_where=reader.expression(*_QUERIES))
    return _with_rows(reader, insert)


def _with_rows(reader: Reader, insert: Insert) -> Insert:
    place = reader.behind
    rows = _rows_with_defaults(reader)
    if rows is not None:
        return replace(insert, rows=rows)
    reader.go_to(place)
    query = reader.expression()
    reader.end()
    return replace(insert, query=query)


def _rows_with_defaults(reader: Reader) -> tuple[tuple[str | None, ...], ...] | None:
    """The rows of VALUES where some value is DEFAULT; None for any other query."""
    if not reader.take("VALUES"):
        return None
    rows = []
    while True:
        rows.append(tuple(reader.listed(reader.value) if reader.sees("(") else [reader.value()]))
        if not reader.take(","):
            break
    while reader.take(";"):
        pass
    return tuple(rows) if reader.done and any(None in row for row in rows) else None


def _partition(reader: Reader) -> tuple[str, str | None]:
    name = name_parts_of(reader.name_text())[-1]
    if not reader.take("="):
        return name, None
    place = reader.behind
    value = reader.expression(",")
    if not is_literal(value):
        reader.go_to(place)
        raise reader.error("PARSE_SYNTAX_ERROR", f"Syntax error: the value of the partition column {name} must be a literal")
    return name, value


def _begins_query(reader: Reader) -> bool:
    ahead = 0
    while reader.sees("(", ahead):
        ahead += 1
    return any(reader.sees(word, ahead) for word in _QUERIES)


def _spelled(schema: StructType, name: str) -> str:
    found = schema.find(name)
    if found is None:
        raise AnalysisError(
            "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA",
            f"Unable to find the column {name} of the INSERT, given [{', '.join(schema.names)}].",
            parameters={"columnName": name, "tableSchema": schema.names},
        )
    return found.name


def _check_numbers(schema: StructType, names: Sequence[str], rows: Sequence[Sequence[str | None]]) -> None:
    """Raise AnalysisError for an identity column that gets numbers in some rows and is to be numbered in others."""
    for n, name in enumerate(names):
        defaults = [row[n] is None for row in rows]
        if any(defaults) and not all(defaults) and any(field.name == name and is_identity(field) for field in schema):
            raise AnalysisError(
                "DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED",
                f"The identity column {name} can't be DEFAULT in some rows of VALUES and a number in others.",
                parameters={"columnName": name},
                hint="Insert the rows with DEFAULT by a statement of their own.",
            )


def _check_count(given: int, wanted: int, exact: bool) -> None:
    """Raise AnalysisError for rows that have another number of values than the columns that the statement names."""
    if exact and given != wanted:
        many, few = "INSERT_COLUMN_ARITY_MISMATCH.TOO_MANY_DATA_COLUMNS", "INSERT_COLUMN_ARITY_MISMATCH.NOT_ENOUGH_DATA_COLUMNS"
        raise AnalysisError(
            many if given > wanted else few,
            f"Cannot write to the table: the INSERT has {wanted} columns, and its rows have {given}.",
            parameters={"tableColumns": wanted, "dataColumns": given},
            hint="Give a value for each column; DEFAULT is one.",
        )
