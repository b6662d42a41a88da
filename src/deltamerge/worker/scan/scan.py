"""The Arrow scan: rows of data files as Spark wants them, filtered before they leave Python.

Row groups without a candidate are not decoded further than their keys, and data columns are read for candidates only.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.protocol.formats.parquet_file import ParquetFile
from deltamerge.protocol.formats.roaring import Mask
from deltamerge.protocol.formats.texts import holds_text
from deltamerge.protocol.formats.thrift import Malformed
from deltamerge.protocol.schema.char_varchar import TextPath
from deltamerge.protocol.values.calendar import Calendar, calendars_of
from deltamerge.protocol.values.condition import Condition, names_in
from deltamerge.protocol.values.plain import plain_rows
from deltamerge.protocol.values.predicate import Predicate, columns_of
from deltamerge.protocol.values.shipping import packed, unpacked
from deltamerge.protocol.values.widths import is_fixed
from deltamerge.worker.scan.calendar import gregorian
from deltamerge.worker.scan.columns import conform_table, padded, place, stored_names
from deltamerge.worker.scan.row_errors import Refused, in_file
from deltamerge.worker.scan.store import DataStore
from deltamerge.worker.scan.vectors import Vector, read_vector, shown
from deltamerge.worker.skipping.bloom import BloomFilter
from deltamerge.worker.skipping.holds import Sides, holds
from deltamerge.worker.skipping.keys import ExactFilter
from deltamerge.worker.skipping.narrow import may_hold

FILE = "__deltamerge_file"
ROW = "__deltamerge_row"
KEY_ID = "__deltamerge_key_id"
POSITION_FIELDS = (pa.field(FILE, pa.int32(), False), pa.field(ROW, pa.int64(), False))
# A row group is read whole, and its rows are numbered, whatever few bytes their values have.
MOST_GROUP_ROWS = 1 << 28
TOO_LARGE = "DELTAMERGE_ROW_GROUP_TOO_LARGE"
_BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class FileTask:
    """One data file, or a share of its row groups, to be read. `partition` holds typed values by logical name.

    Rows that `vector` deletes are not there, nor those that `among`, if it is given, does not delete. `rows` counts the
    file's rows, deleted ones included, where the log does. `base_row_id` and `row_version` are for tables that track rows:
    the id of the file's first row, and the version that committed the file. `size` is in bytes, as the log says. A file that
    lies outside the table has a `store` of its own, in which `name` is its name.
    """

    file: int
    name: str
    partition: Mapping[str, pa.Scalar]
    share: tuple[int, int] = (0, 1)
    vector: Vector | None = None
    rows: int | None = None
    among: Vector | None = None
    base_row_id: int | None = None
    row_version: int | None = None
    size: int | None = None
    store: DataStore | None = None

    @property
    def label(self) -> str:
        """The file as an error names it."""
        return self.name if self.store is None else f"{self.store.root.rstrip('/')}/{self.name}"

    def __reduce__(self) -> Any:
        others = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "partition"}
        return FileTask._unpacked, ({name: packed(value) for name, value in self.partition.items()}, others)

    @classmethod
    def _unpacked(cls, partition: Mapping[str, Any], others: Mapping[str, Any]) -> FileTask:
        return cls(partition={name: unpacked(value) for name, value in partition.items()}, **others)


@dataclass(frozen=True)
class ScanSpec:
    """What to read: the columns by logical name, without the position columns, and the filter over some of them.

    `schema` has the filter's key columns too; `with_key_ids` adds the id of each row's key among those of an exact filter. Rows
    that have none, whose key id is null, come where the predicate `others` may hold; without one none does. `padded` has the
    lengths of CHAR texts by their paths; they are no keys: files may hold them without the blanks that they are read with. A
    `condition`, in place of keys, lets the rows through for which it is true; `schema` has its columns. On a disk keys of fixed
    width are read without a look at their statistics from row groups with fewer than `rows_per_chunk` rows for each column of the
    file.
    """

    store: DataStore
    schema: pa.Schema
    keys: ExactFilter | BloomFilter | None = None
    with_key_ids: bool = False
    others: Predicate | None = None
    padded: tuple[tuple[TextPath, int], ...] = ()
    condition: Condition | None = None
    rows_per_chunk: int = 0

    @property
    def output(self) -> pa.Schema:
        """The schema of the batches: the columns, the file's index, the row's position in it, and its key id if asked for."""
        key_id = [pa.field(KEY_ID, pa.int64(), self.others is not None)] if self.with_key_ids else []
        return pa.schema([*self.schema, *POSITION_FIELDS, *key_id])


@dataclass(frozen=True)
class RowGroup:
    """A row group of an open file: its index and the position of its first row."""

    index: int
    first_row: int
    rows: int


def open_file(store: DataStore, task: FileTask) -> Any:
    """The bytes of a file of the table in `store`. Raises Refused naming it when it has another size than the log says."""
    source = (task.store or store).open(task.name)
    size = int(source.size())
    if task.size is not None and size != task.size:
        source.close()
        message = f"The data file {task.label} has {size} bytes, the transaction log says {task.size}."
        raise Refused("DELTAMERGE_CORRUPT_DATA_FILE", message, task.label)
    return source


def open_parquet(source: Any, name: str = "", remote: bool = False) -> ParquetFile:
    """A data file that is read piece by piece, never held whole. Raises Refused naming the file when it is no Parquet, or has
    a row group of more than MOST_GROUP_ROWS rows.

    Of a `remote` file, where a request costs more than bytes, the columns of a row group are fetched together. Checksums of
    pages are verified where there are any. Legacy INT96 timestamps come in microseconds, because nanoseconds only reach from 1677
    to 2262.
    """
    with in_file(name), decoding():
        file = ParquetFile(source, pre_buffer=remote, coerce_int96_timestamp_unit="us", page_checksum_verification=True)
        for number in range(file.metadata.num_row_groups):
            if (rows := file.metadata.row_group(number).num_rows) > MOST_GROUP_ROWS:
                raise Refused(TOO_LARGE, f"A row group of a data file has {rows} rows, more than {MOST_GROUP_ROWS}.")
        _ = file.top_level  # raises where a name is no text
        return file


# What a file system says when it can't be reached, in texts of its own without a number of the error.
_UNREACHED = re.compile(r"AWS Error|Azure|google::cloud|curl|HTTP|connection|timeout|timed out", re.IGNORECASE)


@contextlib.contextmanager
def decoding() -> Iterator[None]:
    """What can't be decoded within comes out as Refused; `in_file` adds the file's name."""
    try:
        yield
    except MemoryError as error:
        raise Refused(TOO_LARGE, f"A data file takes more memory than there is: {str(error).rstrip('. ')}.") from error
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if getattr(error, "errno", None) is not None or _UNREACHED.search(str(error)):
            raise
        raise Refused("DELTAMERGE_CORRUPT_DATA_FILE", f"A data file can't be read: {str(error).rstrip('. ')}.") from error


def decoded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches of a file. Raises as `decoding`."""
    while True:
        with decoding():
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


