"""What a task tells the driver: one small Arrow row per file written, file changed, and count."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from deltamerge.worker.write.write import WrittenFile

ADD, CHANGE, TOUCHED, MARKED, COUNTS = "add", "cdc", "touched", "marked", "counts"
# How a touched file was written again, by chunks or also by pages; or why it was not spliced.
SPLICED, PAGED = "SPLICED", "PAGED"
# Positions of source rows that a second job writes; changed rows that a preview shows, as an Arrow stream.
POSITIONS, SAMPLE = "positions", "sample"

RESULT_SCHEMA = pa.schema(
    [
        ("kind", pa.string()),
        ("file", pa.int32()),
        ("name", pa.string()),
        ("partition", pa.binary()),
        ("size", pa.int64()),
        ("modified", pa.int64()),
        ("rows", pa.int64()),
        ("stats", pa.string()),
        ("positions", pa.binary()),
        ("counts", pa.list_(pa.int64())),
        ("rewrite", pa.string()),
    ]
)


def result_batch(rows: Iterable[dict[str, Any]]) -> pa.RecordBatch:
    """Result rows as one batch; absent fields are null."""
    table = pa.Table.from_pylist(list(rows), RESULT_SCHEMA)
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], RESULT_SCHEMA)


def touched_batch(files: Sequence[int]) -> pa.RecordBatch:
    """The result rows of files that leave whole, by their numbers, as one batch: there may be a million."""
    known = {"kind": pa.repeat(TOUCHED, len(files)), "file": pa.array(files, pa.int32()), "rows": pa.repeat(0, len(files))}
    columns = (known.get(field.name, pa.nulls(len(files), field.type)) for field in RESULT_SCHEMA)
    return pa.RecordBatch.from_arrays(list(columns), schema=RESULT_SCHEMA)


def written_row(kind: str, written: WrittenFile) -> dict[str, Any]:
    """The result row of a data file or change data file that was written."""
    return {
        "kind": kind,
        "name": written.name,
        "partition": pack_partition(written.partition),
        "size": written.size,
        "modified": written.modified,
        "rows": written.rows,
        "stats": written.stats,
    }


def pack_partition(values: Any) -> bytes:
    """Typed partition values by name as one Arrow row, serialized."""
    batch = pa.RecordBatch.from_arrays([pa.repeat(value, 1) for value in values.values()], list(values))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        if values:
            writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def unpack_partition(data: bytes) -> dict[str, pa.Scalar]:
    """The typed partition values by name."""
    table = pa.ipc.open_stream(data).read_all()
    return {name: table.column(name)[0] for name in table.column_names}
