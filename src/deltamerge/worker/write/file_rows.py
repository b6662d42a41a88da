"""The rows of a data file that is written again, batch by batch, as rows of the table."""

from __future__ import annotations

from collections.abc import Generator

import pyarrow as pa
import pyarrow.parquet as pq

from deltamerge.worker.scan.calendar import gregorian
from deltamerge.worker.scan.columns import conform_table, stored_names
from deltamerge.worker.scan.row_errors import in_file
from deltamerge.worker.scan.scan import FileTask, decoded, open_file, open_parquet, with_partition
from deltamerge.worker.scan.vectors import living, read_vector
from deltamerge.worker.write.tracking import tracked
from deltamerge.worker.write.write import WriteSpec


def all_rows(spec: WriteSpec, task: FileTask, file: pq.ParquetFile) -> Generator[pa.Table, None, None]:
    """All rows of an open file, deleted ones included, with the columns that are written. Raises Refused."""
    stored = pa.schema([field for field in spec.schema if field.name not in task.partition])
    store = task.store or spec.store
    with in_file(task.label):
        names = stored_names(file, stored)
        first = 0
        # One call a row group: what is fetched together, of a remote file, is held until the next call.
        for group in range(file.num_row_groups):
            batches = file.iter_batches(
                batch_size=spec.budgets.rewrite_rows, row_groups=[group], columns=names, use_threads=False
            )
            with store.naming(task.name):
                for batch in decoded(batches):
                    table = conform_table(gregorian(pa.Table.from_batches([batch]), file), stored)
                    yield tracked(with_partition(table, spec.schema, task.partition, table.num_rows), task, first)
                    first += table.num_rows


def living_rows(spec: WriteSpec, task: FileTask) -> Generator[pa.Table, None, None]:
    """The rows of a file that its deletion vector does not delete. Raises Refused."""
    source = open_file(spec.store, task)
    try:
        file = open_parquet(source, task.label, spec.store.remote)
        deleted = read_vector(task.vector, task.label, file.metadata.num_rows)
        start = 0
        for table in all_rows(spec, task, file):
            stays = living(deleted, start, table.num_rows)
            start += table.num_rows
            yield table if stays is None else table.filter(pa.array(stays))
    finally:
        source.close()
