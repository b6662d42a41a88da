"""`DESCRIBE HISTORY table [LIMIT n]` and `DESCRIBE DETAIL table`. Source: delta-spark's grammar, DeltaSqlBase.g4."""

from __future__ import annotations

from dataclasses import dataclass

from deltamerge.commands.table.describe import detail_table, history_table
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.rows import rows_frame
from deltamerge.spark.sql.reader import Reader
from deltamerge.statements.target import TableOrPath, table_or_path


@dataclass(frozen=True, slots=True)
class DescribeHistory:
    """The commits of a table, newest first, at most `limit` of them."""

    table: TableOrPath
    limit: int | None = None

    def run(self, spark: Session) -> Frame:
        """A row for each commit."""
        log, _ = self.table.opened(spark, "DESCRIBE HISTORY")
        log.snapshot()  # a folder without a table has no commits either
        return rows_frame(spark, history_table(log, self.limit))


@dataclass(frozen=True, slots=True)
class DescribeDetail:
    """What there is to say of a table as it is."""

    table: TableOrPath

    def run(self, spark: Session) -> Frame:
        """One row; sizes in bytes."""
        log, name = self.table.opened(spark, "DESCRIBE DETAIL")
        return rows_frame(spark, detail_table(log.snapshot(), name))


def parse_history(reader: Reader) -> DescribeHistory | None:
    """What follows DESCRIBE HISTORY; None for a table of the name `history`. Raises ParseError."""
    if reader.done:
        return None
    table = table_or_path(reader)
    limit = reader.number() if reader.take("LIMIT") else None
    reader.end()
    return DescribeHistory(table, limit)


def parse_detail(reader: Reader) -> DescribeDetail | None:
    """What follows DESCRIBE DETAIL; None for a table of the name `detail`. Raises ParseError."""
    if reader.done:
        return None
    table = table_or_path(reader)
    reader.end()
    return DescribeDetail(table)
