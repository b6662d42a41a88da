"""The source of a merge, evaluated exactly once.

A small one is collected in Arrow and becomes a local relation: deterministic, and its keys are at hand. A larger one is
checkpointed; one pass over it says how large it is, and brings the rows along when they turn out to be few. Of one that is
foreseen to be far too large for that no row leaves Spark: it counts itself. A scan of files is not kept: it is collected, or,
when it is too large for that and the merge looks at its rows once, left where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F
from pyspark.sql import types as T

from deltamerge.budgets import DEFAULTS, Budgets
from deltamerge.protocol.schema.types import arrow_schema
from deltamerge.protocol.values.widths import least_width
from deltamerge.spark.expressions.expression import only
from deltamerge.spark.session.adapter import estimated, is_file_scan
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.jobs import collect, local_frame, translating
from deltamerge.spark.session.plan_text import may_be_parquet
from deltamerge.spark.session.schema import from_spark, nullable_frame, nullable_type
from deltamerge.spark.session.settings import setting, settings
from deltamerge.spark.source.source_files import AS_THEY_COME, SourceFile, is_near, limits_of, rows_here, source_files
from deltamerge.spark.stages.writing import positional
from deltamerge.worker.entry import sized_map
from deltamerge.worker.scan.store import DataStore

_WITHOUT_COLUMNS = "deltamerge row"  # Arrow does not carry rows without columns
# With these a file that is gone is read as one without rows.
_FORGIVING = ("spark.sql.files.ignoreMissingFiles", "spark.sql.files.ignoreCorruptFiles")
# What is asked of the session about how it reads files.
READ_SETTINGS = (*_FORGIVING, *AS_THEY_COME)
_NO_COLUMNS = T.StructType([T.StructField(_WITHOUT_COLUMNS, T.BooleanType())])
_PLAIN = (T.NumericType, T.BooleanType, T.DateType, T.TimestampType, T.TimestampNTZType, T.BinaryType)
_SIZED = T.StructType(
    [
        T.StructField("rows", T.LongType()),
        T.StructField("bytes", T.LongType()),
        T.StructField("payload", T.BinaryType()),
        T.StructField("limits", T.BinaryType()),
    ]
)


@dataclass(frozen=True)
class Source:
    """A source whose rows no longer change: its rows and (estimated) bytes, and its rows in Arrow when small.

    `bounds` has the least and the greatest value of some columns of one that is not collected. One that is not kept may be
    read once, by the job that merges it; `files` are the Parquet files that it is, where Spark is not needed to read them.
    Bounds of one that is not kept are those files': they hold as long as these are read, and by workers.
    """

    build: Callable[[], Frame] = field(repr=False)
    rows: int
    bytes: int
    collected: pa.Table | None = field(default=None, repr=False)
    bounds: pa.Table | None = field(default=None, repr=False)
    is_kept: bool = True
    files: tuple[SourceFile, ...] = ()

    def limits(self, column: str) -> pa.Array | None:
        """The least and the greatest value of a column, None when they are not known; nulls when all its values are null."""
        table = self.bounds if self.collected is None else self.collected
        if table is None or column not in table.column_names:
            return None
        found = pc.min_max(table.column(column))
        return pa.array([found["min"], found["max"]], table.schema.field(column).type)

    @cached_property
    def frame(self) -> Frame:
        """The rows as a frame, made when Spark needs it."""
        return self.build()


def _nothing() -> Frame:
    raise AssertionError("a source of which nothing is known has no rows")


# A source of which nothing is known yet but that workers could read it; and one of which no more is known than that it has rows.
UNREAD = Source(_nothing, 0, 0, is_kept=False, files=(SourceFile("", 0, 0, 0, (None, None)),))
_SOME = replace(UNREAD, rows=1)


@dataclass(frozen=True)
class Reading:
    """How a merge may read a source that is a scan of files, without Spark: by the table's `store`, or on a disk.

    One of `at_least` so many bytes it may leave where it is, as it looks at its rows once; None says that it may not. Whether
    workers `would` read one, and send each row `straight` to the files that may have its key, is only asked where it matters.
    """

    store: DataStore
    at_least: int | None
    would: Callable[[Source, bool], bool]


def materialize(
    source: Frame,
    columns: Sequence[str],
    bounded: Collection[str] = (),
    reading: Reading | None = None,
    budgets: Budgets = DEFAULTS,
) -> Source:
    """Evaluate `source` once, keeping `columns`; of those `bounded` the limits are found out on the way.

    A scan of files need not be kept, if there is a `reading`: the rows of a small one are collected, without a job if it is
    plain Parquet, a larger one is left to be read when it is merged.

    Raises DeltaMergeError with the cause when it fails.
    """
    spark = source.sparkSession
    chosen, schema = _chosen(source, columns)
    if not fits_arrow(schema):
        return _checkpointed(chosen, schema)
    estimate, plan = estimated(chosen)
    if estimate is not None and estimate <= budgets.trusted_estimate_bytes:
        table = _read_here(chosen, schema, reading, budgets) if reading and may_be_parquet(plan) else None
        return _local(spark, schema, collect(chosen, "deltamerge: read the source", schema) if table is None else table)
    if estimate is not None and reading is not None and reading.at_least is not None:
        scanned = _scanned(
            chosen, schema, estimate, reading, estimate >= reading.at_least, bounded if may_be_parquet(plan) else (), budgets
        )
        if scanned is not None:
            return scanned
    places = [place for place, name in enumerate(columns) if name in bounded]
    with translating(), settings(spark):
        kept = chosen.localCheckpoint(eager=False)
    if estimate is not None and _is_far_too_large(estimate, budgets) and all(map(_is_plain, schema)):
        rows, size, bounds = _counted(positional(kept), schema, places)
        if size > budgets.collected_bytes:
            return Source(lambda: kept, rows, size, bounds=bounds)
        return _local(spark, schema, collect(kept, "deltamerge: read the materialized source", schema))
    parts = collect(
        positional(kept).mapInArrow(sized_map(budgets.counted_part_bytes, places), _SIZED),
        "deltamerge: materialize the source",
        _SIZED,
    )
    rows, size = (sum(parts[name].to_pylist()) for name in ("rows", "bytes"))
    if size > budgets.collected_bytes:
        return Source(lambda: kept, rows, size, bounds=_bounds([columns[place] for place in places], parts))
    payloads = [payload for payload in parts["payload"].to_pylist() if payload is not None]
    if len(payloads) == parts.num_rows and payloads:
        table = pa.concat_tables([pa.ipc.open_stream(payload).read_all() for payload in payloads])
        table = table.rename_columns(schema.names)
    else:
        table = collect(kept, "deltamerge: read the materialized source", schema)
    return _local(spark, schema, table)


def fits_arrow(type: T.DataType) -> bool:
    """Whether PySpark makes Arrow of a type, and the same type of that: of intervals for those from days to seconds alone."""
    match type:
        case T.StructType():
            return all(fits_arrow(field.dataType) for field in type)
        case T.ArrayType():
            return fits_arrow(type.elementType)
        case T.MapType():
            return fits_arrow(type.keyType) and fits_arrow(type.valueType)
    is_interval = isinstance(type, T.YearMonthIntervalType | T.CalendarIntervalType | T.DayTimeIntervalType)
    return not is_interval or type == T.DayTimeIntervalType()


def _checkpointed(chosen: Frame, schema: T.StructType) -> Source:
    """Rows that never leave Spark."""
    with translating(), settings(chosen.sparkSession):
        kept = chosen.localCheckpoint(eager=False)
    rows, size, _ = _counted(positional(kept), schema, ())
    return Source(lambda: kept, rows, size)


def _read_here(chosen: Frame, schema: T.StructType, reading: Reading, budgets: Budgets) -> pa.Table | None:
    """The rows of a small source that is Parquet files, read without Spark; None where it must read them."""
    files = source_files(chosen, schema, reading.store, (), budgets)
    return rows_here(chosen, files, schema, reading.store, budgets)


def _scanned(
    chosen: Frame,
    schema: T.StructType,
    estimate: int,
    reading: Reading,
    may_pass: bool,
    bounded: Collection[str],
    budgets: Budgets,
) -> Source | None:
    """The rows of a scan of files, collected or left where they are; None where they must be kept, or it is no such scan.

    With `may_pass` it may be left whatever it is; else only if its files tell the limits of `bounded` columns, workers read them
    and each row goes straight to the files of the table that may have its key.
    """
    is_plain = all(map(_is_plain, schema))
    may_be_held = is_plain and not _is_far_too_large(estimate, budgets)
    may_go = may_be_held or may_pass or (is_plain and bool(bounded) and reading.would(_SOME, True))
    if not may_go or not _is_lasting_scan(chosen):
        return None
    files = source_files(chosen, schema, reading.store, () if may_pass else bounded, budgets)
    if files:
        rows, size = sum(file.rows for file in files), sum(file.bytes for file in files)
        left = Source(lambda: chosen, rows, max(size, _width(schema) * rows), is_kept=False, files=files)
        if may_pass and (
            size > budgets.collected_bytes or (size > budgets.trusted_estimate_bytes and reading.would(left, False))
        ):
            return left
        bounds = None if may_pass else _limits_told(chosen, schema, files, reading.store, bounded)
        if bounds is not None and max(size, rows * least_width(arrow_schema(from_spark(schema)))) > budgets.collected_bytes:
            left = replace(left, bounds=bounds)
            if reading.would(left, True):
                return left
        table = rows_here(chosen, files, schema, reading.store, budgets) if may_be_held or may_pass else None
        if table is not None:
            return _local(chosen.sparkSession, schema, table)
    if not (may_be_held or may_pass):
        return None
    rows, size, _ = _counted(positional(chosen), schema, ())
    if size > budgets.collected_bytes:
        return Source(lambda: chosen, rows, max(size, 0 if is_plain else estimate), is_kept=False) if may_pass else None
    return _local(chosen.sparkSession, schema, collect(chosen, "deltamerge: read the source", schema)) if is_plain else None


def _limits_told(
    chosen: Frame, schema: T.StructType, files: Sequence[SourceFile], store: DataStore, bounded: Collection[str]
) -> pa.Table | None:
    """The limits of columns of a source's files, None where they tell none that holds."""
    found = limits_of(files, schema, bounded) if bounded and is_near(chosen, files, store) else None
    return found if found is not None and found.num_columns else None


