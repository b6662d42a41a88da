"""The batches of a streaming query, each written into a Delta table exactly once. Source: delta-spark's DeltaSink.

A batch's commit records the query's id and the batch's number (PROTOCOL.md, "Transaction Identifiers"). A query that starts again
from its checkpoint has the same id, and a batch that the table records already is skipped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from deltamerge.commands.rows.request import MicroBatch, WriteRequest
from deltamerge.commands.rows.write import write_table
from deltamerge.errors import DeltaMergeError, StorageError
from deltamerge.exceptions import catchable
from deltamerge.merge.statement.clauses import TxnId
from deltamerge.spark.pyspark.adapter import is_connect
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.storage import open_table
from deltamerge.storage.base import NotFound

_QUERY = "sql.streaming.queryId"
_METADATA = "metadata"


@dataclass(frozen=True, slots=True)
class Sink:
    """A function for `foreachBatch`, which can be sent to a Connect server.

    `checkpoint` is where the query notes what it has done, its id among it.
    """

    location: str
    request: WriteRequest
    checkpoint: str
    stores: Mapping[str, str] | None = field(default=None, repr=False)

    @catchable
    def __call__(self, batch: Frame, number: int) -> None:
        query = query_id(batch.sparkSession, self.checkpoint)
        mode = "Complete" if self.request.overwrites else "Append"
        request = replace(self.request, txn_id=TxnId(query, number), batch=MicroBatch(query, number, mode))
        write_table(batch, self.location, request, self.stores)


def query_id(spark: Session, checkpoint: str) -> str:
    """The id of the query whose batch this thread runs: as Spark says it, else as the query's checkpoint does.

    Raises StorageError where neither does: without it a batch that runs again would be written again.
    """
    said = None if is_connect(spark) else spark.sparkContext.getLocalProperty(_QUERY)
    if said:
        return said
    try:
        return str(json.loads(open_table(spark, checkpoint).store.read(_METADATA))["id"])
    except (DeltaMergeError, NotFound, OSError, ValueError, KeyError, TypeError) as error:
        raise StorageError(
            "DELTAMERGE_UNKNOWN_QUERY",
            f"The id of the streaming query can't be read from its checkpoint {checkpoint}: {error}",
            parameters={"checkpointLocation": checkpoint},
            hint="Give a checkpointLocation that the process that runs the batches can read.",
        ) from error
