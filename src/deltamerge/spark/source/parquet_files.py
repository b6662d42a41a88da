"""A source that is whole Parquet files: which ones, so that workers, or this process, read them without Spark.

Spark reads Parquet by settings and options that can change what a file's values are; where any of them is not as it comes, or
anything about the plan is not known, Spark reads the source.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T

from deltamerge.budgets import Budgets
from deltamerge.protocol.formats.parquet_file import ParquetFile
from deltamerge.protocol.schema.types import arrow_schema
from deltamerge.protocol.values.partitions import decode_path
from deltamerge.spark.plans.text import optimized_plan
from deltamerge.spark.pyspark.adapter import extended_plan, input_files, is_here
from deltamerge.spark.session.frames import Frame
from deltamerge.spark.session.schema import from_spark
from deltamerge.spark.session.settings import setting, settings
from deltamerge.spark.source.facts import SourceFile
from deltamerge.worker.scan.outcomes import AttemptEnded, NotThisWay, SourceUnreadable, TooLarge
from deltamerge.worker.scan.scan import FileTask
from deltamerge.worker.scan.source import SourceSpec, is_read_alike, source_rows
from deltamerge.worker.scan.store import DataStore

_EPOCH, _SAME_IN_ALL_CALENDARS = date(1970, 1, 1), date(1582, 10, 15)
AS_THEY_COME = {
    "spark.sql.caseSensitive": "false",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.parquet.int96AsTimestamp": "true",
    "spark.sql.parquet.int96TimestampConversion": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "EXCEPTION",
    "spark.sql.parquet.int96RebaseModeInRead": "EXCEPTION",
    "spark.sql.legacy.parquet.nanosAsLong": "false",
}
# By such an id Spark finds a column, when a setting that delta-spark makes says so.
_FIELD_ID = "parquet.field.id"
_PLAIN = (
    T.ByteType,
    T.ShortType,
    T.IntegerType,
    T.LongType,
    T.FloatType,
    T.DoubleType,
    T.DecimalType,
    T.BooleanType,
    T.DateType,
    T.TimestampType,
    T.TimestampNTZType,
    T.BinaryType,
)


def source_files(
    chosen: Frame, schema: T.StructType, store: DataStore, bounded: Collection[str], budgets: Budgets
) -> tuple[SourceFile, ...]:
    """The Parquet files that hold just the rows of `chosen`, whose schema is `schema`; () where that isn't sure.

    They are in the table's `store` or on a local disk. Of `bounded` columns they have bounds.
    """
    if not all(_is_plain(field) for field in schema) or not _is_read_as_it_comes(chosen):
        return ()
    with settings(chosen.sparkSession, _UNABRIDGED):
        urls = _urls(chosen, schema)
    names = [decode_path(url) for url in urls]
    if not 0 < len(names) <= budgets.source_files or not all(_is_reached(store, name) for name in names):
        return ()
    try:
        with ThreadPoolExecutor(budgets.source_threads) as pool:
            return tuple(pool.map(_looked_into(store, schema, bounded), names))
    except Exception:  # Spark says what is wrong with it
        return ()


def _is_reached(store: DataStore, name: str) -> bool:
    """Whether a file is on a disk or in the bucket of the table, by whose address and credentials it is read."""
    scheme, is_url, rest = name.partition("://")
    return not is_url or scheme == "file" or rest.partition("/")[0] == store.root.partition("/")[0]


_UNABRIDGED = {"spark.sql.debug.maxToStringFields": "100000", "spark.sql.maxMetadataStringLength": "100000"}


def _is_plain(field: T.StructField) -> bool:
    """Whether a column has a plain type, and is found by its name."""
    return (field.dataType == T.StringType() or isinstance(field.dataType, _PLAIN)) and _FIELD_ID not in field.metadata


def _is_read_as_it_comes(frame: Frame) -> bool:
    return all(setting(frame.sparkSession, name, value).lower() == value.lower() for name, value in AS_THEY_COME.items())


def _urls(frame: Frame, schema: T.StructType) -> list[str]:
    """The URLs of the Parquet files whose rows, all of them, are the frame's, its columns being theirs by name; [] where that
    isn't sure.

    A Delta table is none: its files may name columns otherwise, hold rows that are deleted, and lack the partition's. Expects
    Spark to abridge nothing in what it explains.
    """
    try:
        return input_files(frame) if _reads_whole_files(extended_plan(frame), schema) else []
    except Exception:
        return []


# Of names that begin as its own do Spark makes columns.
_PLAIN_NAME = re.compile(r"(?!_tmp_|_metadata)[A-Za-z_][\w ]*")
_PLAIN_COLUMN = re.compile(rf"{_PLAIN_NAME.pattern}#\d+L?")
_SCAN = re.compile(
    r"FileScan parquet \[[^\[\]]*\] Batched: \w+, DataFilters: \[\], Format: Parquet, "
    r"Location: InMemoryFileIndex\((?P<count>\d+) paths?\)\[(?P<paths>.*)\], "
    r"PartitionFilters: \[\], PushedFilters: \[\], ReadSchema: struct<(?P<read>[^<>]*)>$"
)


def _reads_whole_files(text: str, schema: T.StructType) -> bool:
    """Whether a plan is a scan of Parquet files, without filters and partitions, of columns that keep their names."""
    lines = optimized_plan(text).strip().splitlines()
    *above, scan = [line.strip() for line in lines] or [""]
    projections = [re.fullmatch(r"(?:[\s:|+-]*)Project \[(.*)\]", line) for line in above]
    columns = [column for found in projections if found for column in found[1].split(", ")]
    if not all(projections) or not all(_PLAIN_COLUMN.fullmatch(column) for column in columns):
        return False
    if not re.fullmatch(r"[\s:|+-]*Relation ?\[[^\[\]]*\] parquet", scan):
        return False
    if not all(_PLAIN_NAME.fullmatch(name) for name in schema.names):
        return False
    physical = text.partition("== Physical Plan ==")[2].strip().splitlines()
    found = _SCAN.search(physical[-1]) if physical else None
    wanted = sorted(f"{field.name}:{field.dataType.simpleString()}" for field in schema)
    if found is None or sorted(re.split(r",(?![^(]*\))", found["read"])) != wanted:
        return False
    paths = sorted(f"{path}/" for path in found["paths"].split(", "))
    # A file that several of the paths lead to is read as often.
    apart = all(not after.startswith(path) for path, after in pairwise(paths))
    return len(paths) == int(found["count"]) and apart and "..." not in found["paths"]


def _looked_into(store: DataStore, schema: T.StructType, bounded: Collection[str]) -> Callable[[str], SourceFile]:
    wanted = {name.lower() for name in schema.names}
    types = arrow_schema(from_spark(schema))

    def look(name: str) -> SourceFile:
        place, inner = store.of_url(name)
        stamp = place.stamp(inner)
        with place.open(inner) as source:
            file = ParquetFile(source)
            metadata, leaves, groups = file.metadata, _leaves(file), range(file.metadata.num_row_groups)
            if file.is_wide:  # DuckDB's figure is larger than the sum of its columns
                size = sum(metadata.row_group(group).total_byte_size for group in groups)
            else:
                read = [number for name, number in leaves.items() if name in wanted]
                size = sum(file.chunks.size(group, number) for group in groups for number in read)
            bounds = _bounds(file, types, bounded) if bounded and not file.is_wide and is_read_alike(file, types) else None
            return SourceFile(name, metadata.num_rows, size, metadata.num_row_groups, stamp, bounds)

    return look


def _leaves(file: ParquetFile) -> dict[str, int]:
    """The number of each leaf column by its path in lower case."""
    return {file.schema.column(number).path.lower(): number for number in range(len(file.schema))}


def _bounds(file: ParquetFile, schema: pa.Schema, bounded: Collection[str]) -> dict[str, tuple[Any, Any]]:
    """The least and the greatest value of `bounded` columns of whole numbers and dates, if every row group has them; None if
    all are null.
    """
    found: dict[str, tuple[Any, Any]] = {}
    leaves = _leaves(file)
    for column in schema:
        if column.name not in bounded or not (pa.types.is_integer(column.type) or pa.types.is_date(column.type)):
            continue
        chunks = [file.chunks.chunk(group, leaves[column.name.lower()]) for group in range(file.metadata.num_row_groups)]
        some = [chunk.numbers for chunk in chunks if chunk.nulls != chunk.values]
        numbers = [number for pair in some if pair is not None for number in pair]
        if None in some:
            continue
        try:
            low, high = (_value(end, column.type) for end in (min(numbers, default=None), max(numbers, default=None)))
        except OverflowError:  # a date that Python does not have
            continue
        # Older dates are another day in files of another calendar.
        if not isinstance(low, date) or low >= _SAME_IN_ALL_CALENDARS:
            found[column.name] = (low, high)
    return found


def _value(number: int | None, type: pa.DataType) -> Any:
    """A whole number or, of a number of days, the date."""
    return _EPOCH + timedelta(days=number) if number is not None and pa.types.is_date(type) else number


def file_bounds(files: Sequence[SourceFile], schema: T.StructType, columns: Collection[str]) -> pa.Table | None:
    """The least and the greatest value of some of the columns in all files, as far as these have them; None if there are none, or
    Spark may read the files otherwise.
    """
    known = [file.bounds for file in files if file.bounds is not None]
    if len(known) < len(files):
        return None
    types = arrow_schema(from_spark(schema))
    values = {}
    for name in columns:
        if all(name in bounds for bounds in known):
            low, high = ([bounds[name][side] for bounds in known if bounds[name][side] is not None] for side in (0, 1))
            values[name] = pa.array([min(low, default=None), max(high, default=None)], types.field(name).type)
    return pa.table(values) if values else None


def visible_here(frame: Frame, files: Sequence[SourceFile], store: DataStore) -> bool:
    """Whether the files seen here are those of Spark: what lies on another machine's disks may have the same names."""
    return is_here(frame.sparkSession) or (store.remote and not any(file.name.startswith(("/", "file:")) for file in files))


