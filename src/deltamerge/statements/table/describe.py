"""`DESCRIBE [TABLE] [EXTENDED] table [column]`, `SHOW COLUMNS IN table` and `SHOW PARTITIONS table` of Delta tables.

They say what the tables' logs know: Spark's own answers need the table's format. Source: Spark's DescribeTableExec; delta-spark's
ShowDeltaPartitionsCommand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from deltamerge.errors import AnalysisError
from deltamerge.log.commit.clustering import clustering_names
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.spark.read.catalog import NamedTable, delta_named, is_path, sql_name
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.jobs import local_frame
from deltamerge.spark.session.rows import rows_frame
from deltamerge.spark.session.schema import shown_schema, to_spark
from deltamerge.spark.session.settings import time_zone
from deltamerge.spark.session.storage import open_table
from deltamerge.spark.sql.reader import Reader
from deltamerge.spark.stages.target import partition_columns
from deltamerge.statements.clauses import any_name, one_name
from deltamerge.statements.partition_values import is_literal, rows_of_partition

_COLUMNS = ("col_name", "data_type", "comment")
# What else can be described: it stands before the name.
_OTHERS = ("CATALOG", "DATABASE", "FROM", "FUNCTION", "MAP", "NAMESPACE", "PROCEDURE", "QUERY", "REDUCE", "SCHEMA", "SELECT",
           "VALUES", "WITH", "(")  # fmt: skip
_Row = tuple[str, str, str | None]


@dataclass(frozen=True, slots=True)
class DescribeTable:
    """A table that is described, with what the catalog knows of it if `extends`; or only one of its columns."""

    name: tuple[str, ...]
    extends: bool = False
    column: tuple[str, ...] = ()

    def run(self, spark: Session) -> Frame | None:
        """A row for each column, and what else there is; None for what is no Delta table."""
        found = _opened(spark, self.name)
        if found is None:
            return None
        table, snapshot = found
        if self.column:
            return _described(spark, self._of_column(snapshot))
        rows = [*_columns(snapshot), *_layout(snapshot)]
        return _frame(spark, [*rows, *_details(table, snapshot)] if self.extends else rows)

    def _of_column(self, snapshot: Snapshot) -> _Row:
        wanted = self.column[-1].lower()
        found = next((row for row in _columns(snapshot) if row[0].lower() == wanted), None)
        if found is None or len(self.column) > 1:
            raise AnalysisError(
                "COLUMN_NOT_FOUND",
                f"The column {'.'.join(self.column)} cannot be found.",
                parameters={"colName": ".".join(self.column)},
                hint=f"The table has {', '.join(row[0] for row in _columns(snapshot))}.",
            )
        return found


@dataclass(frozen=True, slots=True)
class ShowColumns:
    """A table whose columns are listed."""

    name: tuple[str, ...]

    def run(self, spark: Session) -> Frame | None:
        """A row for each column; None for what is no Delta table."""
        found = _opened(spark, self.name)
        if found is None:
            return None
        return rows_frame(spark, pa.table({"col_name": pa.array([row[0] for row in _columns(found[1])], pa.string())}))


@dataclass(frozen=True, slots=True)
class ShowPartitions:
    """A table whose partitions are listed: those where columns have the `values`, each given as text."""

    name: tuple[str, ...]
    values: Mapping[str, str]

    def run(self, spark: Session) -> Frame | None:
        """A row for each partition with its typed values; None for what is no Delta table. Raises AnalysisError."""
        found = _opened(spark, self.name)
        if found is None:
            return None
        table, snapshot = found
        if not snapshot.partition_columns:
            raise AnalysisError(
                "DELTA_SHOW_PARTITION_IN_NON_PARTITIONED_TABLE",
                f"SHOW PARTITIONS is not allowed on a table that is not partitioned: {sql_name(table.name)}.",
                parameters={"tableName": ".".join(table.name)},
                hint="DESCRIBE DETAIL shows how a table is laid out.",
            )
        others = [name for name in self.values if name not in snapshot.partition_columns]
        if others:
            raise AnalysisError(
                "DELTA_SHOW_PARTITION_IN_NON_PARTITIONED_COLUMN",
                f"Non-partitioning column(s) [{', '.join(others)}] are specified for SHOW PARTITIONS.",
                parameters={"badCols": f"[{', '.join(others)}]"},
                hint=f"The table is partitioned by {', '.join(snapshot.partition_columns)}.",
            )
        rows = pa.table(partition_columns(snapshot, snapshot.files.table(), time_zone(spark)))
        rows = rows.group_by(rows.column_names).aggregate([])
        frame = local_frame(spark, rows, to_spark(snapshot.partition_schema))
        return frame.where(rows_of_partition(snapshot.partition_schema, self.values)) if self.values else frame


def parse_describe(reader: Reader) -> DescribeTable | None:
    """What follows DESCRIBE; None for what is none of a table. Raises ParseError."""
    reader.take("TABLE")
    extends = reader.take("EXTENDED") or reader.take("FORMATTED")
    if reader.done or any(reader.sees(word) for word in _OTHERS):
        return None
    name = any_name(reader)
    if reader.sees("PARTITION") or reader.sees("AS"):
        return None
    column = () if reader.done or reader.sees(";") else any_name(reader)
    reader.end()
    return DescribeTable(name, extends, column)


def parse_show_columns(reader: Reader) -> ShowColumns:
    """What follows SHOW COLUMNS. Raises ParseError."""
    _expect_in(reader)
    name = any_name(reader)
    if not (reader.done or reader.sees(";")):
        _expect_in(reader)
        name = (*any_name(reader), name[-1])
    reader.end()
    return ShowColumns(name)


def parse_show_partitions(reader: Reader) -> ShowPartitions:
    """What follows SHOW PARTITIONS. Raises ParseError."""
    name = any_name(reader)
    values = dict(reader.listed(lambda: _value(reader))) if reader.take("PARTITION") else {}
    reader.end()
    return ShowPartitions(name, values)


def _value(reader: Reader) -> tuple[str, str]:
    column = one_name(reader)
    reader.expect("=")
    text = reader.expression(",")
    if not is_literal(text):
        raise reader.error("PARSE_SYNTAX_ERROR", "Syntax error: a literal expected")
    return column, text


def _expect_in(reader: Reader) -> None:
    if not reader.take("FROM"):
        reader.expect("IN")


def table_columns(spark: Session, name: tuple[str, ...]) -> list[tuple[str, str, str | None, bool, bool, bool]] | None:
    """Of each column its name, type and comment, whether it may be null, and whether the table is partitioned or clustered by it.

    None for what is no Delta table.
    """
    found = _opened(spark, name)
    if found is None:
        return None
    snapshot = found[1]
    partitions, clusters = set(snapshot.partition_columns), set(clustering_names(snapshot))
    return [
        (field.name, field.dataType.simpleString(), field.metadata.get("comment"), field.nullable, field.name in partitions,
         field.name in clusters)
        for field in to_spark(shown_schema(snapshot.schema)).fields
    ]  # fmt: skip


def _opened(spark: Session, name: tuple[str, ...]) -> tuple[NamedTable, Snapshot] | None:
    try:
        found = delta_named(spark, name)
    except AnalysisError:  # Spark says what is wrong
        return None
    return (found, open_table(spark, found.location).snapshot()) if isinstance(found, NamedTable) else None


def _columns(snapshot: Snapshot) -> list[_Row]:
    fields = to_spark(shown_schema(snapshot.schema)).fields
    return [(field.name, field.dataType.simpleString(), field.metadata.get("comment")) for field in fields]


def _layout(snapshot: Snapshot) -> Iterator[_Row]:
    """The columns by which the table is partitioned or clustered, under a title."""
    found = {row[0]: row for row in _columns(snapshot)}
    for title, names in (
        ("# Partition Information", snapshot.partition_columns),
        ("# Clustering Information", clustering_names(snapshot)),
    ):
        if names:
            yield title, "", ""
            yield "# col_name", _COLUMNS[1], _COLUMNS[2]
            yield from (found.get(name, (name, "", None)) for name in names)


def _details(table: NamedTable, snapshot: Snapshot) -> Iterator[_Row]:
    yield "", "", ""
    yield "# Detailed Table Information", "", ""
    catalog, *database, name = table.name
    metadata, protocol = snapshot.metadata, snapshot.protocol
    properties = {
        **metadata.configuration,
        "delta.minReaderVersion": protocol.min_reader_version,
        "delta.minWriterVersion": protocol.min_writer_version,
    }
    said = {
        "Catalog": catalog,
        "Database": ".".join(database),
        "Table": name,
        "Comment": metadata.description,
        "Type": None if is_path(table.name[1:]) else "MANAGED" if table.is_managed else "EXTERNAL",
        "Location": table.location,
        "Provider": "delta",
        "Table Properties": f"[{','.join(f'{key}={properties[key]}' for key in sorted(properties))}]",
    }
    yield from ((key, value, "") for key, value in said.items() if value is not None)


def _described(spark: Session, row: _Row) -> Frame:
    values = [value if value is not None else "NULL" for value in row]
    return rows_frame(spark, pa.table({"info_name": pa.array(_COLUMNS), "info_value": pa.array(values, pa.string())}))


def _frame(spark: Session, rows: list[_Row]) -> Frame:
    return rows_frame(spark, pa.table({name: pa.array([row[n] for row in rows], pa.string()) for n, name in enumerate(_COLUMNS)}))
