"""`DROP TABLE [IF EXISTS] name [PURGE]`, `ALTER TABLE name RENAME TO name` and `TRUNCATE TABLE name` of Delta tables.

Source: delta-spark's DeltaCatalog.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltamerge.commands.rows.dml import truncate
from deltamerge.errors import AnalysisError
from deltamerge.spark.read.catalog import NamedTable, delta_named, is_path, sql_name
from deltamerge.spark.read.register import registrar, rename, unregister, whole_name
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.rows import no_rows
from deltamerge.spark.session.storage import open_table
from deltamerge.spark.sql.reader import Reader
from deltamerge.statements.clauses import any_name


@dataclass(frozen=True, slots=True)
class DropTable:
    """A table to be forgotten by the catalog, with its folder where that is the catalog's own."""

    name: tuple[str, ...]
    purges: bool = False

    def run(self, spark: Session) -> Frame | None:
        """No rows; None for what is no Delta table, or is not there: Spark says so, or drops it."""
        found = _listed(spark, self.name, "DROP TABLE", "Delete the folder, or empty the table: DELETE FROM, then VACUUM.")
        if found is None:
            return None
        unregister(registrar(spark), whole_name(spark, found.name), self.purges)
        return no_rows(spark)


@dataclass(frozen=True, slots=True)
class RenameTable:
    """A table to be listed under another name, in its database; with its folder where that is the catalog's own."""

    name: tuple[str, ...]
    other: tuple[str, ...]

    def run(self, spark: Session) -> Frame | None:
        """No rows; None for what is no Delta table, or is not there: Spark says so, or renames it. Raises AnalysisError."""
        found = _listed(spark, self.name, "ALTER TABLE .. RENAME TO", "Move the folder: the table's name is its path.")
        if found is None:
            return None
        rename(registrar(spark), whole_name(spark, found.name), self.other)
        return no_rows(spark)


@dataclass(frozen=True, slots=True)
class TruncateTable:
    """A table that loses all of its rows."""

    name: tuple[str, ...]
    has_partition: bool = False

    def run(self, spark: Session) -> Frame | None:
        """No rows; None for what is no Delta table."""
        found = delta_named(spark, self.name)
        if not isinstance(found, NamedTable):
            return None
        if self.has_partition:
            raise AnalysisError(
                "DELTA_TRUNCATE_TABLE_PARTITION_NOT_SUPPORTED",
                "Operation not allowed: TRUNCATE TABLE on Delta tables does not support partition predicates.",
                hint="DELETE FROM table WHERE .. deletes some rows.",
            )
        truncate(spark, open_table(spark, found.location))
        return no_rows(spark)


def _listed(spark: Session, name: tuple[str, ...], statement: str, hint: str) -> NamedTable | None:
    """The Delta table of the catalog whose format Spark lacks; None for all else. Raises AnalysisError for a path."""
    if is_path(name):
        raise AnalysisError(
            "DELTA_OPERATION_NOT_ALLOWED",
            f"Operation not allowed: {statement} {sql_name(name)} names no table of the catalog, but a path.",
            parameters={"operation": statement},
            hint=hint,
        )
    try:
        found = delta_named(spark, name)
    except AnalysisError:
        return None
    return found if isinstance(found, NamedTable) and not found.is_read_by_spark else None


def parse_drop(reader: Reader) -> DropTable:
    """What follows DROP TABLE. Raises ParseError."""
    if reader.take("IF"):
        reader.expect("EXISTS")
    name, purges = any_name(reader), reader.take("PURGE")
    reader.end()
    return DropTable(name, purges)


def parse_truncate(reader: Reader) -> TruncateTable:
    """What follows TRUNCATE TABLE. Raises ParseError."""
    name, has_partition = any_name(reader), reader.sees("PARTITION")
    if has_partition:
        reader.rest()
    reader.end()
    return TruncateTable(name, has_partition)
