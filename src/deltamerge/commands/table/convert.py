"""CONVERT TO DELTA: a folder of Parquet files gets a log that names them all; no file is written again.

Source: delta-spark's ConvertToDeltaCommand and ConvertUtils.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from deltamerge.commands.table.convert_files import convertible_files, partition_values
from deltamerge.commands.table.convert_target import ConvertTarget, convert_target, listed_as_delta
from deltamerge.commands.table.definition import Settled, TableDefinition, settled
from deltamerge.errors import AnalysisError, UnsupportedTableError
from deltamerge.log.commit.conflict import ReadSet
from deltamerge.log.commit.proposal import Proposal
from deltamerge.log.commit.transaction import commit
from deltamerge.log.commit.upkeep import after_commit
from deltamerge.log.replay.files import FILE_SCHEMA, FileSet, Mask, table_of
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.log.replay.table import DeltaLog
from deltamerge.progress.operation import begin
from deltamerge.protocol.schema.merging import schema_of_all
from deltamerge.protocol.schema.types import StructField, StructType, changed_fields
from deltamerge.protocol.table.actions import AddFile
from deltamerge.protocol.table.column_mapping import MODE, MappingMode, mode_of
from deltamerge.protocol.table.evolution import nullable
from deltamerge.protocol.table.features import asked_features, assigns_row_ids, lowest
from deltamerge.protocol.values.partitions import encode_path
from deltamerge.spark.read.catalog import CATALOG, sql_name
from deltamerge.spark.session.delta_check import check_delta
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.running import operation
from deltamerge.spark.session.settings import author, setting, time_zone
from deltamerge.spark.session.storage import open_table
from deltamerge.spark.session.table_defaults import session_defaults
from deltamerge.spark.stages.existing import file_schemas, file_statistics
from deltamerge.storage import ObjectInfo

log = logging.getLogger("deltamerge.commands")

_COLLECTS = "spark.databricks.delta.stats.collect"
_NO_PARTITIONS = StructType(())


@dataclass(frozen=True, slots=True)
class Convert:
    """A conversion of the table of a name, parquet.`path` among them, whose folders have values of these partition columns."""

    name: tuple[str, ...]
    partitions: StructType | None = None
    collects_stats: bool = True


def convert_table(
    spark: Session, request: Convert, storage_options: Mapping[str, str] | None = None
) -> tuple[DeltaLog, tuple[str, ...]]:
    """Make version 0 of a table of Parquet files, and return its log, and its name where the catalog has it; `storage_options`
    open an object store.

    What is a Delta table already stays as it is. Raises AnalysisError for a name, a folder or files that can't be, and
    CorruptTableError for a file that is no Parquet; nothing is committed then.
    """
    target = convert_target(spark, request.name, request.partitions)
    table = open_table(spark, target.location, storage_options)
    if target.is_delta:
        return table, target.name
    if not table.exists():
        with operation(spark, "CONVERT", table.store.url):
            check_delta(spark, "CONVERT")
            _converted(spark, table, request, target)
    if target.name:
        listed_as_delta(spark, target)
    return table, target.name


def parquet_source(spark: Session, path: str) -> Snapshot:
    """A folder of Parquet files without partitions as the table that a clone begins with. Nothing is committed to it.

    Raises AnalysisError, CorruptTableError as a conversion does.
    """
    target, table = ConvertTarget(path), open_table(spark, path)
    files, values, schema = _listed(spark, table, target)
    made = settled(TableDefinition(schema), {}, table.store.url)
    rows = [add.to_json()["add"] for add in _adds(files, values, [None] * len(files))]
    protocol = lowest(asked_features(made.metadata))
    return Snapshot(table.store, -1, 0, protocol, made.metadata, FileSet.of(table_of(rows, FILE_SCHEMA)))


def _converted(spark: Session, table: DeltaLog, request: Convert, target: ConvertTarget) -> None:
    partitions = target.partitions or _NO_PARTITIONS
    begin("listing files")
    files, values, schema = _listed(spark, table, target)
    made = _settled(spark, table, schema, partitions, target.properties)
    empty = Snapshot(table.store, -1, 0, made.protocol, made.metadata, FileSet())
    collects = request.collects_stats and setting(spark, _COLLECTS, "true").lower() == "true"
    _check_tracking(made, collects)
    stats: Sequence[str | None] = file_statistics(spark, empty, files) if collects else [None] * len(files)
    adds = _adds(files, values, stats)
    proposal = Proposal(
        operation="CONVERT",
        actions=[made.protocol, made.metadata, *adds],
        read=ReadSet(whole_table=True, would_read=_everything),
        parameters={
            "numFiles": len(adds),
            "partitionedBy": json.dumps([field.name for field in request.partitions or ()], separators=(",", ":")),
            "collectStats": collects,
            **({"catalogTable": sql_name((CATALOG, *target.name))} if target.name else {}),
            "sourceFormat": "parquet",
        },
        metrics={"numConvertedFiles": len(adds)},
        author=author(spark),
        tells_no_version=True,
    )
    begin("committing")
    committed = commit(empty, proposal)
    table.remember(committed.snapshot)
    after_commit(committed.snapshot)
    log.info("converted %d files of %s", len(adds), table.store.url)


def _listed(
    spark: Session, table: DeltaLog, target: ConvertTarget
) -> tuple[list[ObjectInfo], list[dict[str, str | None]], StructType]:
    """The files, the partition values of each, and the columns of all."""
    partitions = target.partitions or _NO_PARTITIONS
    files = convertible_files(spark, table.store, target)
    values = partition_values(table.store, files, partitions, time_zone(spark))
    return files, values, _schema(file_schemas(spark, table.store, files), partitions)


def _adds(files: Sequence[ObjectInfo], values: Sequence[dict[str, str | None]], stats: Sequence[str | None]) -> list[AddFile]:
    return [
        AddFile(encode_path(file.name), of, file.size, file.modified, stats=text)
        for file, of, text in zip(files, values, stats, strict=True)
    ]


def _schema(schemas: Sequence[StructType], partitions: StructType) -> StructType:
    """The columns of all files and of the partitions: those of both are where the files have them, and are the partitions'."""
    found = changed_fields(nullable(schema_of_all(schemas)), _bare)
    fields = [partitions.find(field.name) or field for field in found]
    return StructType((*fields, *(field for field in partitions if found.find(field.name) is None)))


