"""`spark.catalog` of an active session: what it says of Delta tables, whose format Spark may lack."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.catalog import Column, Table
from pyspark.sql.types import StructType

from deltamerge.activation.reader import table_of_session
from deltamerge.activation.sessions import Scope, scope_of
from deltamerge.commands.table.create import Creation
from deltamerge.commands.table.create_named import CreateNamed, create_named
from deltamerge.commands.table.definition import NO_COLUMNS, TableDefinition
from deltamerge.commands.table.properties import all_properties
from deltamerge.errors import AnalysisError
from deltamerge.exceptions import catchable
from deltamerge.spark.expressions.queries import NO_SOURCE, asking_for_formats
from deltamerge.spark.read.catalog import NamedTable, delta_named, is_path
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.schema import table_schema
from deltamerge.spark.session.storage import open_table
from deltamerge.spark.sql.text import name_parts_of
from deltamerge.statements.clauses import not_allowed
from deltamerge.statements.table.cache import CacheTable, Refresh, newest_frame
from deltamerge.statements.table.describe import table_columns

Other = Callable[[Session, tuple[str, ...]], tuple[Any] | None]
"""What a method returns for a Delta table of a name, in a tuple; None for what is none."""


def _answering(other: Other, takes_path: bool = False) -> Callable[[Any], Callable[..., Any]]:
    """A method of the catalog: Spark's own, and `other` where Spark lacks a table's format, and for a path if it takes one."""

    def make(plain: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(plain)
        def method(self: Any, tableName: str, *given: Any, **named: Any) -> Any:
            spark = self._sparkSession
            if not isinstance(tableName, str) or scope_of(spark) is not Scope.ALL:
                return plain(self, tableName, *given, **named)
            parts = name_parts_of(tableName) or (tableName,)
            database = next((value for value in (*given, named.get("dbName")) if isinstance(value, str)), None)
            name = parts if database is None else (*name_parts_of(database), *parts)
            is_known = takes_path and is_path(name)
            return _answered(spark, None if is_known else lambda: plain(self, tableName, *given, **named), other, name)

        return method

    return make


@catchable
def _answered(spark: Session, plain: Callable[[], Any] | None, other: Other, name: tuple[str, ...]) -> Any:
    if plain is None:
        found = other(spark, name)
        return None if found is None else found[0]
    try:
        with asking_for_formats(spark):
            return plain()
    except AnalysisError as error:
        if error.condition != NO_SOURCE:
            raise
        found = other(spark, name)
        if found is None:
            raise
        return found[0]


def _exists(spark: Session, name: tuple[str, ...]) -> tuple[bool]:
    return (True,)  # Spark has found it, but not its format


def _columns(spark: Session, name: tuple[str, ...]) -> tuple[list[Column]] | None:
    found = table_columns(spark, name)
    if found is None:
        return None
    columns = [
        Column(column, comment, type, nullable, is_partition, False, is_cluster)
        for column, type, comment, nullable, is_partition, is_cluster in found
    ]
    return (columns,)


def _table(spark: Session, name: tuple[str, ...]) -> tuple[Table] | None:
    found = delta_named(spark, name)
    if not isinstance(found, NamedTable):
        return None
    catalog, *database, table = found.name
    comment = open_table(spark, found.location).snapshot().metadata.description
    return (Table(table, catalog, database, comment, "MANAGED" if found.is_managed else "EXTERNAL", False),)


def _properties(spark: Session, name: tuple[str, ...]) -> tuple[dict[str, str]] | None:
    found = delta_named(spark, name)
    if not isinstance(found, NamedTable):
        return None
    return (all_properties(open_table(spark, found.location).snapshot()),)


def _recover(spark: Session, name: tuple[str, ...]) -> None:
    raise not_allowed("recoverPartitions", "Nothing needs to be done: the log names each file with its partition.")


def _is_cached(spark: Session, name: tuple[str, ...]) -> tuple[bool] | None:
    found = newest_frame(spark, name)
    return None if found is None else (found.storageLevel.useMemory or found.storageLevel.useDisk,)


def _cache(spark: Session, name: tuple[str, ...]) -> None:
    CacheTable(name).run(spark)


def _uncache(spark: Session, name: tuple[str, ...]) -> tuple[None] | None:
    return None if Refresh(name, forgets=True).run(spark) is None else (None,)


def _refresh(spark: Session, name: tuple[str, ...]) -> tuple[None] | None:
    return None if Refresh(name).run(spark) is None else (None,)


def _creating(plain: Callable[..., Any]) -> Callable[..., Any]:
    """`createTable`: a Delta table where that is said, all others by Spark."""

    @functools.wraps(plain)
    def createTable(
        self: Any,
        tableName: str,
        path: str | None = None,
        source: str | None = None,
        schema: StructType | None = None,
        description: str | None = None,
        **options: str,
    ) -> DataFrame:
        spark = self._sparkSession
        is_text = isinstance(tableName, str) and isinstance(source, str)
        if not is_text or source.lower() != "delta" or scope_of(spark) is not Scope.ALL:  # type: ignore[union-attr]
            found: DataFrame = plain(self, tableName, path, source, schema, description, **options)
            return found
        return _created(spark, tableName, path, schema, description, options)

    return createTable


@catchable
def _created(
    spark: Session,
    name: str,
    path: str | None,
    schema: StructType | None,
    description: str | None,
    options: Mapping[str, str],
) -> DataFrame:
    if options:
        raise not_allowed(
            f"The options {', '.join(options)} of createTable", "Give properties by CREATE TABLE .. TBLPROPERTIES (..)."
        )
    definition = TableDefinition(NO_COLUMNS if schema is None else table_schema(schema), comment=description)
    create_named(spark, CreateNamed(name_parts_of(name) or (name,), Creation.CREATE, definition, path))
    return table_of_session(spark, name)


METHODS = {
    "createTable": _creating,
    "tableExists": _answering(_exists),
    "listColumns": _answering(_columns),
    "getTable": _answering(_table),
    "getTableProperties": _answering(_properties),
    "recoverPartitions": _answering(_recover),
    "isCached": _answering(_is_cached, takes_path=True),
    "cacheTable": _answering(_cache, takes_path=True),
    "uncacheTable": _answering(_uncache, takes_path=True),
    "refreshTable": _answering(_refresh, takes_path=True),
}
"""What stands in the place of a catalog's own methods."""
