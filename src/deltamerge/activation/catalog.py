"""`spark.catalog` of an active session: what it says of Delta tables, whose format Spark may lack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql.catalog import Column, Table

from deltamerge.activation.sessions import Scope, scope_of
from deltamerge.errors import AnalysisError
from deltamerge.exceptions import catchable
from deltamerge.spark.expressions.queries import NO_SOURCE, asking_for_formats
from deltamerge.spark.read.catalog import NamedTable, delta_named
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.storage import open_table
from deltamerge.spark.sql.text import name_parts_of
from deltamerge.statements.describe_table import table_columns


def _answering(other: Callable[..., Any]) -> Callable[[Any], Callable[..., Any]]:
    """A method of the catalog: Spark's own, and `other(spark, name, plain error)` where Spark lacks a table's format."""

    def make(plain: Callable[..., Any]) -> Callable[..., Any]:
        def method(self: Any, tableName: str, dbName: str | None = None) -> Any:
            given = (tableName,) if dbName is None else (tableName, dbName)
            spark = self._sparkSession
            if not isinstance(tableName, str) or scope_of(spark) is not Scope.ALL:
                return plain(self, *given)
            return _answered(spark, lambda: plain(self, *given), other, tableName, dbName)

        return method

    return make


@catchable
def _answered(spark: Session, plain: Callable[[], Any], other: Callable[..., Any], table: str, database: str | None) -> Any:
    try:
        with asking_for_formats(spark):
            return plain()
    except AnalysisError as error:
        if error.condition != NO_SOURCE:
            raise
        parts = name_parts_of(table) or (table,)
        found = other(spark, parts if database is None else (*name_parts_of(database), *parts))
        if found is None:
            raise
        return found


def _exists(spark: Session, name: tuple[str, ...]) -> bool:
    return True  # Spark has found it, but not its format


def _columns(spark: Session, name: tuple[str, ...]) -> list[Column] | None:
    found = table_columns(spark, name)
    if found is None:
        return None
    return [
        Column(column, comment, type, nullable, is_partition, False, is_cluster)
        for column, type, comment, nullable, is_partition, is_cluster in found
    ]


def _table(spark: Session, name: tuple[str, ...]) -> Table | None:
    found = delta_named(spark, name)
    if not isinstance(found, NamedTable):
        return None
    catalog, *database, table = found.name
    comment = open_table(spark, found.location).snapshot().metadata.description
    return Table(table, catalog, database, comment, "MANAGED" if found.is_managed else "EXTERNAL", False)


METHODS = {"tableExists": _answering(_exists), "listColumns": _answering(_columns), "getTable": _answering(_table)}
"""What stands in the place of a catalog's own methods."""
