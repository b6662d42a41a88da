"""Tables made under a name of the session's catalog, or at a path: where they lie, and who lists them.

Source: delta-spark's DeltaCatalog and CreateDeltaTableCommand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from deltamerge.commands.table.create import CreateTable, Creation, already_exists, check_empty, create_table, existing
from deltamerge.commands.table.definition import TableDefinition
from deltamerge.errors import AnalysisError
from deltamerge.log.replay.table import DeltaLog
from deltamerge.merge.statement.clauses import TxnId
from deltamerge.protocol.schema.types import StructType
from deltamerge.spark.read.catalog import is_path, sql_name, table_named
from deltamerge.spark.read.register import default_location, is_listed, register, registrar, unregister, whole_name
from deltamerge.spark.session.delta_check import check_delta
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.schema import from_spark
from deltamerge.spark.session.storage import open_table
from deltamerge.worker.write.file_options import UNSAID, FileOptions

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CreateNamed:
    """A table to be made: the parts of its name, delta.`path` among them, and where it lies if that is said.

    `query` gives the rows, once it is known which version of the table is replaced: the query may read the table. The others are
    as in `CreateTable`.
    """

    name: tuple[str, ...]
    creation: Creation
    definition: TableDefinition
    location: str | None = None
    query: Callable[[], Frame] | None = None
    told: Mapping[str, object] = field(default_factory=dict)
    user_metadata: str | None = None
    txn_id: TxnId | None = None
    files: FileOptions = UNSAID

    @property
    def path(self) -> str | None:
        """The path that the name is; None for a name of the catalog."""
        return self.name[1] if is_path(self.name) else None


def create_named(spark: Session, request: CreateNamed) -> DeltaLog:
    """Make or replace a table, have the catalog list it if it has a name, and return its log.

    Raises AnalysisError, InvalidArgumentError, UnsupportedTableError, ConcurrentModificationError.
    """
    check_delta(spark, "CREATE")
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
        return _listed(spark, request, name)
    if request.creation is Creation.REPLACE:
        raise AnalysisError(
            "TABLE_OR_VIEW_NOT_FOUND",
            f"The table or view {sql_name(name)} cannot be found.",
            parameters={"relationName": sql_name(name)},
            hint="To make it, create it: CREATE OR REPLACE TABLE, or DeltaTable.createOrReplace.",
        )
    before = existing(open_table(spark, request.location or default_location(spark, name)))
    rows = None if request.query is None else request.query()
    columns = request.definition.columns if rows is None else from_spark(rows.schema)

    def make(log: DeltaLog, is_managed: bool) -> None:
        create_table(spark, log, _wanted(request, rows, adopts=True, is_managed=is_managed), before)

    log, _ = made_by_name(spark, name, request.location, columns, make)
    return log


def made_by_name(
    spark: Session, name: tuple[str, ...], location: str | None, columns: StructType, make: Callable[[DeltaLog, bool], T]
) -> tuple[DeltaLog, T]:
    """Make a table under a new name with its database, and return its log and what `make` returns.

    It is the catalog's own, which deletes its folder with it, unless somebody says where it lies or a table lies there already.
    The catalog takes it as its own only while the folder is empty: before `make`. Raises AnalysisError, and what `make` raises.
    """
    by, log = registrar(spark), open_table(spark, location or default_location(spark, name))
    if location is not None or not by.is_told or log.exists():  # where Spark knows the format, its catalog may write the table
        done = make(log, False)
        register(by, name, columns, location or log.store.url)
        return log, done
    check_empty(log)
    register(by, name, columns)
    try:
        return log, make(log, True)
    except BaseException:
        if not log.exists():  # else another one has made it meanwhile
            unregister(by, name)
        raise


def _listed(spark: Session, request: CreateNamed, name: tuple[str, ...]) -> DeltaLog:
    """A table that the catalog has, left as it is or replaced where it lies."""
    if request.creation is Creation.CREATE:
        raise already_exists(sql_name(request.name))
    found = table_named(spark, name)
    if not request.creation.replaces:
        return open_table(spark, found.location)
    check_listed(request.name, found.location, request.location)
    return _made(spark, request, found.location, found.is_managed)


def _made(spark: Session, request: CreateNamed, location: str, is_managed: bool = False) -> DeltaLog:
    log = open_table(spark, location)
    before = existing(log)
    rows = None if request.query is None else request.query()
    create_table(spark, log, _wanted(request, rows, is_managed=is_managed), before)
    return log


def _wanted(request: CreateNamed, rows: Frame | None, adopts: bool = False, is_managed: bool = False) -> CreateTable:
    definition, name, told = request.definition, sql_name(request.name), (request.told, request.user_metadata, request.txn_id)
    return CreateTable(definition, request.creation, name, rows, adopts, is_managed, *told, request.files)


def _plain(location: str) -> str:
    return location.removeprefix("file://").removeprefix("file:").rstrip("/")
