"""Tables as the bytes of Arrow streams: so they travel in columns of Spark's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa


def arrow_stream(table: pa.Table) -> bytes:
    """A table as the bytes of an Arrow stream."""
    data: bytes = _written(table, None).to_pybytes()
    return data


def stream_array(table: pa.Table, codec: str | None = None) -> pa.Array:
    """A binary array of one value, the bytes of a table's Arrow stream; compressed by `codec`."""
    data = _written(table, codec)
    return pa.Array.from_buffers(pa.binary(), 1, [None, pa.py_buffer(np.array([0, data.size], np.int32)), data])


def read_stream(payload: Any) -> pa.Table:
    """The table in a binary scalar."""
    return pa.ipc.open_stream(payload.as_buffer()).read_all()


def _written(table: pa.Table, codec: str | None) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_table(table)
    return sink.getvalue()
