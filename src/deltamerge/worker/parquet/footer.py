"""The footer of a Parquet file: its schema, its row groups and where their column chunks are.

Source: parquet-format's parquet.thrift. What could change with a chunk's place, and is not known here, is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from deltamerge.protocol.formats.json_text import json_value
from deltamerge.protocol.formats.parquet_file import MAGIC, raw_footer
from deltamerge.protocol.formats.thrift import (
    BINARY,
    FALSE,
    I16,
    I32,
    I64,
    LIST,
    STRUCT,
    TRUE,
    Items,
    Malformed,
    Struct,
    read_struct,
    struct_bytes,
)
from deltamerge.worker.parquet.plain import NotSpliceable, Reason

# The fields of each struct by their ids: what is copied or moved has no other.
_FILE = {1: I32, 2: LIST, 3: I64, 4: LIST, 5: LIST, 6: BINARY, 7: LIST, 8: STRUCT, 9: BINARY}
_GROUP = {1: LIST, 2: I64, 3: I64, 4: LIST, 5: I64, 6: I64, 7: I16}
_CHUNK = {1: BINARY, 2: I64, 3: STRUCT, 4: I64, 5: I32, 6: I64, 7: I32, 8: STRUCT, 9: BINARY}
_META = {1: I32, 2: LIST, 3: LIST, 4: I32, 5: I64, 6: I64, 7: I64, 8: LIST, 9: I64, 10: I64, 11: I64}
_META |= {12: STRUCT, 13: LIST, 14: I64, 15: I32, 16: STRUCT, 17: STRUCT}
_STATISTICS = {1: BINARY, 2: BINARY, 3: I64, 4: I64, 5: BINARY, 6: BINARY, 7: TRUE, 8: TRUE, 9: I64}
_NO_BOUNDS = (3, 4, 9)
_FLOATING = (4, 5)
_ORDINALS = 1 << 15
_KEPT_METADATA = (b"org.apache.spark.", b"ARROW:schema")
# Columns of floating numbers without NaN, as JSON: pyarrow does not count NaN in statistics.
NAN_FREE = b"deltamerge.nanFree"
ReadAt = Callable[[int, int], bytes]  # so many bytes, from a place on


@dataclass(frozen=True)
class Chunk:
    """A column chunk: its fields, those of its metadata, and its first byte in the file and the one behind its last."""

    fields: Struct
    meta: Struct
    start: int
    end: int

    @property
    def path(self) -> tuple[bytes, ...]:
        """The names from the top-level column to the leaf."""
        return tuple(self.meta[3][1].values)

    @property
    def values(self) -> int:
        """How many values there are, nulls included."""
        return int(self.meta[5][1])

    @property
    def statistics(self) -> Struct:
        """The statistics' fields, none where there are none."""
        found: Struct = get(self.meta, 12, {})
        return found


@dataclass(frozen=True)
class RowGroup:
    """A row group of so many rows, its chunks in the order of the schema's leaves."""

    fields: Struct
    rows: int
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True)
class Footer:
    """A footer that begins at `start`, and the file's bytes."""

    fields: Struct
    groups: tuple[RowGroup, ...]
    start: int

    @property
    def schema(self) -> Sequence[Struct]:
        """The elements of the schema, in their order."""
        elements: Sequence[Struct] = self.fields[2][1].values
        return elements

    def nan_free(self, name: str) -> frozenset[tuple[str, ...]]:
        """The paths of columns that the file of this name says to have no NaN.

        Readers hand metadata on to files with other rows: what is said of a file of another name counts for nothing.
        """
        texts = [get(pair, 2, b"") for pair in _structs(self.fields, 5) if get(pair, 1) == NAN_FREE]
        try:
            told = [json_value(text) for text in texts]
            return frozenset(tuple(map(str, path)) for of in told if of["file"] == _last(name) for path in of["columns"])
        except (ValueError, TypeError, KeyError):
            return frozenset()

    @property
    def writer(self) -> bytes:
        """The program that wrote the file, as it names itself."""
        return bytes(get(self.fields, 6, b""))


def get(fields: Struct, id: int, otherwise: Any = None) -> Any:
    """The value of a field."""
    return fields[id][1] if id in fields else otherwise


def footer_of(data: bytes | memoryview) -> Footer:
    """The footer of a file of which all bytes are given. Raises NotSpliceable for one that is not understood with certainty."""
    found = raw_footer(lambda count, place: bytes(data[place : place + count]), len(data))
    if found is None:
        raise NotSpliceable(Reason.FOOTER, "no footer")
    return parse_footer(found, len(data) - 8 - len(found))