def check_rows(found: int, rows: int) -> None:
    """Raise Refused where fewer rows were read than there are: Arrow overlooks some arrays behind empty pages."""
    if found != rows:
        raise Refused(
            "DELTAMERGE_CORRUPT_DATA_FILE", f"A data file can't be read: {found} of {rows} rows of a row group were found."
        )


def row_groups(file: ParquetFile, share: tuple[int, int] = (0, 1)) -> list[RowGroup]:
    """The row groups of a share of the file: number `share[0]` of `share[1]` equal parts."""
    groups = []
    first = 0
    count = file.metadata.num_row_groups
    for index in range(count):
        rows = file.metadata.row_group(index).num_rows
        if index * share[1] // count == share[0]:
            groups.append(RowGroup(index, first, rows))
        first += rows
    return groups


@contextlib.contextmanager
def _opened(spec: ScanSpec, task: FileTask) -> Iterator[ParquetFile]:
    """A file to be scanned. What goes wrong within names it."""
    store = task.store or spec.store
    with open_file(spec.store, task) as source, store.naming(task.name), in_file(task.label):
        yield open_parquet(source, task.label, store.remote)


def scan_file(spec: ScanSpec, task: FileTask) -> Iterator[pa.RecordBatch]:
    """The rows of one file that are not deleted and can match, in batches of `spec.output`."""
    with _opened(spec, task) as file:
        deleted = read_vector(task.vector, task.label, file.metadata.num_rows)
        among = None if task.among is None else read_vector(task.among, task.label, file.metadata.num_rows)
        for group in row_groups(file, task.share):
            table = _candidates(file, group, spec, task, shown(deleted, among, group.first_row, group.rows))
            if table is not None and table.num_rows:
                yield from table.to_batches(max_chunksize=_BATCH_ROWS)


