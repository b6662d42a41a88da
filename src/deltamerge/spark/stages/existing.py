"""What workers, or the calling process where there is little to read, find in files that are to be taken into a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from deltamerge.budgets import current_budgets
from deltamerge.errors import DeltaMergeError, UnsupportedTableError
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.progress.operation import advancing, begin
from deltamerge.progress.value import Amount
from deltamerge.protocol.schema.types import StructType, arrow_schema, parse_schema
from deltamerge.spark.expressions.queries import asking
from deltamerge.spark.pyspark.plain import plain_reader
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.jobs import collect, in_process
from deltamerge.spark.session.schema import from_spark
from deltamerge.spark.session.shipping import shipped
from deltamerge.spark.stages.scan import pack
from deltamerge.spark.stages.target import data_store, stats_columns
from deltamerge.storage import ObjectInfo, Store
from deltamerge.worker.entry import Work, schemas_map, stats_map
from deltamerge.worker.scan.scan import FileTask
from deltamerge.worker.write.existing import SCHEMAS, STATS, ExistingSpec, schemas_of, stats_of


def file_schemas(spark: Session, store: Store, files: Sequence[ObjectInfo]) -> list[StructType]:
    """The different schemas of Parquet files as Spark reads them, those of the first files first.

    The files are on the disk afterwards. Raises CorruptTableError for one that is no Parquet file.
    """
    begin("reading the schemas", lambda: _amount(files))
    found = _run(spark, _spec(store, files), schemas_map, schemas_of, SCHEMAS, f"deltamerge: read the schemas of {store.url}")
    first: dict[tuple[str | None, bytes | None], int] = {}
    for row in found.sort_by("file").to_pylist():
        first.setdefault((row["spark"], row["arrow"]), row["file"])
    return [_schema(spark, store, files[file], text) for (text, _), file in first.items()]


def file_statistics(spark: Session, snapshot: Snapshot, files: Sequence[ObjectInfo]) -> list[str]:
    """The statistics of each of the files, as those of the snapshot's table. Raises CorruptTableError."""
    columns = stats_columns(snapshot.data_schema, snapshot.properties)
    names = {column.path[0] for column in columns}
    schema = pa.schema([field for field in arrow_schema(snapshot.data_schema) if field.name in names])
    spec = replace(_spec(snapshot.store, files), schema=schema, columns=columns)
    begin("reading the statistics", lambda: _amount(files))
    found = _run(spark, spec, stats_map, stats_of, STATS, f"deltamerge: statistics of {snapshot.store.url}")
    return list(found.sort_by("file")["stats"].to_pylist())


def _amount(files: Sequence[ObjectInfo]) -> Amount:
    return Amount(len(files), sum(file.size for file in files))


def _spec(store: Store, files: Sequence[ObjectInfo]) -> ExistingSpec:
    tasks = [FileTask(number, file.name, {}, size=file.size) for number, file in enumerate(files)]
    bins = pack(tasks, [file.size for file in files], current_budgets())
    return ExistingSpec(data_store(store), tuple(map(tuple, bins)))


def _run(
    spark: Session,
    spec: ExistingSpec,
    mapped: Callable[[ExistingSpec], Work],
    each: Callable[[ExistingSpec, int], pa.RecordBatch],
    schema: pa.Schema,
    description: str,
) -> pa.Table:
    budgets, count = current_budgets(), len(spec.bins)
    if sum(task.size or 0 for bin in spec.bins for task in bin) <= budgets.driver_compact_bytes:
        advance = advancing()

        def found(number: int) -> pa.RecordBatch:
            batch = each(spec, number)
            advance(lambda: Amount(len(spec.bins[number]), sum(task.size or 0 for task in spec.bins[number])))
            return batch

        with in_process(), ThreadPoolExecutor(budgets.driver_threads) as pool:
            return pa.Table.from_batches(pool.map(found, range(count)), schema)
    type = from_arrow_schema(schema)
    return collect(spark.range(0, count, 1, count).mapInArrow(shipped(mapped(spec)), type), description, type)


def _schema(spark: Session, store: Store, file: ObjectInfo, text: str | None) -> StructType:
    """The schema of a file as Spark has it: Spark's own text in the file says so, else Spark reads the file's footer."""
    if text is not None:
        return parse_schema(text)
    try:
        with asking(spark):
            return from_spark(plain_reader(spark).parquet(f"{store.url}/{file.name}").schema)
    except DeltaMergeError as error:
        raise UnsupportedTableError(
            "DELTA_FAILED_INFER_SCHEMA",
            f"Spark can't tell the schema of {store.url}/{file.name}: {error.detail}",
            parameters={"file": file.name},
            hint="Write the file's rows again with Spark.",
        ) from error
