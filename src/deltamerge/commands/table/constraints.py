"""CHECK constraints added and dropped, and the columns that a table is clustered by.

Source: delta-spark's AlterTableAddConstraintDeltaCommand and the like.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from deltamerge.commands.table.change import Change, commit_change, writable
from deltamerge.errors import AnalysisError, ConstraintError
from deltamerge.log.commit.clustering import clustering_domain, clustering_names
from deltamerge.log.commit.conflict import ReadSet
from deltamerge.log.replay.files import FileSet, Mask
from deltamerge.log.replay.table import DeltaLog
from deltamerge.progress.operation import begin
from deltamerge.progress.value import Amount
from deltamerge.protocol.table.features import upgraded
from deltamerge.spark.expressions.checks import check_condition, violating_rows
from deltamerge.spark.read.snapshot import snapshot_frame
from deltamerge.spark.session.delta_check import check_delta
from deltamerge.spark.session.delta_settings import DELTA
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.running import operation
from deltamerge.spark.session.settings import flag

_IF_EXISTS = f"{DELTA}constraints.assumesDropIfExists.enabled"
_PREFIX = "delta.constraints."


def add_constraint(spark: Session, log: DeltaLog, name: str, text: str) -> int:
    """Have each row of a table meet a condition, and return the version made. The rows that are there are checked by a job.

    Raises AnalysisError for a name that is taken and for no condition, ConstraintError for rows that do not meet it.
    """
    check_delta(spark, "ALTER")
    with operation(spark, "ADD CONSTRAINT", log.store.url):
        return _added(spark, log, name, text)


def _added(spark: Session, log: DeltaLog, name: str, text: str) -> int:
    before = writable(log)
    old = _text_of(before.metadata.configuration, name)
    if old is not None:
        raise AnalysisError(
            "DELTA_CONSTRAINT_ALREADY_EXISTS",
            f"Constraint '{name}' already exists: {old}.",
            parameters={"constraintName": name, "oldConstraint": old},
            hint="Drop the old constraint first.",
        )
    check_condition(spark, before.schema, name, text)
    begin("checking the rows", lambda: Amount(len(before.files), before.files.total_bytes))
    count = violating_rows(snapshot_frame(spark, before), text)
    if count:
        raise ConstraintError(
            "DELTA_NEW_CHECK_CONSTRAINT_VIOLATION",
            f"{count} rows in {log.store.url} violate the new CHECK constraint ({text}).",
            parameters={"numRows": count, "tableName": log.store.url, "checkConstraint": text},
            hint="Change or delete these rows first.",
        )
    configuration = {**before.metadata.configuration, f"{_PREFIX}{name.lower()}": text}
    metadata = replace(before.metadata, configuration=configuration)
    read = ReadSet(whole_table=True, would_read=_everything)
    begin("committing")
    return commit_change(spark, log, before, Change("ADD CONSTRAINT", {"name": name, "expr": text}, metadata, read=read))


def drop_constraint(spark: Session, log: DeltaLog, name: str, if_exists: bool = False) -> int:
    """Remove a CHECK constraint and return the version made.

    Raises AnalysisError for none, unless `if_exists` or the session says that this is always meant.
    """
    before, if_exists = writable(log), if_exists or flag(spark, _IF_EXISTS)
    old = _text_of(before.metadata.configuration, name)
    if old is None and not if_exists:
        raise AnalysisError(
            "DELTA_CONSTRAINT_DOES_NOT_EXIST",
            f"Cannot drop nonexistent constraint {name} from table {log.store.url}.",
            parameters={"constraintName": name, "tableName": log.store.url},
            hint="Write DROP CONSTRAINT IF EXISTS.",
        )
    gone = f"{_PREFIX}{name}".lower()
    kept = {key: value for key, value in before.metadata.configuration.items() if key.lower() != gone}
    told = {"name": name, "existed": "false"} if old is None else {"name": name, "expr": old, "existed": "true"}
    return commit_change(spark, log, before, Change("DROP CONSTRAINT", told, replace(before.metadata, configuration=kept)))


def cluster_by(spark: Session, log: DeltaLog, columns: Sequence[tuple[str, ...]]) -> int | None:
    """Cluster a table by these columns, () for by none, and return the version made; None where it is by none already.

    Raises AnalysisError. Source: delta-spark's AlterTableClusterByDeltaCommand.
    """
    before = writable(log)
    if before.partition_columns:
        raise AnalysisError(
            "DELTA_ALTER_TABLE_CLUSTER_BY_ON_PARTITIONED_TABLE_NOT_ALLOWED",
            f"ALTER TABLE CLUSTER BY cannot be applied to {log.store.url}, a partitioned table.",
            parameters={"table": log.store.url, "partitionColumns": list(before.partition_columns)},
            hint="Make the table anew with CLUSTER BY in place of PARTITIONED BY.",
        )
    protocol = upgraded(before.protocol, ["clustering"])
    if not columns and protocol != before.protocol:
        return None
    domain = clustering_domain(before.schema, columns, before.metadata, before.partition_columns)
    told = {
        "oldClusteringColumns": ",".join(clustering_names(before)),
        "newClusteringColumns": ",".join(".".join(name) for name in columns),
    }
    return commit_change(spark, log, before, Change("CLUSTER BY", told, protocol=protocol, domains=(domain,)))


def _text_of(configuration: Mapping[str, str], name: str) -> str | None:
    wanted = f"{_PREFIX}{name}".lower()
    return next((value for key, value in configuration.items() if key.lower() == wanted), None)


def _everything(files: FileSet) -> Mask:
    return np.ones(len(files), np.bool_)
