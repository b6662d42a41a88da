"""New pages against the dictionary that a column chunk has, which takes values that it lacks behind its own.

Source: parquet-format's Encodings.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltamerge.protocol.formats.parquet_file import MAGIC
from deltamerge.protocol.formats.thrift import BINARY, I32, I64, LIST, STRUCT, Items, Struct, struct_bytes
from deltamerge.worker.parquet.footer import Chunk
from deltamerge.worker.parquet.pages import PLAIN, PLAIN_DICTIONARY, Header, data_page, dictionary_page, header_of
from deltamerge.worker.parquet.places import DICTIONARY
from deltamerge.worker.parquet.plain import NotPaged, Whole
from deltamerge.worker.parquet.schema import OPTIONAL, REQUIRED, Node

# The codecs of pages, by their numbers, as Arrow names them.
CODECS = {0: "none", 1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}
_INT32, _INT64, _FLOAT, _DOUBLE, _BYTES = 1, 2, 4, 5, 6
_WIDTHS = {_INT32: 4, _FLOAT: 4, _INT64: 8, _DOUBLE: 8}
_MOST_VALUES = 1 << 18
_MOST_BYTES = 1 << 20  # as writers have it, uncompressed


@dataclass(frozen=True)
class Dictionary:
    """The values of a dictionary as they are stored, in its order, its page's header, and the page's body uncompressed."""

    values: pa.Array
    header: Header
    body: bytes
    kind: int
    codec: str
    optional: bool


def has_dictionary(chunk: Chunk, first: int) -> bool:
    """Whether a chunk whose first data page is at a place has a dictionary. Raises NotPaged for one of values not understood."""
    if first == chunk.start:
        return False
    if chunk.meta[1][1] not in _WIDTHS and chunk.meta[1][1] != _BYTES:
        raise NotPaged(Whole.DICTIONARY)
    return True


def dictionary_of(chunk: Chunk, node: Node, page: bytes) -> Dictionary:
    """The dictionary of a chunk, from the bytes of its page. Raises NotPaged for one that is empty or not understood."""
    kind, codec = chunk.meta[1][1], CODECS[chunk.meta[4][1]]
    try:
        header = header_of(page, (DICTIONARY,))
        if header.encoding not in (PLAIN, PLAIN_DICTIONARY) or not 0 < header.values <= _MOST_VALUES:
            raise NotPaged(Whole.DICTIONARY)
        if header.whole > chunk.meta[6][1]:
            raise NotPaged(Whole.DICTIONARY)
        packed = page[header.length :]
        body = packed if codec == "none" else pa.Codec(codec).decompress(packed, header.unpacked, asbytes=True)
        values = _texts(body, header.values) if kind == _BYTES else pa.array(np.frombuffer(body, f"<i{_WIDTHS[kind]}"))
    except (pa.ArrowInvalid, OSError, ValueError) as error:
        raise NotPaged(Whole.DICTIONARY) from error
    # Values that are put behind the body have to follow the last one of it.
    if len(values) != header.values or _stored_bytes(values) != len(body) or len(body) != header.unpacked:
        raise NotPaged(Whole.DICTIONARY)
    return Dictionary(values, header, body, kind, codec, node.repetition == OPTIONAL)


def _stored_bytes(values: pa.Array) -> int:
    if not pa.types.is_binary(values.type):
        return len(values) * _width(values)
    return 4 * len(values) + int(pc.sum(pc.binary_length(values)).as_py() or 0)


def _width(values: pa.Array) -> int:
    return 4 if values.type == pa.int32() else 8


def extended(dictionary: Dictionary, values: pa.Array, most: int) -> tuple[Dictionary, bytes | None]:
    """The dictionary with those values, too, as they are stored, and its page; None for the page that it has.

    Its values keep their places, so that pages against it stay valid. Raises NotPaged where it would have more than `most`
    values, or more bytes than writers give a dictionary.
    """
    unknown = pc.unique(values.drop_null())
    unknown = unknown.filter(pc.invert(pc.is_in(unknown, value_set=dictionary.values)))
    if not len(unknown):
        return dictionary, None
    both = pa.concat_arrays([dictionary.values, unknown])
    if len(both) > min(most, _MOST_VALUES) or _stored_bytes(both) > _MOST_BYTES:
        raise NotPaged(Whole.FULL)
    body = dictionary.body + _plain(unknown)
    page = dictionary_page(_compressed(body, dictionary.codec), len(body), len(both), dictionary.header.encoding)
    return replace(dictionary, values=both, body=body), page


def _plain(values: pa.Array) -> bytes:
    if not pa.types.is_binary(values.type):
        return bytes(values.to_numpy())
    return b"".join(len(text).to_bytes(4, "little") + text for text in values.to_pylist())


def _compressed(body: bytes, codec: str) -> bytes:
    return body if codec == "none" else pa.Codec(codec).compress(body, asbytes=True)


def _texts(body: bytes, count: int) -> pa.Array:
    """The texts of a dictionary: its page has the bytes of a plain page of a column without nulls."""
    page = data_page(body, len(body), count, PLAIN)
    size: Any = (I64, len(page))
    meta: Struct = {
        1: (I32, _BYTES),
        2: (LIST, Items(I32, (PLAIN,))),
        3: (LIST, Items(BINARY, (b"v",))),
        4: (I32, 0),
        5: (I64, count),
        6: size,
        7: size,
        9: (I64, len(MAGIC)),
    }
    root: Struct = {4: (BINARY, b"schema"), 5: (I32, 1)}
    leaf: Struct = {1: (I32, _BYTES), 3: (I32, REQUIRED), 4: (BINARY, b"v")}
    data = small_file(page, (root, leaf), [meta], count, ())
    return pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False).column(0).combine_chunks()


def small_file(body: bytes, schema: tuple[Struct, ...], metas: list[Struct], rows: int, others: tuple[Any, ...]) -> bytes:
    """A Parquet file of one row group: its pages, and the metadata of its chunks, behind the magic bytes; `others` are fields."""
    chunks = tuple({2: (I64, 0), 3: (STRUCT, meta)} for meta in metas)
    group: Struct = {1: (LIST, Items(STRUCT, chunks)), 2: (I64, len(body)), 3: (I64, rows)}
    fields: dict[int, tuple[int, Any]] = {
        1: (I32, 2),
        2: (LIST, Items(STRUCT, schema)),
        3: (I64, rows),
        4: (LIST, Items(STRUCT, (group,))),
        **dict(others),
    }
    footer = struct_bytes(fields)
    return b"".join((MAGIC, body, footer, len(footer).to_bytes(4, "little"), MAGIC))


def stored(values: pa.Array, kind: int) -> pa.Array:
    """Values as pages of a physical type have them, bit for bit: NaN is found, and no zero is taken for the other."""
    type = values.type
    if kind == _BYTES:
        return values.cast(pa.binary())
    if pa.types.is_decimal(type):
        low = np.frombuffer(values.buffers()[1], "<i8")[2 * values.offset : 2 * (values.offset + len(values)) : 2]
        mask = None if not values.null_count else np.asarray(pc.is_null(values))
        return pa.array(low.astype(np.int32) if kind == _INT32 else low, mask=mask)
    if kind == _INT32 and pa.types.is_integer(type):
        return values.cast(pa.int32())
    return values.view(pa.int32() if kind in (_INT32, _FLOAT) else pa.int64())


def index_page(dictionary: Dictionary, values: pa.Array, encoding: int) -> bytes:
    """A data page of values, as they are stored, by their places in the dictionary, which has them all; nulls are null."""
    places = pc.index_in(values, value_set=dictionary.values)
    assert places.null_count == values.null_count
    levels = b""
    present = places
    if dictionary.optional:
        levels = _levels(places)
        levels = len(levels).to_bytes(4, "little") + levels
        present = places.drop_null()
    width = max(1, (len(dictionary.values) - 1).bit_length())
    body = levels + bytes((width,)) + _packed(present.to_numpy(zero_copy_only=False), width)
    return data_page(_compressed(body, dictionary.codec), len(body), len(places), encoding)


def _levels(values: pa.Array) -> bytes:
    if not values.null_count:
        return _varint(len(values) << 1) + b"\x01"
    bits = np.packbits(np.asarray(values.is_valid()), bitorder="little")
    return _varint(len(bits) << 1 | 1) + bits.tobytes()


def _packed(places: np.ndarray[Any, Any], width: int) -> bytes:
    """Whole numbers of so many bits each; one number again and again as one run of it."""
    if not len(places):
        return b""
    if (places == places[0]).all():
        return _varint(len(places) << 1) + int(places[0]).to_bytes((width + 7) // 8, "little")
    padded = np.zeros(-(-len(places) // 8) * 8, np.dtype("u1" if width <= 8 else "<u2" if width <= 16 else "<u4"))
    padded[: len(places)] = places
    bits = np.unpackbits(padded.view(np.uint8), bitorder="little").reshape(len(padded), -1)[:, :width]
    return _varint(len(padded) // 8 << 1 | 1) + np.packbits(bits, bitorder="little").tobytes()


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)