def read_files(found: Sequence[SourceFile], schema: T.StructType, store: DataStore, budgets: Budgets) -> pa.Table | NotThisWay:
    """The rows of such files, read by this process; TooLarge if they are more than is collected, SourceUnreadable where Spark
    must read them: a file isn't what it was, or has what Spark may read otherwise.
    """
    bins, stamps = shares(found, budgets.source_read_bytes), {file.name: file.stamp for file in found}
    threaded = len(bins) < (os.cpu_count() or 1)
    spec = SourceSpec(store, arrow_schema(from_spark(schema)), bins, stamps, threaded=threaded)
    room = budgets.collected_bytes

    def read(number: int) -> list[pa.Table]:
        nonlocal room
        tables = []
        for table in source_rows(spec, number):
            room -= table.nbytes
            if room < 0:
                raise AttemptEnded(TooLarge(f"its rows take more than {budgets.collected_bytes >> 20} MB"))
            tables.append(table)
        return tables

    try:
        with ThreadPoolExecutor(budgets.source_threads) as pool:
            parts = [table for part in pool.map(read, range(len(bins))) for table in part]
    except AttemptEnded as ended:
        return ended.outcome
    except Exception as error:  # Spark says what is wrong with it
        return SourceUnreadable(f"{type(error).__name__}: {error}")
    return pa.concat_tables([spec.schema.empty_table(), *parts])


def shares(files: Sequence[SourceFile], each: int) -> tuple[tuple[FileTask, ...], ...]:
    """What each task reads of the files, about so many bytes: some files, or a share of the row groups of one."""
    bins: list[list[FileTask]] = []
    room = 0
    for number, file in enumerate(sorted(files, key=lambda file: file.bytes)):
        parts = max(1, min(file.groups, -(-file.bytes // each)))
        for part in range(parts):
            size = file.bytes // parts
            if not bins or size > room:
                bins.append([])
                room = each
            bins[-1].append(FileTask(number, file.name, {}, (part, parts)))
            room -= size
    return tuple(map(tuple, bins))
