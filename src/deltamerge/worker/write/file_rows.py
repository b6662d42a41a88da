"""The rows of a data file that is written again, batch by batch, as rows of the table."""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from deltamerge.worker.scan.calendar import gregorian
from deltamerge.worker.scan.columns import conform_table, stored_names
from deltamerge.worker.scan.row_errors import in_file
from deltamerge.worker.scan.scan import (
    FileTask,
    RowGroup,
    check_rows,
    decoded,
    open_file,
    open_parquet,
    row_groups,
    with_partition,
)
from deltamerge.worker.scan.vectors import living, read_vector
from deltamerge.worker.write.tracking import tracked
from deltamerge.worker.write.write import WriteSpec


def all_rows(
    spec: WriteSpec,
    task: FileTask,
    file: pq.ParquetFile,
    groups: Sequence[RowGroup] | None = None,
    columns: Collection[str] | None = None,
) -> Generator[pa.Table, None, None]:
    """All rows of an open file, or of some of its row groups, deleted ones included. Raises Refused.

    They have the columns that are written, or those of them that are asked for.
    """
    schema = spec.schema if columns is None else pa.schema([field for field in spec.schema if field.name in columns])
    stored = pa.schema([field for field in schema if field.name not in task.partition])
    store = task.store or spec.store
    with in_file(task.label):
        names = stored_names(file, stored)
        # One call a row group: what is fetched together, of a remote file, is held until the next call.
        for group in row_groups(file) if groups is None else groups:
            first = group.first_row
            batches = file.iter_batches(
                batch_size=spec.budgets.rewrite_rows, row_groups=[group.index], columns=names, use_threads=spec.threads > 1
            )
            with store.naming(task.name):
                for batch in decoded(batches):
                    table = conform_table(gregorian(pa.Table.from_batches([batch]), file), stored)
                    yield tracked(with_partition(table, schema, task.partition, table.num_rows), task, first)
                    first += table.num_rows
            check_rows(first - group.first_row, group.rows)


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
