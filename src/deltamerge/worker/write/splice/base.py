"""The file that is spliced: what has to be known of it, and to be so, before a byte of it may be copied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from deltamerge.protocol.formats.thrift import Malformed, Struct, read_struct
from deltamerge.protocol.values.calendar import Calendar, calendars_of
from deltamerge.worker.parquet.agreement import check_statistics, check_told, told_by_headers, told_by_index
from deltamerge.worker.parquet.encode import empty_footer
from deltamerge.worker.parquet.footer import Chunk, Footer, get, parse_footer, type_ordered
from deltamerge.worker.parquet.places import offset_index, walked
from deltamerge.worker.parquet.plain import NotSpliceable, Reason
from deltamerge.worker.parquet.schema import REQUIRED, Node, check_chunk, columns_of, is_alike
from deltamerge.worker.scan.scan import FileTask, row_groups
from deltamerge.worker.scan.store import DataStore
from deltamerge.worker.write.rewrite import ChangeSpec, Opened, is_small
from deltamerge.worker.write.tracking import ROW_VERSION
from deltamerge.worker.write.write import WriteSpec

_INDEX_BYTES = 16 << 20
_BLOOM_HEADER_BYTES = 64
MOST_FOOTER_BYTES = 8 << 20  # of a file that is looked into: a larger footer is written anew with the rows


@dataclass(frozen=True)
class Base:
    """A file whose row groups and column chunks may be copied.

    `names` are its top-level columns, logical names by physical ones, in its order, `columns` what is in each, `schema` has them
    in Arrow.
    """

    opened: Opened
    store: DataStore
    name: str
    footer: Footer
    columns: tuple[Node, ...]
    names: Mapping[str, str]
    schema: pa.Schema

    def read_at(self, count: int, place: int) -> bytes:
        """Bytes of the file."""
        with self.store.naming(self.name):
            found: bytes = self.opened.source.read_at(count, place)
        if len(found) != count:
            raise OSError(f"{self.name}: {count} bytes from {place} on are not there")
        return found

    def leaves_of(self, physical: str) -> range:
        """The numbers of a top-level column's leaves."""
        first = 0
        for node in self.columns:
            count = len(node.leaves)
            if node.name == physical.encode():
                return range(first, first + count)
            first += count
        raise KeyError(physical)


def base_of(spec: ChangeSpec, task: FileTask, opened: Opened) -> Base:
    """The file as one to splice. Raises NotSpliceable for one of which that can't be said with certainty."""
    if not spec.write.budgets.splices or spec.write.most_rows:
        raise NotSpliceable(Reason.OFF)
    if is_small(spec, opened):
        raise NotSpliceable(Reason.SMALL)
    if opened.deleted.containers:
        raise NotSpliceable(Reason.VECTOR)
    if not _keeps_columns(spec, spec.write.data_columns) and _is_one_small_group(spec, opened):
        raise NotSpliceable(Reason.WHOLE)
    calendars = calendars_of(opened.file)
    if calendars.int96:
        raise NotSpliceable(Reason.TYPES, "INT96")
    if not calendars.dates is calendars.timestamps is Calendar.GREGORIAN:
        raise NotSpliceable(Reason.CALENDAR)
    found = opened.file.footer
    if found is None or len(found) > MOST_FOOTER_BYTES:
        raise NotSpliceable(Reason.FOOTER, "no footer" if found is None else "too long")
    footer = parse_footer(found, opened.source.size() - 8 - len(found))
    columns = columns_of(footer.schema)
    names = _names(spec.write, columns)
    _check_columns(spec, columns, names)
    leaves = [leaf for node in columns for leaf in node.leaves]
    for group in footer.groups:
        if len(group.chunks) != len(leaves):
            raise NotSpliceable(Reason.FOOTER, "column chunks are not those of the schema")
        for chunk, leaf in zip(group.chunks, leaves, strict=True):
            check_chunk(chunk, leaf)
            check_statistics(chunk, leaf)
        if any(len(chunk.path) == 1 and chunk.values != group.rows for chunk in group.chunks):
            raise NotSpliceable(Reason.FOOTER, "a column has other rows than its row group")
    if [group.rows for group in footer.groups] != [group.rows for group in row_groups(opened.file)]:
        raise NotSpliceable(Reason.FOOTER, "it has other row groups")
    if not type_ordered(footer):
        raise NotSpliceable(Reason.ORDERS)
    if len(footer.groups) <= 1 and not spec.write.budgets.page_share and not _keeps_columns(spec, names.values()):
        raise NotSpliceable(Reason.WHOLE)
    schema = pa.schema([_as_required(field, columns) for field in _in_order(spec.write.stored, columns)])
    return Base(opened, task.store or spec.write.store, task.name, footer, columns, names, schema)


def _names(spec: WriteSpec, columns: tuple[Node, ...]) -> Mapping[str, str]:
    logical = [name for name in spec.data_columns if not pa.types.is_null(spec.schema.field(name).type)]
    known = dict(zip(spec.stored.names, logical, strict=True))
    found = [node.name.decode(errors="replace") for node in columns]
    if len(set(found)) != len(found) or set(found) != set(known):
        raise NotSpliceable(Reason.COLUMNS)
    return {name: known[name] for name in found}


