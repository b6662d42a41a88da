"""Columns as Parquet bytes, some threads at once where there is more than one: Arrow encodes column after column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltamerge.worker.parquet.footer import Chunk, Footer, footer_of, index_in

_SAMPLE_ROWS = 8_192
_FEW, _MOSTLY = 1_024, 0.95
_CODECS = {"uncompressed": "none", "lz4_raw": "lz4"}


@dataclass(frozen=True)
class EncodedChunk:
    """A column chunk, in a file of its own or with others."""

    chunk: Chunk
    _file: memoryview = field(repr=False)

    @property
    def data(self) -> memoryview:
        """Its bytes: a dictionary page, if it has one, and its data pages."""
        return self._file[self.chunk.start : self.chunk.end]

    def index(self, id: int) -> bytes:
        """The bytes of its column index (6) or of its offset index (4)."""
        return index_in(self._file, self.chunk, id)


def encoded(
    rows: pa.Table, codec: str, dictionaries: Sequence[str], indexed: bool = True, threads: int = 1
) -> list[EncodedChunk]:
    """The column chunks of a row group with those rows, for each leaf one, in their order."""
    parts = _parts(rows, threads)

    def encode(names: Sequence[str]) -> list[EncodedChunk]:
        return _encoded(rows.select(names), codec, dictionaries, indexed)

    if len(parts) == 1:
        return encode(parts[0])
    with ThreadPoolExecutor(len(parts)) as pool:
        return [chunk for part in pool.map(encode, parts) for chunk in part]


def _parts(rows: pa.Table, threads: int) -> list[list[str]]:
    """The columns, neighbours together, in so many parts of about the same bytes, or in fewer."""
    if threads == 1:
        return [rows.column_names]
    sizes = [column.nbytes + 1 for column in rows.columns]
    parts: list[list[str]] = [[] for _ in range(threads)]
    before = 0
    for name, size in zip(rows.column_names, sizes, strict=True):
        parts[(before + size // 2) * threads // sum(sizes)].append(name)
        before += size
    return [part for part in parts if part]


def _encoded(rows: pa.Table, codec: str, dictionaries: Sequence[str], indexed: bool) -> list[EncodedChunk]:
    # Arrow's own stream doubles its room whenever it is full: 64 MB of rows took up to 400.
    sink = BytesIO()
    with parquet_writer(sink, rows.schema, codec, dictionaries, indexed) as writer:
        writer.write_table(rows, row_group_size=rows.num_rows)
    data = sink.getbuffer()
    footer = footer_of(data)
    assert [group.rows for group in footer.groups] == [rows.num_rows]
    return [EncodedChunk(chunk, data) for chunk in footer.groups[0].chunks]


def empty_footer(schema: pa.Schema) -> Footer:
    """The footer of a file of this schema, as it is written today, without rows."""
    sink = pa.BufferOutputStream()
    parquet_writer(sink, schema, "none", []).close()
    return footer_of(sink.getvalue().to_pybytes())


def parquet_writer(
    sink: Any, schema: pa.Schema, codec: str | Mapping[str, str], dictionaries: Sequence[str], indexed: bool = True
) -> Any:
    """A writer of row groups, as all data files have them; dictionaries are for some leaves, by their paths. Columns may have
    a `codec` each.
    """
    return pq.ParquetWriter(
        sink,
        schema,
        compression=_CODECS.get(codec, codec) if isinstance(codec, str) else dict(codec),
        use_dictionary=list(dictionaries),
        store_decimal_as_integer=True,
        store_schema=False,
        write_page_index=indexed,
        write_page_checksum=True,
    )


def dictionary_columns(sample: pa.Table) -> list[str]:
    """The top-level and nested columns for which a dictionary pays, judged by the distinct values of the first rows."""
    chosen = []
    head = sample.slice(0, _SAMPLE_ROWS)
    for column in sample.schema:
        chosen += _paying(column.name, head.column(column.name).combine_chunks())
    return chosen


def _paying(path: str, values: pa.Array) -> list[str]:
    type = values.type
    if pa.types.is_struct(type):
        return [p for i in range(type.num_fields) for p in _paying(f"{path}.{type[i].name}", pc.struct_field(values, [i]))]
    if pa.types.is_list(type):
        return _paying(f"{path}.list.element", values.flatten())
    if pa.types.is_map(type):
        return [*_paying(f"{path}.key_value.key", values.keys), *_paying(f"{path}.key_value.value", values.items)]
    if pa.types.is_boolean(type) or pa.types.is_null(type) or not len(values) or _rarely_repeats(values):
        return []
    return [path] if _distinct(values) * 2 <= len(values) else []


def _rarely_repeats(values: pa.Array) -> bool:
    """Whether hardly any values are alike, neither neighbours nor ones from all over: to count all takes ten times as long."""
    step = len(values) // _FEW
    if step < 2 or not _mostly_differ(values.slice(0, _FEW)):
        return False
    return _mostly_differ(values.take(pa.array(np.arange(0, len(values), step))))


def _mostly_differ(values: pa.Array) -> bool:
    return _distinct(values) > _MOSTLY * len(values)


def _distinct(values: pa.Array) -> int:
    return int(pc.count_distinct(values, mode="only_valid").as_py())