def row_at(spec: ScanSpec, task: FileTask, row: int) -> dict[str, Any]:
    """One row of a file, by its position, as Python values."""
    with _opened(spec, task) as file:
        group = next(group for group in row_groups(file) if row < group.first_row + group.rows)
        found = read_columns(file, group.index, spec.schema, task.partition).slice(row - group.first_row, 1)
        return plain_rows(found)[0]


def _candidates(file: ParquetFile, group: RowGroup, spec: ScanSpec, task: FileTask, alive: Mask | None) -> pa.Table | None:
    rows = np.arange(group.first_row, group.first_row + group.rows, dtype=np.int64)
    if alive is not None and not alive.any():
        return None
    if spec.keys is None and spec.condition is None:
        table = read_columns(file, group.index, spec.schema, task.partition)
        table, rows = (table, rows) if alive is None else (table.filter(pa.array(alive)), rows[alive])
        return _positioned(table, task.file, rows, spec, None)
    deciding = _deciding(spec)

    def is_out() -> bool:
        keys = spec.keys if spec.others is None else None
        return keys is not None and not may_contain(file, group.index, keys, deciding, task.partition)

    looks = not _is_read_sooner(file, group, spec, (task.store or spec.store).remote, deciding)
    if looks and is_out():
        return None
    try:
        known = read_columns(file, group.index, deciding, task.partition)
    except Refused:  # as of days of an unknown calendar, in a row group that nobody needs
        if looks or not is_out():
            raise
        return None
    mask, ids = _wanted(spec, known)
    mask = mask if alive is None else mask & alive
    if not mask.any():
        return None
    chosen = np.flatnonzero(mask)
    rest = pa.schema([field for field in spec.schema if field.name not in deciding.names])
    indices = None if len(chosen) == group.rows else pa.array(chosen)
    found = known if indices is None else known.take(indices)
    if len(rest):
        others = read_columns(file, group.index, rest, task.partition)
        others = others if indices is None else others.take(indices)
        columns = {**_by_name(found), **_by_name(others)}
        found = pa.table([columns[field.name] for field in spec.schema], schema=spec.schema)
    else:
        found = found.select(spec.schema.names)
    return _positioned(found, task.file, rows[chosen], spec, None if ids is None else ids.take(pa.array(chosen)))


def _is_read_sooner(file: ParquetFile, group: RowGroup, spec: ScanSpec, remote: bool, keys: pa.Schema) -> bool:
    """Whether to read the keys of a row group takes less time than to look up what the footer says of them."""
    is_small = group.rows < spec.rows_per_chunk * file.metadata.num_columns
    return is_small and not remote and all(is_fixed(field.type) for field in keys)


def _deciding(spec: ScanSpec) -> pa.Schema:
    """The columns that say which rows are wanted."""
    names = set() if spec.condition is None else set(names_in(spec.condition))
    names |= set() if spec.keys is None else set(spec.keys.columns)
    names |= set() if spec.others is None else {path[0] for path in columns_of(spec.others)}
    return pa.schema([field for field in spec.schema if field.name in names])


def _wanted(spec: ScanSpec, known: pa.Table) -> tuple[Mask, pa.Array | None]:
    """Which rows are wanted, and the ids of their keys if they are asked for."""
    if spec.keys is None:
        assert spec.condition is not None
        return holds(spec.condition, Sides(known.num_rows, known)), None
    arrays = [known[name] for name in spec.keys.columns]
    ids = spec.keys.ids_of(arrays) if spec.with_key_ids and isinstance(spec.keys, ExactFilter) else None
    mask = spec.keys.mask(arrays) if ids is None else np.asarray(ids.is_valid().to_numpy(zero_copy_only=False))
    return (mask if spec.others is None else mask | may_hold(spec.others, known)), ids


