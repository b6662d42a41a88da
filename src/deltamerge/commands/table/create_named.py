"""Tables made under a name of the session's catalog, or at a path: where they lie, and who lists them.

Source: delta-spark's DeltaCatalog and CreateDeltaTableCommand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from deltamerge.commands.table.create import CreateTable, Creation, already_exists, create_table, existing
from deltamerge.commands.table.definition import TableDefinition
from deltamerge.errors import AnalysisError
from deltamerge.log.replay.table import DeltaLog
from deltamerge.spark.read.catalog import is_path, sql_name, table_named
from deltamerge.spark.read.register import default_location, is_listed, register, registrar, whole_name
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.schema import from_spark
from deltamerge.spark.session.storage import open_table


@dataclass(frozen=True, slots=True)
class CreateNamed:
    """A table to be made: the parts of its name, delta.`path` among them, and where it lies if that is said.

    `query` gives the rows, once it is known which version of the table is replaced: the query may read the table.
    """

    name: tuple[str, ...]
    creation: Creation
    definition: TableDefinition
    location: str | None = None
    query: Callable[[], Frame] | None = None

    @property
    def path(self) -> str | None:
        """The path that the name is; None for a name of the catalog."""
        return self.name[1] if is_path(self.name) else None


def create_named(spark: Session, request: CreateNamed) -> DeltaLog:
    """Make or replace a table, have the catalog list it if it has a name, and return its log.

    Raises AnalysisError, InvalidArgumentError, UnsupportedTableError, ConcurrentModificationError.
    """
    path = request.path
    if path is None:
        return _by_name(spark, request)
    check_path(path, request.location)
    return _made(spark, request, path)


def check_path(path: str, location: str | None) -> None:
    """Raise AnalysisError where a table that is named by its path is said to lie elsewhere."""
    if location is not None and _plain(location) != _plain(path):
        raise AnalysisError(
            "DELTA_AMBIGUOUS_PATHS_IN_CREATE_TABLE",
            f"CREATE TABLE contains two different locations: {path} and {location}.",
            parameters={"identifier": path, "location": location},
            hint="Leave the LOCATION clause out.",
        )


def check_listed(name: tuple[str, ...], found: str, location: str | None) -> None:
    """Raise AnalysisError where a table that the catalog has is said to lie elsewhere."""
    if location is not None and _plain(location) != _plain(found):
        raise AnalysisError(
            "DELTA_TABLE_LOCATION_MISMATCH",
            f"The location of the existing table {sql_name(name)} is {found}. "
            f"It doesn't match the specified location {location}.",
            parameters={"tableName": sql_name(name), "location": found},
            hint="Leave the location out.",
        )


def _by_name(spark: Session, request: CreateNamed) -> DeltaLog:
    name = whole_name(spark, request.name)
    if is_listed(spark, name):
        return _listed(spark, request)
    if request.creation is Creation.REPLACE:
        raise AnalysisError(
            "TABLE_OR_VIEW_NOT_FOUND",
            f"The table or view {sql_name(name)} cannot be found.",
            parameters={"relationName": sql_name(name)},
            hint="To make it, create it: CREATE OR REPLACE TABLE, or DeltaTable.createOrReplace.",
        )
    location = request.location or default_location(spark, name)
    log = open_table(spark, location)
    before = existing(log)
    rows = None if request.query is None else request.query()
    by = registrar(spark, request.definition.columns if rows is None else from_spark(rows.schema))
    create_table(spark, log, _wanted(request, rows, adopts=True), before)
    register(by, name, location)
    return log


def _listed(spark: Session, request: CreateNamed) -> DeltaLog:
    """A table that the catalog has, left as it is or replaced where it lies."""
    if request.creation is Creation.CREATE:
        raise already_exists(sql_name(request.name))
    found = table_named(spark, request.name).location
    if not request.creation.replaces:
        return open_table(spark, found)
    check_listed(request.name, found, request.location)
    return _made(spark, request, found)


def _made(spark: Session, request: CreateNamed, location: str) -> DeltaLog:
    log = open_table(spark, location)
    before = existing(log)
    rows = None if request.query is None else request.query()
    create_table(spark, log, _wanted(request, rows), before)
    return log


def _wanted(request: CreateNamed, rows: Frame | None, adopts: bool = False) -> CreateTable:
    return CreateTable(request.definition, request.creation, sql_name(request.name), rows, adopts)


def _plain(location: str) -> str:
    return location.removeprefix("file://").removeprefix("file:").rstrip("/")