def _is_far_too_large(estimate: int, budgets: Budgets) -> bool:
    return estimate > budgets.overestimate * budgets.collected_bytes


def _is_lasting_scan(frame: Frame) -> bool:
    """Whether a frame is a scan of files, none of which is left out when it is gone."""
    spark = frame.sparkSession
    if any(setting(spark, name, "false").lower() == "true" for name in _FORGIVING):
        return False
    with settings(spark, {"spark.sql.debug.maxToStringFields": "100000"}):
        return is_file_scan(frame)


def _width(schema: T.StructType) -> int:
    """Bytes of a row in Arrow, those of texts and of what is nested not counted."""
    return sum(16 if isinstance(field.dataType, T.DecimalType) else 8 for field in schema)


def _is_plain(field: T.StructField) -> bool:
    """Whether the bytes of a column's values are known by its type, or by their lengths."""
    return field.dataType == T.StringType() or isinstance(field.dataType, _PLAIN)


def _counted(rows: Frame, schema: T.StructType, bounded: Sequence[int]) -> tuple[int, int, pa.Table]:
    """The number of rows, their bytes about as Arrow holds them (of nested columns 8), and the limits of the columns at the
    places `bounded`.
    """
    texts = [i for i, field in enumerate(schema) if isinstance(field.dataType, (T.StringType, T.BinaryType))]
    columns = rows.columns
    asked = [F.count(F.lit(1)), *(F.sum(F.octet_length(columns[i])) for i in texts)]
    asked += [limit(columns[i]) for i in bounded for limit in (F.min, F.max)]
    types = [T.LongType()] * (1 + len(texts)) + [schema[i].dataType for i in bounded for _ in range(2)]
    named = T.StructType([T.StructField(f"c{i}", type) for i, type in enumerate(types)])
    found = collect(
        rows.agg(*[column.alias(f"c{i}") for i, column in enumerate(asked)]), "deltamerge: materialize the source", named
    )
    count, *lengths = (found.column(i)[0].as_py() or 0 for i in range(1 + len(texts)))
    limits = found.columns[1 + len(texts) :]
    pairs = [pa.chunked_array([*low.chunks, *high.chunks]) for low, high in zip(limits[::2], limits[1::2], strict=True)]
    return count, _width(schema) * count + sum(lengths), pa.table(pairs, names=[schema[i].name for i in bounded])


