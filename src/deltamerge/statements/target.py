"""The table that a statement is about: its name or path and its alias, and the table opened."""

from __future__ import annotations

from dataclasses import dataclass

from deltamerge.log.replay.table import DeltaLog
from deltamerge.spark.read.catalog import NamedTable, is_path, target_named
from deltamerge.spark.read.view_targets import changed_named
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.storage import open_table
from deltamerge.spark.sql.reader import Reader
from deltamerge.spark.sql.text import name_parts_of


@dataclass(frozen=True, slots=True)
class Target:
    """The parts of a table's name, and the alias that qualifies its columns in place of these."""

    name: tuple[str, ...]
    alias: str | None = None

    def opened(self, spark: Session) -> Opened | None:
        """The table, or the one that a temporary view shows; None for what is no Delta table. Raises AnalysisError."""
        found = changed_named(spark, self.name)
        if not isinstance(found, NamedTable):
            return None
        return Opened(found, open_table(spark, found.location), found.name if self.alias is None else (self.alias,))


@dataclass(frozen=True, slots=True)
class Opened:
    """A table as it was named, its log, and what qualifies its columns."""

    named: NamedTable
    log: DeltaLog
    qualifier: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableOrPath:
    """A table by the parts of its name, delta.`path` among them."""

    name: tuple[str, ...]

    def opened(self, spark: Session, operation: str) -> tuple[DeltaLog, str | None]:
        """The table's log, and its whole name where the catalog has it. Raises AnalysisError for what is no Delta table."""
        found = target_named(spark, self.name, operation)
        return open_table(spark, found.location), None if is_path(self.name) else ".".join(found.name)


def target_of(reader: Reader, follows: str) -> Target:
    """A name and perhaps an alias, before the end or the word that follows them. Raises ParseError."""
    name = name_parts_of(reader.name_text())
    alias = None if reader.done or reader.sees(";") else reader.alias(follows)
    return Target(name, alias)


def table_or_path(reader: Reader) -> TableOrPath:
    """A name, or a path between quotes. Raises ParseError."""
    path = reader.string()
    return TableOrPath(name_parts_of(reader.name_text()) if path is None else ("delta", path))
