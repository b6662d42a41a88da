"""Tables as the bytes of Arrow streams: so they travel in columns of Spark's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_CODEC = "lz4"
_SCHEMA = b"deltamerge.schema"  # the key, in a schema's metadata, of the schema before its whole numbers were made narrower
_NARROW = (pa.int8(), pa.int16(), pa.int32())


def arrow_stream(table: pa.Table) -> bytes:
    """A table as the bytes of an Arrow stream."""
    data: bytes = _written(table, None).to_pybytes()
    return data


def read_stream(payload: Any) -> pa.Table:
    """The table in a binary scalar."""
    return pa.ipc.open_stream(payload.as_buffer()).read_all()


def packed_rows(table: pa.Table, narrow_rows: int) -> pa.Array:
    """A binary array of one value, from which `unpacked_rows` makes the table again. From `narrow_rows` rows on columns of whole
    numbers are first made as narrow as their values allow: LZ4 then has less to do.
    """
    data = _written(_narrowed(table) if table.num_rows >= narrow_rows else table, _CODEC)
    return pa.Array.from_buffers(pa.binary(), 1, [None, pa.py_buffer(np.array([0, data.size], np.int32)), data])


def unpacked_rows(payload: Any) -> pa.Table:
    """The table in a binary scalar that `packed_rows` made, with its types, nullability and metadata."""
    table = read_stream(payload)
    stored = (table.schema.metadata or {}).get(_SCHEMA)
    if stored is None:
        return table
    schema = pa.ipc.read_schema(pa.py_buffer(stored))
    columns = [
        column if column.type == field.type else _widened(column, field.type)
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return pa.table(columns, schema=schema)


def _narrowed(table: pa.Table) -> pa.Table:
    columns = [_narrow(column) for column in table.columns]
    if [column.type for column in columns] == table.schema.types:
        return table
    fields = [field.with_type(column.type) for field, column in zip(table.schema, columns, strict=True)]
    return pa.table(columns, schema=pa.schema(fields, metadata={_SCHEMA: table.schema.serialize().to_pybytes()}))


def _narrow(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of whole numbers in the narrowest type that has all of them; others as they are."""
    if not pa.types.is_signed_integer(column.type):
        return column
    least, most = pc.min_max(column).as_py().values()
    if least is None:
        return column
    fitting = (
        type
        for type in _NARROW
        if type.bit_width < column.type.bit_width and -(1 << type.bit_width - 1) <= least and most < 1 << type.bit_width - 1
    )
    return column.cast(next(fitting, column.type), safe=False)


def _widened(column: pa.ChunkedArray, type: pa.DataType) -> pa.ChunkedArray:
    """A column as one of a wider type; without nulls it has no bit map of them, which a cast makes."""
    chunks = [
        chunk if chunk.null_count else pa.Array.from_buffers(type, len(chunk), [None, chunk.buffers()[1]], offset=chunk.offset)
        for chunk in column.cast(type).chunks
    ]
    return pa.chunked_array(chunks, type)


def _written(table: pa.Table, codec: str | None) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_table(table)
    return sink.getvalue()