def _bounds(names: Sequence[str], parts: pa.Table) -> pa.Table:
    """The limits that the parts of a source have reported, two rows a part."""
    tables = [pa.ipc.open_stream(limits).read_all() for limits in parts["limits"].to_pylist()]
    return pa.concat_tables(tables).rename_columns(list(names)) if tables and names else pa.table({})


def single_row(spark: Session) -> Source:
    """A source of one row whose column no expression can name by accident; no job runs."""
    return _local(spark, _NO_COLUMNS, pa.table({_WITHOUT_COLUMNS: [True]}))


def _local(spark: Session, schema: T.StructType, table: pa.Table) -> Source:
    return Source(lambda: local_frame(spark, table, schema), table.num_rows, table.nbytes, table)


def _chosen(source: Frame, columns: Sequence[str]) -> tuple[Frame, T.StructType]:
    """Some columns of the source, and their schema."""
    if not columns:
        return source.select(F.lit(True).alias(_WITHOUT_COLUMNS)), T.StructType(
            [T.StructField(_WITHOUT_COLUMNS, T.BooleanType())]
        )
    fields = {field.name: field for field in source.schema.fields}
    schema = T.StructType([fields[name] for name in columns])
    types = [T.StructField(field.name, nullable_type(field.dataType), field.nullable, field.metadata) for field in schema]
    return nullable_frame(only(source, columns), schema), T.StructType(types)
