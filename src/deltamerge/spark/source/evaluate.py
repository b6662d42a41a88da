"""The source of a merge, evaluated exactly once, in one of some ways: whichever comes first and can be."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T

from deltamerge.budgets import DEFAULTS, Budgets
from deltamerge.spark.session.checkpoints import checkpointed
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.jobs import attempt, collect, local_frame, translating
from deltamerge.spark.session.settings import job_settings
from deltamerge.spark.session.shipping import shipped
from deltamerge.spark.source.facts import TIME, Evaluation, Source, SourceFacts, SourceFile
from deltamerge.spark.source.inspect import WITHOUT_COLUMNS, InspectedSource, width_of
from deltamerge.spark.source.parquet_files import read_files
from deltamerge.spark.stages.writing import positional
from deltamerge.worker.entry import count_map
from deltamerge.worker.scan.streams import read_stream

log = logging.getLogger("deltamerge.spark")

_COUNTED = T.StructType(
    [
        T.StructField("rows", T.LongType()),
        T.StructField("bytes", T.LongType()),
        T.StructField("payload", T.BinaryType()),
        T.StructField("bounds", T.BinaryType()),
    ]
)
_MATERIALIZE = "deltamerge: materialize the source"
_READ, _READ_MATERIALIZED = "deltamerge: read the source", "deltamerge: read the materialized source"


class Reading(Enum):
    """A way to evaluate a source; the value says it in words."""

    READ_FILES = "its Parquet files are read in the driver"
    COLLECT = "one job collects its rows"
    COUNT = "Spark counts its rows, and collects them if they are few"
    COUNT_OR_DEFER = "Spark counts its rows, and collects them if they are few; else it is read while it is merged"
    DEFER = "it is read while it is merged"
    CHECKPOINT = "it is materialized and counted, and its rows are collected if they are few"
    CHECKPOINT_AND_COUNT = "it is materialized, Spark counts its rows, and collects them if they are few"
    CHECKPOINT_IN_SPARK = "it is materialized and stays in Spark"


@dataclass(frozen=True)
class ReadingStep:
    """A way to evaluate a source, and why."""

    reading: Reading
    reason: str


def evaluate(
    source: InspectedSource, steps: Sequence[ReadingStep], bounded: Collection[str] = (), budgets: Budgets = DEFAULTS
) -> Source:
    """Evaluate a source once, in the first of the ways that it can be; of one that is materialized the bounds of the columns
    `bounded` are found out on the way, and when that was if it has its time.

    Raises DeltaMergeError with the cause when it fails.
    """
    bounded = {*bounded, TIME}
    for step in steps:
        found = _READINGS[step.reading](source, bounded, budgets)
        if found is not None:
            log.debug("the source: %s, because %s", step.reading.value, step.reason)
            return found
    raise AssertionError("the last way to evaluate a source is always possible")


def kept_files(facts: SourceFacts, budgets: Budgets) -> tuple[SourceFile, ...]:
    """The files of a source that is read here which workers may read again if the driver does not take all changed rows; () where
    Spark takes the rows from the driver as fast.
    """
    return facts.files if (facts.bytes or 0) > budgets.trusted_estimate_bytes else ()


def single_row(spark: Session) -> Source:
    """A source of one row whose column no expression can name by accident; no job runs."""
    schema = T.StructType([T.StructField(WITHOUT_COLUMNS, T.BooleanType())])
    return _local(spark, schema, pa.table({WITHOUT_COLUMNS: [True]}))


def _read_files(source: InspectedSource, bounded: Collection[str], budgets: Budgets) -> Source | None:
    assert source.store is not None
    rows = read_files(source.facts.files, source.schema, source.store, budgets)
    if isinstance(rows, pa.Table):
        found = _local(source.frame.sparkSession, source.schema, rows)
        return replace(found, facts=replace(found.facts, files=kept_files(source.facts, budgets)))
    log.info("the driver does not read the source: %s", rows.reason)
    return None


def _collect(source: InspectedSource, bounded: Collection[str], budgets: Budgets) -> Source | None:
    return _collected(source.frame, source, _READ)


def _count(source: InspectedSource, bounded: Collection[str], budgets: Budgets) -> Source | None:
    """The rows of a scan of files if they are few, which Spark counts; None if they are not, or their bytes are not known."""
    _, size, _ = _counted(positional(source.frame), source.schema, ())
    is_small = size <= budgets.collected_bytes and source.facts.has_known_widths
    return _collect(source, bounded, budgets) if is_small else None


def _count_or_defer(source: InspectedSource, bounded: Collection[str], budgets: Budgets) -> Source | None:
    rows, size, _ = _counted(positional(source.frame), source.schema, ())
    if size <= budgets.collected_bytes:
        found = _collect(source, bounded, budgets) if source.facts.has_known_widths else None
        if found is not None or not source.facts.has_known_widths:
            return found
    size = size if source.facts.has_known_widths else max(size, source.facts.estimate or 0)
    return Source(lambda: source.frame, SourceFacts(Evaluation.DEFERRED, rows, size))


def _defer(source: InspectedSource, bounded: Collection[str], budgets: Budgets) -> Source:
    return Source(lambda: source.frame, source.facts.deferred())


def _checkpoint(source: InspectedSource, bounded: Collection[str], budgets: Budgets) -> Source:
    """A pass in Python counts the rows, and brings them along while they are few."""
    spark, names = source.frame.sparkSession, source.schema.names
    columns = _positions(source, bounded)
    materialized = _checkpointed(source)
    numbered = positional(materialized).select("*", F.spark_partition_id())
    parts = attempt(numbered.mapInArrow(shipped(count_map(budgets, columns)), _COUNTED), _MATERIALIZE, _COUNTED)
    if not isinstance(parts, pa.Table):
        log.info("the source is only counted: %s", parts.reason)
        return _counted_by_spark(materialized, source, columns, budgets)
    rows, size = (sum(parts[name].to_pylist()) for name in ("rows", "bytes"))
    found = None
    if size <= budgets.collected_bytes:
        streams = _streams(parts["payload"])
        found = _local(spark, source.schema, pa.concat_tables(streams).rename_columns(names)) if streams else None
        found = _collected(materialized, source) if found is None else found
    if found is None:
        streams = _streams(parts["bounds"]) if columns else []
        if not streams and TIME in names:  # a task has left out its bounds, and with them the time
            return _counted_by_spark(materialized, source, columns, budgets)
        bounds = pa.concat_tables(streams).rename_columns([names[at] for at in columns]) if streams else pa.table({})
        found = _stays(lambda: materialized, rows, size, bounds)
    return found


def _streams(column: pa.ChunkedArray) -> list[pa.Table]:
    """What all tasks have brought along; nothing if one of them has left it out."""
    return [] if column.null_count else [read_stream(stream) for stream in column]


def _checkpoint_and_count(source: InspectedSource, bounded: Collection[str], budgets: Budgets) -> Source:
    """No row leaves Spark to be counted: it is foreseen that they are many."""
    return _counted_by_spark(_checkpointed(source), source, _positions(source, bounded), budgets)


def _counted_by_spark(materialized: Frame, source: InspectedSource, columns: Sequence[int], budgets: Budgets) -> Source:
    rows, size, bounds = _counted(positional(materialized), source.schema, columns)
    found = _collected(materialized, source) if size <= budgets.collected_bytes else None
    return _stays(lambda: materialized, rows, size, bounds) if found is None else found


def _checkpoint_in_spark(source: InspectedSource, bounded: Collection[str], budgets: Budgets) -> Source:
    materialized = _checkpointed(source)
    rows, size, bounds = _counted(positional(materialized), source.schema, _positions(source, [TIME]))
    return Source(lambda: materialized, SourceFacts(Evaluation.MATERIALIZED, rows, size, bounds=bounds, fits_arrow=False))


_READINGS: dict[Reading, Callable[[InspectedSource, Collection[str], Budgets], Source | None]] = {
    Reading.READ_FILES: _read_files,
    Reading.COLLECT: _collect,
    Reading.COUNT: _count,
    Reading.COUNT_OR_DEFER: _count_or_defer,
    Reading.DEFER: _defer,
    Reading.CHECKPOINT: _checkpoint,
    Reading.CHECKPOINT_AND_COUNT: _checkpoint_and_count,
    Reading.CHECKPOINT_IN_SPARK: _checkpoint_in_spark,
}


def _positions(source: InspectedSource, names: Collection[str]) -> list[int]:
    return [position for position, name in enumerate(source.schema.names) if name in names]


def _checkpointed(source: InspectedSource) -> Frame:
    with translating(), job_settings(source.frame.sparkSession):
        return checkpointed(source.frame)


def _collected(rows: Frame, source: InspectedSource, description: str = _READ_MATERIALIZED) -> Source | None:
    """The source with its rows in Arrow; None where the driver may not take as much."""
    table = attempt(rows, description, source.schema)
    if isinstance(table, pa.Table):
        return _local(rows.sparkSession, source.schema, table)
    log.info("the rows of the source stay in Spark: %s", table.reason)
    return None


def _local(spark: Session, schema: T.StructType, table: pa.Table) -> Source:
    facts = SourceFacts(Evaluation.COLLECTED, table.num_rows, table.nbytes)
    return Source(lambda: local_frame(spark, table, schema), facts, table)


def _stays(build: Callable[[], Frame], rows: int, size: int, bounds: pa.Table) -> Source:
    return Source(build, SourceFacts(Evaluation.MATERIALIZED, rows, size, bounds=bounds))


def _counted(rows: Frame, schema: T.StructType, bounded: Sequence[int]) -> tuple[int, int, pa.Table]:
    """The number of rows, their bytes about as Arrow has them (of nested columns 8), and the bounds of the columns at the
    positions `bounded`.
    """
    texts = [i for i, field in enumerate(schema) if isinstance(field.dataType, (T.StringType, T.BinaryType))]
    columns = rows.columns
    asked = [F.count(F.lit(1)), *(F.sum(F.octet_length(columns[i])) for i in texts)]
    asked += [bound(columns[i]) for i in bounded for bound in (F.min, F.max)]
    types = [T.LongType()] * (1 + len(texts)) + [schema[i].dataType for i in bounded for _ in range(2)]
    named = T.StructType([T.StructField(f"c{i}", type) for i, type in enumerate(types)])
    found = collect(rows.agg(*[column.alias(f"c{i}") for i, column in enumerate(asked)]), _MATERIALIZE, named)
    count, *lengths = (found.column(i)[0].as_py() or 0 for i in range(1 + len(texts)))
    bounds = found.columns[1 + len(texts) :]
    pairs = [pa.chunked_array([*low.chunks, *high.chunks]) for low, high in zip(bounds[::2], bounds[1::2], strict=True)]
    return count, width_of(schema) * count + sum(lengths), pa.table(pairs, names=[schema[i].name for i in bounded])
