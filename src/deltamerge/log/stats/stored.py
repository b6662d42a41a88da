"""Statistics that a checkpoint keeps as structs beside their JSON: left in its file, read by columns when asked for.

JSON stays what a snapshot holds, because commits need it; bounds of a few columns come several times faster from the
structs' Parquet columns than from parsing it. Any doubt gives None, and the JSON is parsed.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.errors import StorageError
from deltamerge.log.stats.struct import as_type, child, whole
from deltamerge.protocol.formats.decoded_size import DecodedSize
from deltamerge.protocol.formats.parquet_file import ParquetFile
from deltamerge.protocol.values.calendar import Calendar, calendars_of
from deltamerge.protocol.values.predicate import Path
from deltamerge.storage import NotFound, ObjectInfo, Store

log = logging.getLogger("deltamerge.log")

STRUCTS = "add.stats_parsed"
_SETTLED = datetime(1900, 1, 2, tzinfo=UTC)


@dataclass(frozen=True)
class StoredFile:
    """A file of a checkpoint as it was just before it was read."""

    store: Store
    info: ObjectInfo

    @classmethod
    def of(cls, store: Store, name: str) -> StoredFile | None:
        """The file of that name as it is now, None when there is none."""
        info = store.info(name)
        return None if info is None else cls(store, info)

    def read(self) -> tuple[ParquetFile, bytes]:
        """The file, read again, and its bytes. Raises Changed when it is no longer the same."""
        data = self.store.read(self.info.name)
        now = self.store.info(self.info.name)
        if now is None or now.etag != self.info.etag:
            raise Changed("the file is another one")
        file = ParquetFile(pa.BufferReader(data), coerce_int96_timestamp_unit="us", page_checksum_verification=True)
        if _is_hybrid(file):
            raise Changed("its dates may be of the hybrid calendar")
        return file, data


@dataclass(frozen=True)
class StoredStats:
    """One row group of a checkpoint file with `rows` live files, each with its statistics as a struct."""

    file: StoredFile
    row_group: int
    rows: int


class Changed(Exception):
    """The structs do not surely say what the JSON does."""


def stored_leaves(groups: Sequence[StoredStats], wanted: Mapping[Path, pa.DataType]) -> dict[Path, pa.Array] | None:
    """Leaves of the statistics in some row groups, one after the other, each as its type.

    None where the structs lack one, or the file is no longer the one that was read.
    """
    try:
        parts = [
            part for file, some in itertools.groupby(groups, attrgetter("file")) for part in _leaves(file, list(some), wanted)
        ]
        return {path: pa.concat_arrays([part[path] for part in parts]) for path in wanted}
    except (Changed, NotFound, StorageError, OSError, ValueError, pa.ArrowException) as error:
        log.debug("the statistics structs of %s are passed over: %s", groups[0].file.info.name, error)
        return None


def _leaves(
    stored: StoredFile, groups: Sequence[StoredStats], wanted: Mapping[Path, pa.DataType]
) -> Iterator[dict[Path, pa.Array]]:
    file, data = stored.read()
    size, columns = DecodedSize(), [f"{STRUCTS}.{'.'.join(path)}" for path in wanted]
    size.allow(len(data))
    for group in groups:
        size.add_columns(data, file, columns, group.row_group)
        structs = parsed_stats(file, group.row_group, columns)
        leaves = {path: child(structs, path) for path in wanted}
        if len(structs) != group.rows or any(leaf is None for leaf in leaves.values()):
            raise Changed("a column has no statistics there")
        yield {path: as_type(leaf, wanted[path]) for path, leaf in leaves.items()}


def parsed_stats(file: ParquetFile, row_group: int, columns: Sequence[str] = (STRUCTS,)) -> pa.StructArray:
    """The statistics structs of the files in a row group, or those of their `columns` alone, by their paths in the file.

    Old dates and timestamps are null when they may be of the hybrid calendar.
    """
    structs = pc.struct_field(valid(file.read_row_group(row_group, list(columns)), "add"), "stats_parsed")
    leaves = [file.schema.column(number) for number in range(len(file.schema.names))]
    found = _zoned(structs, STRUCTS, {leaf.path for leaf in leaves if leaf.physical_type == "INT96"})
    return _settled(found) if _is_hybrid(file) else found


def _zoned(values: pa.Array, path: str, moments: set[str]) -> pa.Array:
    """The values with a zone for the timestamps at `moments`: INT96, which has none, is always a moment in UTC."""
    if path in moments:
        return values.cast(pa.timestamp("us")).cast(pa.int64()).cast(pa.timestamp("us", "UTC"))
    if not pa.types.is_struct(values.type) or not moments:
        return values
    children = {f.name: _zoned(pc.struct_field(values, f.name), f"{path}.{f.name}", moments) for f in values.type}
    return pa.StructArray.from_arrays(list(children.values()), list(children), mask=values.is_null())


def _is_hybrid(file: ParquetFile) -> bool:
    """Whether old dates or timestamps of a file may be of another calendar than Delta's."""
    calendars = calendars_of(file)
    return not calendars.dates is calendars.timestamps is Calendar.GREGORIAN


def _settled(values: pa.Array) -> pa.Array:
    """The values without dates and timestamps of times in which the calendars, or their zones, differ."""
    type = values.type
    if pa.types.is_struct(type):
        children = [_settled(pc.struct_field(values, field.name)) for field in type]
        return pa.StructArray.from_arrays(children, fields=list(type), mask=values.is_null())
    if pa.types.is_date(type) or pa.types.is_timestamp(type):
        return pc.if_else(pc.less(values, pa.scalar(_SETTLED, pa.timestamp("us")).cast(type)), pa.scalar(None, type), values)
    return values


def valid(table: pa.Table, kind: str) -> pa.Array:
    """The non-null values of a column as one array, none when it is absent."""
    if kind not in table.column_names:
        return pa.array([], pa.struct([]))
    column = table[kind]
    if column.null_count:
        rows = np.flatnonzero(column.is_valid().to_numpy())
        together = len(rows) and rows[-1] - rows[0] + 1 == len(rows)
        column = column.slice(rows[0], len(rows)) if together else column.take(pa.array(rows))
    return whole(column)