def _check_columns(spec: ChangeSpec, columns: tuple[Node, ...], names: Mapping[str, str]) -> None:
    wanted = {node.name: node for node in _wanted(spec.write.stored)}
    assigned = set().union(*(clause.assigned for clause in spec.clauses)) if spec.clauses else set()
    assigned |= {ROW_VERSION} if spec.updates else set()
    demanded = {path[0] for path in spec.write.required if len(path) == 1}
    for node in columns:
        if not is_alike(node, wanted[node.name]):
            raise NotSpliceable(Reason.TYPES, node.name.decode())
        logical = names[node.name.decode()]
        # A chunk that can hold no null does not take the values of a column that may be null.
        if node.repetition == REQUIRED and not node.below and logical in assigned - demanded:
            raise NotSpliceable(Reason.TYPES, node.name.decode())


def _wanted(stored: pa.Schema) -> tuple[Node, ...]:
    """The columns as they are written today."""
    return columns_of(empty_footer(stored).schema)


def _keeps_columns(spec: ChangeSpec, names: Iterable[str]) -> bool:
    """Whether some clause leaves some of the columns as they are."""
    updates, every = [spec.clauses[number] for number in spec.updates], set(names)
    return any(not clause.assigned >= every for clause in updates)


def _is_one_small_group(spec: ChangeSpec, opened: Opened) -> bool:
    """Whether a file has one row group of few bytes: to look for its pages takes longer than to write them again."""
    metadata = opened.file.metadata
    return bool(metadata.num_row_groups == 1 and metadata.row_group(0).total_byte_size < spec.write.budgets.page_bytes)


def _in_order(schema: pa.Schema, columns: tuple[Node, ...]) -> list[pa.Field]:
    return [schema.field(node.name.decode()) for node in columns]


def _as_required(field: pa.Field, columns: tuple[Node, ...]) -> pa.Field:
    node = next(node for node in columns if node.name.decode() == field.name)
    return field.with_nullable(node.repetition != REQUIRED)


@dataclass(frozen=True)
class Indexes:
    """Of chunks (row group, leaf) the offset indexes and the bytes of the column indexes, where they have them."""

    offsets: Mapping[tuple[int, int], Struct]
    columns: Mapping[tuple[int, int], bytes]
    are_complete: bool


def indexes_of(base: Base) -> Indexes:
    """The indexes of a file's pages; chunks without one are looked through.

    Raises NotSpliceable where pages are not where the footer says, or are said to have other values, and for indexes and Bloom
    filters that can't be kept.
    """
    footer = base.footer
    chunks = {(g, c): chunk for g, group in enumerate(footer.groups) for c, chunk in enumerate(group.chunks)}
    places = {(key, id): _place(chunk, id, footer) for key, chunk in chunks.items() for id in (4, 6) if id in chunk.fields}
    low = min((start for start, _ in places.values()), default=0)
    high = max((end for _, end in places.values()), default=0)
    if high - low > _INDEX_BYTES:
        raise NotSpliceable(Reason.INDEXES, "they are far apart")
    data = base.read_at(high - low, low) if places else b""
    leaves = [leaf for node in base.columns for leaf in node.leaves]
    offsets, columns = {}, {}
    for key, chunk in chunks.items():
        if (key, 4) in places:
            start, end = places[key, 4]
            offsets[key] = offset_index(chunk, data[start - low : end - low])
        elif base.store.remote or 6 in chunk.fields:
            raise NotSpliceable(Reason.INDEXES, "a column chunk has no offset index")
        else:
            check_told(chunk, leaves[key[1]], told_by_headers(walked(chunk, base.read_at)))
        if (key, 6) in places:
            start, end = places[key, 6]
            columns[key] = data[start - low : end - low]
            check_told(chunk, leaves[key[1]], told_by_index(_whole(columns[key])))
    _check_bloom_filters(base)
    return Indexes(offsets, columns, len(offsets) == len(chunks))


def _place(chunk: Chunk, id: int, footer: Footer) -> tuple[int, int]:
    start, length = get(chunk.fields, id), get(chunk.fields, id + 1)
    if length is None or start < 4 or length <= 0 or start + length > footer.start:
        raise NotSpliceable(Reason.INDEXES, "they are not in the file")
    return start, start + length


def _whole(data: bytes) -> Struct:
    """A column index, which has nothing that depends on its place."""
    try:
        fields, end = read_struct(data)
    except Malformed as error:
        raise NotSpliceable(Reason.INDEXES, str(error)) from error
    if end != len(data) or not set(fields) <= {1, 2, 3, 4, 5, 6, 7, 8}:
        raise NotSpliceable(Reason.INDEXES, "a column index is not understood")
    return fields


def _check_bloom_filters(base: Base) -> None:
    footer = base.footer
    for group in footer.groups:
        for chunk in group.chunks:
            place = bloom_place(chunk)
            if place is None:
                continue
            start, length = place
            if length <= 0 or start < 4 or start + length > footer.start:
                raise NotSpliceable(Reason.INDEXES, "a Bloom filter is not in the file")
            try:
                header, end = read_struct(base.read_at(min(_BLOOM_HEADER_BYTES, length), start))
            except Malformed as error:
                raise NotSpliceable(Reason.INDEXES, str(error)) from error
            if end + get(header, 1, -1) != length:
                raise NotSpliceable(Reason.INDEXES, "a Bloom filter is not understood")


def bloom_place(chunk: Chunk) -> tuple[int, int] | None:
    """The place and the length of a chunk's Bloom filter. Raises NotSpliceable where it does not say how long it is."""
    start, length = get(chunk.meta, 14), get(chunk.meta, 15)
    if start is None and length is None:
        return None
    if not isinstance(start, int) or not isinstance(length, int):
        raise NotSpliceable(Reason.INDEXES, "the length of a Bloom filter is not known")
    return start, length
