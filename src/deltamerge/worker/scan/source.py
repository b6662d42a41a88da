"""A source that is Parquet files, as workers read it, without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from deltamerge.protocol.values.calendar import Calendar
from deltamerge.worker.scan.calendar import gregorian
from deltamerge.worker.scan.columns import conform_table, place, stored_names
from deltamerge.worker.scan.outcomes import AttemptEnded, SourceUnreadable
from deltamerge.worker.scan.row_errors import Refused
from deltamerge.worker.scan.scan import FileTask, open_parquet, row_groups
from deltamerge.worker.scan.store import DataStore, Stamp

# Where a row is: in which bin, and at which position among the bin's rows.
BIN, POSITION = "__deltamerge_bin", "__deltamerge_position"
_BATCH_ROWS = 131_072


@dataclass(frozen=True)
class SourceSpec:
    """The Parquet files of a source: of `store` those that `bins` name, a share of their row groups each.

    They must have all columns of `schema`; `columns` are read, all if there are none. With `positioned` come BIN and POSITION,
    too. By their `stamps` files are known to be those that were found first. Where they are read `threaded`, Arrow decodes
    several columns at once.
    """

    store: DataStore
    schema: pa.Schema
    bins: tuple[tuple[FileTask, ...], ...] = field(repr=False)
    stamps: Mapping[str, Stamp] = field(default_factory=dict, repr=False)
    columns: tuple[str, ...] = ()
    positioned: bool = False
    threaded: bool = False

    @property
    def read(self) -> pa.Schema:
        """The columns that are read."""
        return pa.schema([found for found in self.schema if not self.columns or found.name in self.columns])


def source_rows(spec: SourceSpec, number: int) -> Iterator[pa.Table]:
    """The rows of a bin.

    Raises AttemptEnded (SourceUnreadable) for a file that Spark may read otherwise, one without one of the columns or with
    another type, and for one that is no longer what it was.
    """
    first = 0
    for task in spec.bins[number]:
        try:
            for table in _rows_of(spec, task):
                yield _positioned(table, number, first) if spec.positioned else table
                first += table.num_rows
        except (Refused, OSError, ValueError, pa.ArrowException) as error:
            raise AttemptEnded(SourceUnreadable(f"{task.name}: {type(error).__name__}: {error}")) from error


def rows_at(spec: SourceSpec, number: int, positions: npt.NDArray[np.int64]) -> Iterator[pa.Table]:
    """The rows of a bin at some positions, which ascend."""
    first = 0
    for table in source_rows(spec, number):
        start, end = np.searchsorted(positions, [first, first + table.num_rows])
        if start < end:
            yield table.take(pa.array(positions[start:end] - first))
        first += table.num_rows


def _positioned(table: pa.Table, number: int, first: int) -> pa.Table:
    rows = table.num_rows
    binned = table.append_column(BIN, pa.array(np.full(rows, number, np.int32)))
    return binned.append_column(POSITION, pa.array(np.arange(first, first + rows, dtype=np.int64)))


def _rows_of(spec: SourceSpec, task: FileTask) -> Iterator[pa.Table]:
    schema = spec.read
    store, name = spec.store.of_url(task.name)
    with store.open(name) as source:
        file = open_parquet(source, task.name, store.remote)
        _check(file, spec.schema, task.name)
        if store.stamp(name) != spec.stamps[task.name]:
            raise AttemptEnded(SourceUnreadable(f"the file {task.name} has changed since it was found"))
        names = stored_names(file, schema)
        for group in row_groups(file, task.share):
            batches = file.iter_batches(
                batch_size=_BATCH_ROWS, row_groups=[group.index], columns=names, use_threads=spec.threaded
            )
            for batch in batches:
                # By options that nobody sees Spark takes another calendar for files that it hasn't written.
                yield conform_table(gregorian(pa.Table.from_batches([batch]), file, Calendar.UNKNOWN), schema)


def is_read_alike(file: pq.ParquetFile, schema: pa.Schema) -> bool:
    """Whether a file has the columns of `schema` as workers read them."""
    try:
        _check(file, schema, "")
    except (AttemptEnded, Refused):
        return False
    return True


def _check(file: pq.ParquetFile, schema: pa.Schema, name: str) -> None:
    leaves = {leaf.path: leaf.physical_type for leaf in (file.schema.column(i) for i in range(len(file.schema)))}
    spelled = Counter(found.lower() for found in file.schema_arrow.names)
    for wanted in schema:
        at = place(wanted, file.schema_arrow)
        found = None if at is None else file.schema_arrow.field(at)
        if (
            spelled[wanted.name.lower()] > 1
            or found is None
            or not _has_same_values(found.type, wanted.type, leaves.get(found.name) == "INT96")
        ):
            kind = None if found is None else found.type
            raise AttemptEnded(SourceUnreadable(f"{name} has no single column {wanted.name!r} of type {wanted.type}: {kind}"))


def _has_same_values(found: pa.DataType, wanted: pa.DataType, is_int96: bool) -> bool:
    """Whether a column of a file holds just the values that Spark reads from it."""
    if pa.types.is_timestamp(found) and pa.types.is_timestamp(wanted):
        return found.unit == "us" and (found.tz is not None or is_int96) == (wanted.tz is not None)
    if pa.types.is_dictionary(found):
        return _has_same_values(found.value_type, wanted, is_int96)
    if pa.types.is_large_string(found) or pa.types.is_large_binary(found):
        return bool(pa.types.is_string(wanted) if pa.types.is_large_string(found) else pa.types.is_binary(wanted))
    return bool(found.equals(wanted))