def index_in(data: bytes | memoryview, chunk: Chunk, id: int) -> bytes:
    """The bytes of a chunk's column index (6) or of its offset index (4), in all bytes of its file."""
    start, length = get(chunk.fields, id), get(chunk.fields, id + 1)
    return bytes(data[start : start + length])


def parse_footer(data: bytes, start: int) -> Footer:
    """A footer of which the bytes are given, that begins at `start`. Raises as `footer_of` does."""
    try:
        fields, end = read_struct(data)
    except Malformed as error:
        raise NotSpliceable(Reason.FOOTER, str(error)) from error
    if end != len(data):
        raise NotSpliceable(Reason.FOOTER, "bytes are left")
    _check(fields, _FILE, (1, 2, 3, 4))
    if 8 in fields or 9 in fields:
        raise NotSpliceable(Reason.ENCRYPTED)
    groups = tuple(_group(group, start) for group in _structs(fields, 4))
    _structs(fields, 2), _structs(fields, 5), _structs(fields, 7)
    if sum(group.rows for group in groups) != fields[3][1]:
        raise NotSpliceable(Reason.FOOTER, "the rows of its groups are not those of the file")
    spans = sorted((chunk.start, chunk.end) for group in groups for chunk in group.chunks)
    if any(one[1] > other[0] for one, other in pairwise(spans)):
        raise NotSpliceable(Reason.FOOTER, "column chunks overlap")
    return Footer(fields, groups, start)


def _group(fields: Struct, start: int) -> RowGroup:
    _check(fields, _GROUP, (1, 2, 3))
    rows: int = fields[3][1]
    if rows < 0:
        raise NotSpliceable(Reason.FOOTER, "fewer rows than none")
    return RowGroup(fields, rows, tuple(_chunk(chunk, start) for chunk in _structs(fields, 1)))


def _chunk(fields: Struct, footer: int) -> Chunk:
    _check(fields, _CHUNK, (2,))
    if 8 in fields or 9 in fields:
        raise NotSpliceable(Reason.ENCRYPTED)
    if 1 in fields or 3 not in fields:
        raise NotSpliceable(Reason.ELSEWHERE)
    meta: Struct = fields[3][1]
    _check(meta, _META, (1, 2, 3, 4, 5, 6, 7, 9))
    _check(get(meta, 12, {}), _STATISTICS, ())
    path = meta[3][1]
    if path.type != BINARY or not path.values:
        raise NotSpliceable(Reason.FOOTER, "a column has no name")
    dictionary, first, length = get(meta, 11, 0), meta[9][1], meta[7][1]
    if get(meta, 10, 0):
        raise NotSpliceable(Reason.FOOTER, "it has index pages")
    # Some writers say 0 for no dictionary.
    begin = dictionary if 0 < dictionary < first else first
    if meta[5][1] == 0:  # without values a chunk may be nowhere
        return Chunk(fields, meta, len(MAGIC), len(MAGIC))
    if begin < len(MAGIC) or length < 0 or begin + length > footer or meta[5][1] < 0:
        raise NotSpliceable(Reason.FOOTER, "a column chunk is not in the file")
    return Chunk(fields, meta, begin, begin + length)


def _check(fields: Struct, known: dict[int, int], wanted: Iterable[int]) -> None:
    for id, (type, _) in fields.items():
        expected = known.get(id)
        if type != expected and not (expected == TRUE and type == FALSE):
            raise NotSpliceable(Reason.FOOTER, f"the field {id} is not known")
    if not all(id in fields for id in wanted):
        raise NotSpliceable(Reason.FOOTER, "a field is missing")


def _structs(fields: Struct, id: int) -> tuple[Struct, ...]:
    if id not in fields:
        return ()
    items: Items = fields[id][1]
    # An empty list may be one of anything.
    if items.values and items.type != STRUCT:
        raise NotSpliceable(Reason.FOOTER, f"the field {id} is not known")
    return items.values


def type_ordered(footer: Footer) -> bool:
    """Whether the smallest and the largest values of all columns are those by the order of their types."""
    orders = _structs(footer.fields, 7)
    leaves = len(footer.groups[0].chunks) if footer.groups else 0
    return len(orders) == leaves and all(set(order) == {1} for order in orders)


def with_fields(fields: Struct, **others: Any) -> Struct:
    """The fields with whole numbers of 64 bits in place of some, named `f` and their ids; None takes one away."""
    changed = dict(fields)
    for name, value in others.items():
        id = int(name[1:])
        if value is None:
            changed.pop(id, None)
        else:
            changed[id] = (I64, value)
    return changed


