"""Files that somebody else has written, to be taken into a table: their schemas, and statistics made from their rows.

What the footer of a file surely says is not read again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.protocol.formats.parquet_file import ParquetFile
from deltamerge.protocol.formats.thrift import Malformed
from deltamerge.protocol.values.calendar import Calendar, calendars_of
from deltamerge.worker.scan.row_errors import in_file
from deltamerge.worker.scan.scan import FileTask, open_file, open_parquet, read_columns
from deltamerge.worker.scan.store import DataStore
from deltamerge.worker.write.stats import FileStats, Path, StatsColumn

# Of each different schema in some files: Spark's own text of it where the file has that, else Arrow's; and a file that has it.
SCHEMAS = pa.schema([("file", pa.int32()), ("spark", pa.string()), ("arrow", pa.binary())])
STATS = pa.schema([("file", pa.int32()), ("stats", pa.string())])
_SPARK = b"org.apache.spark.sql.parquet.row.metadata"


@dataclass(frozen=True)
class ExistingSpec:
    """Files in bins, one for each task; for statistics the columns as the table has them, and those that get statistics."""

    store: DataStore
    bins: tuple[tuple[FileTask, ...], ...]
    schema: pa.Schema | None = None
    columns: tuple[StatsColumn, ...] = ()


def schemas_of(spec: ExistingSpec, number: int) -> pa.RecordBatch:
    """The different schemas of a bin's files, which are on the disk afterwards. Raises Refused for a file that is no Parquet."""
    found: dict[tuple[str | None, bytes | None], int] = {}
    for task in spec.bins[number]:
        with _opened(spec, task) as file:
            text = (file.metadata.metadata or {}).get(_SPARK)
            arrow = None if text is not None else file.schema_arrow.remove_metadata().serialize().to_pybytes()
            found.setdefault((None if text is None else text.decode(), arrow), task.file)
    spec.store.sync((task.name for task in spec.bins[number]), folders=True)
    rows = [{"file": file, "spark": text, "arrow": arrow} for (text, arrow), file in found.items()]
    return pa.RecordBatch.from_pylist(rows, SCHEMAS)


def stats_of(spec: ExistingSpec, number: int) -> pa.RecordBatch:
    """The statistics of each of a bin's files, as the log has them. Raises Refused for values that no column may hold."""
    rows = [{"file": task.file, "stats": _file_stats(spec, task)} for task in spec.bins[number]]
    return pa.RecordBatch.from_pylist(rows, STATS)


@contextlib.contextmanager
def _opened(spec: ExistingSpec, task: FileTask) -> Iterator[ParquetFile]:
    with open_file(spec.store, task) as source, spec.store.naming(task.name), in_file(task.label):
        yield open_parquet(source, task.label, spec.store.remote)


def _file_stats(spec: ExistingSpec, task: FileTask) -> str:
    assert spec.schema is not None
    with _opened(spec, task) as file:
        stats = ExistingStats(spec.columns, _known(file, spec.columns))
        names = {column.path[0] for column in stats.counted}
        wanted = pa.schema([field for field in spec.schema if field.name in names])
        for group in range(file.metadata.num_row_groups):
            if len(wanted):
                stats.add(read_columns(file, group, wanted, {}))
            else:
                stats.add_rows(file.metadata.row_group(group).num_rows)
        return stats.finish(file.metadata)


@dataclass(frozen=True)
class _Known:
    """What a footer says of a column: how many rows are null, and the bounds of the others as Parquet stores them, or none."""

    nulls: int
    bounds: tuple[int, int] | None


def _known(file: ParquetFile, columns: Sequence[StatsColumn]) -> dict[Path, _Known]:
    """The columns of whole numbers, decimals and dates of which the footer says all."""
    stored = {field.name: field.type for field in file.schema_arrow}
    by_date = calendars_of(file).dates is Calendar.GREGORIAN
    found = {}
    for column in columns:
        name, type = column.path[0], column.type
        plain = pa.types.is_integer(type) or pa.types.is_decimal(type) or (pa.types.is_date(type) and by_date)
        if len(column.path) > 1 or not plain or stored.get(name) != type or name not in file.top_level:
            continue
        known = _said(file, file.top_level[name])
        if known is not None:
            found[column.path] = known
    return found


def _said(file: ParquetFile, leaf: int) -> _Known | None:
    """What the footer says of a column; None where a row group does not say how many rows are null, or nothing of its bounds."""
    nulls, found = 0, list[int]()
    for group in range(file.metadata.num_row_groups):
        try:
            chunk = file.chunks.chunk(group, leaf)
        except Malformed:
            return None
        rows = file.metadata.row_group(group).num_rows
        if chunk.nulls is None or not 0 <= chunk.nulls <= rows or not chunk.exact:
            return None
        if chunk.bounds is None and chunk.nulls < rows:
            return None
        nulls += chunk.nulls
        found += chunk.numbers or ()
    return _Known(nulls, (min(found), max(found)) if found else None)


class ExistingStats(FileStats):
    """Counts of a file that is there: of all columns but those that the footer knows, by their rows."""

    def __init__(self, columns: Sequence[StatsColumn], known: Mapping[Path, _Known]) -> None:
        super().__init__(columns)
        self._nulls.update({path: one.nulls for path, one in known.items()})
        self.counted = tuple(column for column in columns if column.path not in known)
        self._bounds: dict[Path, list[Any]] = {column.path: [] for column in self.counted}
        self._bounds |= {path: [*(one.bounds or ())] for path, one in known.items()}

    def _seen(self, column: StatsColumn, values: Any) -> None:
        if column.bounded and not pa.types.is_string(column.type):
            self._bounds[column.path] += stored_bounds(values, column.type)

    def _numbers(self, column: StatsColumn, footer: Any, at_path: dict[str, int]) -> list[Any]:
        bounds = self._bounds[column.path]
        return [min(bounds), max(bounds)] if bounds else []


def stored_bounds(values: Any, type: pa.DataType) -> list[Any]:
    """The smallest and the largest value but NaN as Parquet stores them, a decimal's unscaled; [] when there is none."""
    if pa.types.is_floating(type):
        values = values.filter(pc.invert(pc.is_nan(values)))
    found = pc.min_max(values)
    low, high = found["min"], found["max"]
    if not low.is_valid:
        return []
    return [_stored(limit, type) for limit in (low, high)]


def _stored(value: pa.Scalar, type: pa.DataType) -> Any:
    if pa.types.is_decimal(type):
        sign, digits, _ = value.as_py().as_tuple()
        return int("".join(map(str, digits))) * (-1 if sign else 1)
    return value.value if pa.types.is_timestamp(type) or pa.types.is_date(type) else value.as_py()