def _by_name(table: pa.Table) -> dict[str, Any]:
    return dict(zip(table.column_names, table.columns, strict=True))


def _positioned(table: pa.Table, file: int, rows: np.ndarray[Any, Any], spec: ScanSpec, ids: pa.Array | None) -> pa.Table:
    for at, field in enumerate(spec.schema):
        lengths = [(path[1:], length) for path, length in spec.padded if path[0] == field.name]
        table = table.set_column(at, field, padded(table.column(at), lengths)) if lengths else table
    files = pa.array(np.full(len(rows), file, np.int32))
    extra = [ids] if ids is not None else []
    return pa.table([*table.columns, files, pa.array(rows), *extra], schema=spec.output)


def read_columns(file: ParquetFile, group: int, schema: pa.Schema, partition: Mapping[str, pa.Scalar]) -> pa.Table:
    """Columns of one row group by logical name; partition columns are the file's constants."""
    rows = file.metadata.row_group(group).num_rows
    stored = pa.schema([field for field in schema if field.name not in partition])
    names = stored_names(file, stored)
    with decoding():
        data = file.read_row_group(group, columns=names, use_threads=False) if names else None
    if data is not None:
        check_rows(data.num_rows, rows)
    table = conform_table(gregorian(data, file), stored) if data is not None else _nulls(stored, rows)
    return with_partition(table, schema, partition, rows)


def with_partition(table: pa.Table, schema: pa.Schema, partition: Mapping[str, pa.Scalar], rows: int) -> pa.Table:
    """The table of stored columns with the partition's constants put in their places."""
    if len(schema) == table.num_columns:
        return table
    columns = _by_name(table)
    filled = [pa.repeat(partition[field.name], rows) if field.name in partition else columns[field.name] for field in schema]
    return pa.table(filled, schema=schema)


def _nulls(schema: pa.Schema, rows: int) -> pa.Table:
    if not len(schema):
        return pa.table({"": pa.nulls(rows)}).select([])
    return pa.table([pa.nulls(rows, field.type) for field in schema], schema=schema)


def may_contain(
    file: ParquetFile, group: int, keys: ExactFilter | BloomFilter, schema: pa.Schema, partition: Mapping[str, pa.Scalar]
) -> bool:
    """Whether a row group's Parquet statistics leave room for any of the keys."""
    if file.is_wide:
        return True
    stored = file.schema_arrow
    by_date = calendars_of(file).dates is Calendar.GREGORIAN
    for position, name in enumerate(keys.columns):
        bounds = keys.bounds(position)
        at = None if name in partition else place(schema.field(name), stored)
        index = None if at is None else file.top_level.get(stored.field(at).name)
        if bounds is None or index is None or (pa.types.is_date(bounds[0].type) and not by_date):
            continue
        found = _bounds(file, group, index, stored.field(at).type, schema.field(name).type)
        if found is not None and (pc.less(found[1], bounds[0]).as_py() or pc.greater(found[0], bounds[1]).as_py()):
            return False
    return True


def _bounds(
    file: ParquetFile, group: int, index: int, stored: pa.DataType, type: pa.DataType
) -> tuple[pa.Scalar, pa.Scalar] | None:
    """Smallest and largest value by Parquet statistics, for types where they can be trusted and compared."""
    stored = stored.value_type if pa.types.is_dictionary(stored) else stored
    is_text = pa.types.is_string(type) and holds_text(stored)
    is_day = stored == type == pa.date32()
    if not (is_text or is_day or (pa.types.is_signed_integer(stored) and pa.types.is_integer(type))):
        return None
    try:
        chunk = file.chunks.chunk(group, index)
        if is_text:
            return None if chunk.bounds is None else tuple(pa.scalar(bound.decode(), type) for bound in chunk.bounds)
        if chunk.numbers is None:
            return None
        return tuple(pa.scalar(number, pa.int32() if is_day else pa.int64()).cast(type) for number in chunk.numbers)
    except (Malformed, pa.ArrowException, UnicodeDecodeError, OverflowError):
        return None