def moved(chunk: Chunk, start: int) -> Chunk:
    """The chunk where it begins at `start`; it has no indexes and no Bloom filter: `with_places` gives it those."""
    by = start - chunk.start
    meta = dict(chunk.meta)
    meta[9] = (I64, meta[9][1] + by)
    if get(meta, 11, 0) > 0:
        meta[11] = (I64, meta[11][1] + by)
    meta = {id: field for id, field in meta.items() if id not in (14, 15)}
    return Chunk({2: (I64, 0), 3: (STRUCT, meta)}, meta, start, chunk.end + by)


def with_meta(chunk: Chunk, meta: Struct) -> Chunk:
    """The chunk with other metadata, at its place."""
    return Chunk({**chunk.fields, 3: (STRUCT, meta)}, meta, chunk.start, chunk.end)


def with_place(chunk: Chunk, id: int, place: tuple[int, int]) -> Chunk:
    """The chunk with the offset and the length of its column index (6) or its offset index (4)."""
    return Chunk({**chunk.fields, id: (I64, place[0]), id + 1: (I32, place[1])}, chunk.meta, chunk.start, chunk.end)


def group_fields(rows: int, chunks: Sequence[Chunk], number: int, kept: Struct | None = None) -> Struct:
    """The fields of a row group of the given chunks; what is sorted in it is as in the group of `kept` fields."""
    fields: dict[int, tuple[int, Any]] = {
        1: (LIST, Items(STRUCT, tuple(chunk.fields for chunk in chunks))),
        2: (I64, sum(chunk.meta[6][1] for chunk in chunks)),
        3: (I64, rows),
        5: (I64, chunks[0].start),
        6: (I64, sum(chunk.meta[7][1] for chunk in chunks)),
    }
    if number < _ORDINALS:
        fields[7] = (I16, number)
    if kept is not None and 4 in kept:
        fields[4] = kept[4]
    return fields


def footer_bytes(base: Footer, groups: Sequence[Struct], name: str, nan_free: Iterable[Sequence[str]]) -> bytes:
    """The footer, its length and the magic bytes of a file of this name with other row groups of the schema of `base`.

    Of its metadata only what tells how to read it stays: anything else may tell of the rows. The columns `nan_free` have no NaN.
    """
    fields = dict(base.fields)
    fields[3] = (I64, sum(group[3][1] for group in groups))
    fields[4] = (LIST, Items(STRUCT, tuple(groups)))
    pairs = tuple(pair for pair in _structs(fields, 5) if get(pair, 1, b"").startswith(_KEPT_METADATA))
    told: Struct = {1: (BINARY, NAN_FREE), 2: (BINARY, nan_free_text(name, nan_free))}
    fields[5] = (LIST, Items(STRUCT, (*pairs, told)))
    found = struct_bytes(fields)
    return found + len(found).to_bytes(4, "little") + MAGIC


def without_nan(chunk: Chunk, nan_free: Collection[tuple[str, ...]]) -> Chunk:
    """The chunk without bounds and column index, if it has floating numbers and is not `nan_free`.

    Bounds leave NaN out. Readers for which NaN is greater than all numbers, as Spark is, would look past it.
    """
    if chunk.meta[1][1] not in _FLOATING or tuple(name.decode() for name in chunk.path) in nan_free:
        return chunk
    fields = {id: field for id, field in chunk.fields.items() if id not in (6, 7)}
    meta = dict(chunk.meta)
    if 12 in meta:
        meta[12] = (STRUCT, {id: field for id, field in chunk.statistics.items() if id in _NO_BOUNDS})
    return with_meta(Chunk(fields, meta, chunk.start, chunk.end), meta)


def footer_without_nan(data: bytes, start: int, nan_free: Collection[tuple[str, ...]]) -> bytes:
    """A footer of which the bytes are given, that begins at `start`, with `without_nan` of all chunks; like `footer_bytes`."""
    footer = parse_footer(data, start)
    groups = []
    for group in footer.groups:
        chunks = tuple(without_nan(chunk, nan_free).fields for chunk in group.chunks)
        groups.append({**group.fields, 1: (LIST, Items(STRUCT, chunks))})
    found = struct_bytes({**footer.fields, 4: (LIST, Items(STRUCT, tuple(groups)))})
    return found + len(found).to_bytes(4, "little") + MAGIC


def nan_free_text(name: str, paths: Iterable[Sequence[str]]) -> bytes:
    """The metadata `NAN_FREE` of the file of this name."""
    return json.dumps({"file": _last(name), "columns": [list(path) for path in paths]}, separators=(",", ":")).encode()


def _last(name: str) -> str:
    """A file's name without its folders, which differ between copies of a table."""
    return name.rpartition("/")[2]
