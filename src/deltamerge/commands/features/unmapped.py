"""A table without column mapping: all files are written again, with columns under the names that the schema shows.

Source: delta-spark's RemoveColumnMappingCommand.
"""

from __future__ import annotations

import time
from dataclasses import replace

from deltamerge.commands.rows.request import WriteRequest
from deltamerge.commands.rows.schema import check_new_schema
from deltamerge.commands.rows.written import WritePlan, check_rows, written
from deltamerge.errors import AnalysisError
from deltamerge.log.commit.conflict import ReadSet, everything
from deltamerge.log.commit.proposal import Proposal
from deltamerge.log.commit.transaction import commit, discarding
from deltamerge.log.commit.upkeep import after_commit
from deltamerge.log.replay.files import each_add_file
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.log.replay.table import DeltaLog
from deltamerge.merge.settings import SETTINGS
from deltamerge.protocol.schema.types import parse_schema, schema_json
from deltamerge.protocol.table.actions import Action, Metadata
from deltamerge.protocol.table.column_mapping import MAX_ID, MODE, MappingMode, mode_of, without_mapping
from deltamerge.protocol.table.features import check_writable
from deltamerge.protocol.table.row_tracking import tracking_columns
from deltamerge.spark.read.snapshot import snapshot_frame
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.settings import author, known_settings


def is_unmapped(metadata: Metadata) -> bool:
    """Whether neither the mode nor the schema says anything of column mapping."""
    schema = parse_schema(metadata.schema_string)
    return mode_of(metadata) is MappingMode.NONE and schema == without_mapping(schema)


def remove_mapping(spark: Session, log: DeltaLog) -> None:
    """Write all rows again and commit them with a schema that maps no columns.

    Raises AnalysisError for names that only column mapping allows, and for a table whose rows keep ids.
    """
    before = log.snapshot()
    if tracking_columns(before.protocol, before.metadata) is not None:
        raise AnalysisError(
            "DELTA_FEATURE_DROP_NONREMOVABLE_FEATURE",
            "Cannot drop columnMapping from this table: its rows keep their ids (delta.enableRowTracking).",
            parameters={"feature": "columnMapping"},
            hint="Drop rowTracking before.",
        )
    after = replace(before, metadata=_unmapped(before))
    check_writable(after.protocol, after.metadata, log.store.url)
    with known_settings(spark, SETTINGS):
        plan = WritePlan(snapshot_frame(spark, before), before, after, WriteRequest("overwrite"))
        check_rows(plan)
        files = written(plan)
    now = int(time.time() * 1000)
    removed = [file.removed(now, data_change=False) for file in each_add_file(before.files.table())]
    added = [replace(file, data_change=False) for file in files.added]
    with discarding(before, files.names):
        metrics = {"numRemovedFiles": len(removed), "numRemovedBytes": sum(file.size or 0 for file in removed)}
        told = {**metrics, **files.metrics}
        actions: list[Action] = [after.metadata, *removed, *added]
        read = ReadSet(whole_table=True, would_read=everything)
        done = commit(before, Proposal("REMOVE COLUMN MAPPING", actions, read, {}, told, author=author(spark)))
    log.remember(done.snapshot)
    after_commit(done.snapshot)


def _unmapped(before: Snapshot) -> Metadata:
    metadata = before.metadata
    schema = without_mapping(parse_schema(metadata.schema_string))
    check_new_schema(schema, metadata.partition_columns)
    kept = {key: value for key, value in metadata.configuration.items() if key not in (MODE, MAX_ID)}
    return replace(metadata, schema_string=schema_json(schema), configuration=kept)