def _bare(field: StructField) -> StructField:
    """A column of which only the comment is kept of what its file notes about it."""
    return replace(field, metadata={key: value for key, value in field.metadata.items() if key == "comment"})


def _settled(
    spark: Session, table: DeltaLog, schema: StructType, partitions: StructType, properties: Mapping[str, str]
) -> Settled:
    definition = TableDefinition(schema, tuple(field.name for field in partitions), properties=properties)
    made = settled(definition, session_defaults(spark), table.store.url)
    if mode_of(made.metadata) is not MappingMode.NONE:
        raise UnsupportedTableError(
            "DELTA_CONVERSION_UNSUPPORTED_COLUMN_MAPPING",
            f"The configuration '{MODE}' cannot be set to '{mode_of(made.metadata).value}' when a table is converted.",
            parameters={"config": MODE, "mode": mode_of(made.metadata).value},
            hint="Unset the session's default of it, and set the table's property afterwards.",
        )
    return made


def _check_tracking(made: Settled, collects: bool) -> None:
    """Raise AnalysisError where rows are to be tracked that nobody counts."""
    if assigns_row_ids(made.protocol, made.metadata) and not collects:
        raise AnalysisError(
            "DELTA_CONVERT_TO_DELTA_ROW_TRACKING_WITHOUT_STATS",
            "Cannot enable row tracking without collecting statistics.",
            hint=f"Leave NO STATISTICS out, set {_COLLECTS} to true, or convert without row tracking.",
        )


def _everything(files: FileSet) -> Mask:
    return np.ones(len(files), np.bool_)
