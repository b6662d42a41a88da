"""The table that a statement names: delta.`path`, a name of the catalog, or a path as a string."""

from __future__ import annotations

from deltamerge.log.replay.table import DeltaLog
from deltamerge.spark.read.catalog import target_named
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.storage import open_table
from deltamerge.spark.sql.reader import Reader
from deltamerge.spark.sql.text import name_parts_of


def table_name(reader: Reader) -> tuple[str, ...]:
    """The parts of the name at the reader's place; a path as a string is that of delta.`path`. Raises ParseError."""
    path = reader.string()
    return name_parts_of(reader.name_text()) if path is None else ("delta", path)


def table_of(spark: Session, name: tuple[str, ...], operation: str) -> DeltaLog:
    """The log of the Delta table of this name. Raises AnalysisError for any other, naming the operation."""
    return open_table(spark, target_named(spark, name, operation).location)
