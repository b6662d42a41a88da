"""Functions for `writeStream.foreachBatch`: each micro-batch is merged into a table, or appended to it, exactly once.

The table records the batch's number in the commit that has its rows (PROTOCOL.md, "Transaction Identifiers"). Spark runs a batch
again when it does not know that it was finished; one that is recorded is skipped. Source: delta-spark's idempotent writes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from deltamerge.commands.rows.request import WriteRequest, transaction_of
from deltamerge.commands.rows.write import write_into
from deltamerge.exceptions import catchable
from deltamerge.spark.plans.attributes import quoted
from deltamerge.spark.read.catalog import table_named
from deltamerge.spark.session.storage import open_table
from deltamerge.spark.sql.text import name_parts_of
from deltamerge.tables import DeltaMergeBuilder, DeltaTable
from deltamerge.tables.arguments import names_of

Clauses = Callable[[DeltaMergeBuilder], DeltaMergeBuilder]
_RETRIES = 5


def upsert(
    table: str,
    keys: str | Sequence[str],
    app_id: str,
    *,
    latest_by: str | Sequence[str] | None = None,
    clauses: Clauses | None = None,
    retries: int = _RETRIES,
) -> Callable[[DataFrame, int], None]:
    """A function for `foreachBatch` that merges each batch into `table` by `keys`, once.

    `table` is a path, or a name of the catalog. Rows with the keys of a row in the table update all of its columns, the others
    are inserted; `clauses` says otherwise: it gets a builder without clauses, in which the table is `t` and the batch `s`, and
    returns it with clauses. `app_id` names the query among all that write to the table; a query that begins anew, with another
    checkpoint, needs another one. Of several rows of a batch with equal keys those count that come last by `latest_by`.
    A merge runs again after a conflict with another writer, up to `retries` times.

    The function works on classic Spark and on Connect, whose server then needs this library, too. It raises what a merge raises.
    """
    _check_app_id(app_id)
    if not names_of(keys):
        raise ValueError("'keys' in upsert cannot be empty")
    orders = (latest_by,) if isinstance(latest_by, str) else tuple(latest_by or ())
    return _Upsert(table, names_of(keys), app_id, orders, clauses, retries)


def append(table: str, app_id: str, *, merge_schema: bool | None = None) -> Callable[[DataFrame, int], None]:
    """A function for `foreachBatch` that appends each batch to `table`, once; a path that has no table gets one.

    `table` and `app_id` are as of `upsert`, `merge_schema` as of `deltamerge.write`.
    """
    _check_app_id(app_id)
    return _Append(table, app_id, merge_schema)


@dataclass(frozen=True, slots=True)
class _Upsert:
    """What `upsert` returns: an object that can be sent to a Connect server."""

    table: str
    keys: tuple[str, ...]
    app_id: str
    latest_by: tuple[str, ...]
    clauses: Clauses | None
    retries: int

    @catchable
    def __call__(self, batch: DataFrame, number: int) -> None:
        spark = batch.sparkSession
        condition = " AND ".join(f"t.{quoted(key)} = s.{quoted(key)}" for key in self.keys)
        builder = _opened(spark, self.table).alias("t").merge(batch.alias("s"), condition)
        builder = builder.withTransaction(self.app_id, number).retryConflicts(self.retries)
        if self.latest_by:
            builder = builder.keepLatest(self.latest_by, self.keys)
        (self.clauses or _update_or_insert)(builder).run()


@dataclass(frozen=True, slots=True)
class _Append:
    """What `append` returns: an object that can be sent to a Connect server."""

    table: str
    app_id: str
    merge_schema: bool | None

    @catchable
    def __call__(self, batch: DataFrame, number: int) -> None:
        transaction = transaction_of(self.app_id, number)
        request = WriteRequest("append", merge_schema=self.merge_schema, txn_id=transaction)
        write_into(batch, open_table(batch.sparkSession, _location(batch.sparkSession, self.table)), request)


def _update_or_insert(builder: DeltaMergeBuilder) -> DeltaMergeBuilder:
    return builder.whenMatchedUpdateAll().whenNotMatchedInsertAll()


def _opened(spark: SparkSession, table: str) -> DeltaTable:
    return DeltaTable.forPath(spark, table) if _is_path(table) else DeltaTable.forName(spark, table)


def _location(spark: SparkSession, table: str) -> str:
    return table if _is_path(table) else table_named(spark, name_parts_of(table) or (table,)).location


def _is_path(table: str) -> bool:
    return ("/" in table or "\\" in table) and "`" not in table


def _check_app_id(app_id: str) -> None:
    if not isinstance(app_id, str) or not app_id:
        raise TypeError(f"'app_id' must be a string that is not empty, found {app_id!r}")
