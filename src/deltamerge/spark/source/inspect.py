"""What can be found out about a source without a job: Spark's estimate of its size, and the footers of the files that it is."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from deltamerge.budgets import Budgets
from deltamerge.protocol.schema.types import arrow_schema
from deltamerge.protocol.values.widths import counted_width, least_width
from deltamerge.spark.expressions.expression import only
from deltamerge.spark.plans.text import may_be_parquet
from deltamerge.spark.pyspark.adapter import estimated, is_deterministic, is_file_scan
from deltamerge.spark.pyspark.older import INTERVALS
from deltamerge.spark.session.frames import Frame
from deltamerge.spark.session.schema import from_spark, nullable_frame, nullable_type
from deltamerge.spark.session.settings import setting, settings
from deltamerge.spark.source.facts import TIME, SourceFacts
from deltamerge.spark.source.parquet_files import AS_THEY_COME, file_bounds, source_files, visible_here
from deltamerge.worker.scan.store import DataStore

WITHOUT_COLUMNS = "deltamerge row"  # Arrow does not carry rows without columns
# With these a file that is gone is read as one without rows.
_FORGIVING = ("spark.sql.files.ignoreMissingFiles", "spark.sql.files.ignoreCorruptFiles")
# What is asked of the session about how it reads files.
READ_SETTINGS = (*_FORGIVING, *AS_THEY_COME)
_KNOWN_WIDTHS = (T.NumericType, T.BooleanType, T.DateType, T.TimestampType, T.TimestampNTZType, T.BinaryType)


@dataclass(frozen=True)
class Inspection:
    """What a merge wants to know of its source. Files are read by the table's `store`, or on a disk.

    Of `bounded` columns the bounds matter. A source that `may_be_deferred` is read while it is merged, as its rows are looked at
    once; one of `large_bytes`, by Spark's estimate, whatever its bounds are. `may_be_exchanged` says that a smaller one may be
    deferred, too, if its bounds are known. The source gets its `with_time` as a column, so that it can't be deferred. Spark has
    `computed` further columns, by their names, of its rows, which go by an `alias`: nobody but Spark reads such a source.
    """

    columns: Sequence[str]
    store: DataStore
    bounded: Collection[str] = ()
    may_be_deferred: bool = False
    may_be_exchanged: bool = False
    large_bytes: int = 0
    with_time: bool = False
    alias: str = ""
    computed: Mapping[str, Column] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class InspectedSource:
    """A source that is not evaluated: the frame of the columns that are needed, its schema, the store that reads its files."""

    frame: Frame = field(repr=False)
    schema: T.StructType
    store: DataStore | None
    facts: SourceFacts


def inspect_source(source: Frame, wanted: Inspection, budgets: Budgets) -> InspectedSource:
    """What is known of a source before it is evaluated; no job runs."""
    columns = wanted.columns
    if wanted.with_time:
        source, columns = source.select("*", F.unix_micros(F.current_timestamp()).alias(TIME)), [*columns, TIME]
    found = chosen_columns(source, columns)
    as_it_is = found.frame
    if wanted.computed:
        extra = [column.alias(name) for name, column in wanted.computed.items()]
        found = chosen_columns(source.alias(wanted.alias).select("*", *extra), [*columns, *wanted.computed])
    if not found.facts.fits_arrow:
        return found
    estimate, plan = estimated(found.frame)
    found = replace(found, store=wanted.store, facts=replace(found.facts, estimate=estimate))
    if estimate is None:
        return found
    is_parquet = may_be_parquet(plan) and not wanted.computed
    if estimate <= budgets.trusted_estimate_bytes:
        return _with_files(found, wanted.store, (), budgets) if is_parquet else found
    is_large = estimate >= wanted.large_bytes
    may_be_collected = found.facts.has_known_widths and not is_overestimated(estimate, budgets)
    may_be_sent = found.facts.has_known_widths and bool(wanted.bounded) and wanted.may_be_exchanged
    may_be_deferred = wanted.may_be_deferred and not wanted.with_time
    if not may_be_deferred or not (is_large or may_be_collected or may_be_sent):
        return found
    if not _is_repeatable(as_it_is) or (wanted.computed and not is_deterministic(found.frame)):
        return found
    found = replace(found, facts=replace(found.facts, is_repeatable=True))
    if wanted.computed:
        return found
    bounded = wanted.bounded if is_parquet and not is_large else ()
    return _with_files(found, wanted.store, bounded, budgets)


def chosen_columns(source: Frame, columns: Sequence[str]) -> InspectedSource:
    """Some columns of a source, of which no more is known than their types."""
    if not columns:
        schema = T.StructType([T.StructField(WITHOUT_COLUMNS, T.BooleanType())])
        return InspectedSource(source.select(F.lit(True).alias(WITHOUT_COLUMNS)), schema, None, SourceFacts())
    fields = {field.name: field for field in source.schema.fields}
    wanted = T.StructType([fields[name] for name in columns])
    types = [T.StructField(field.name, nullable_type(field.dataType), field.nullable, field.metadata) for field in wanted]
    schema = T.StructType(types)
    known = all(map(_has_known_width, schema))
    facts = SourceFacts(fits_arrow=fits_arrow(schema), has_known_widths=known, counted_width=width_of(schema))
    return InspectedSource(nullable_frame(only(source, columns), wanted), schema, None, facts)


def _with_files(found: InspectedSource, store: DataStore, bounded: Collection[str], budgets: Budgets) -> InspectedSource:
    """The source with what the footers of its Parquet files say, if it is nothing but these."""
    files = source_files(found.frame, found.schema, store, bounded, budgets)
    if not files:
        return found
    rows, size = sum(file.rows for file in files), sum(file.bytes for file in files)
    are_visible = visible_here(found.frame, files, store)
    bounds = file_bounds(files, found.schema, bounded) if bounded and are_visible else None
    least = int(rows * least_width(arrow_schema(from_spark(found.schema))))
    facts = replace(found.facts, rows=rows, bytes=max(size, least), files=files, are_visible=are_visible, bounds=bounds)
    return replace(found, facts=facts)


def is_overestimated(estimate: int, budgets: Budgets) -> bool:
    """Whether Spark's estimate is so large that the source is too large to be collected even if the estimate is too high."""
    return estimate > budgets.overestimate * budgets.collected_bytes


def _is_repeatable(frame: Frame) -> bool:
    """Whether a frame is a scan of files, none of which is left out when it is gone."""
    spark = frame.sparkSession
    if any(setting(spark, name, "false").lower() == "true" for name in _FORGIVING):
        return False
    with settings(spark, {"spark.sql.debug.maxToStringFields": "100000"}):
        return is_file_scan(frame)


def _has_known_width(field: T.StructField) -> bool:
    """Whether the bytes of a column's values are known by its type, or by their lengths."""
    return field.dataType == T.StringType() or isinstance(field.dataType, _KNOWN_WIDTHS)


def fits_arrow(type: T.DataType) -> bool:
    """Whether PySpark makes Arrow of a type, and the same type of that: of intervals for those from days to seconds alone."""
    match type:
        case T.StructType():
            return all(fits_arrow(field.dataType) for field in type)
        case T.ArrayType():
            return fits_arrow(type.elementType)
        case T.MapType():
            return fits_arrow(type.keyType) and fits_arrow(type.valueType)
    is_interval = isinstance(type, INTERVALS)
    return not is_interval or type == T.DayTimeIntervalType()


def width_of(schema: T.StructType) -> int:
    """About the bytes of a row in Arrow, to which the lengths of its texts come."""
    return counted_width(isinstance(field.dataType, T.DecimalType) for field in schema)
