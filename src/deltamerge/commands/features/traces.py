"""What features leave in a table, and how that is taken out of its newest version before a feature is dropped.

Source: delta-spark's RemovableFeature and PreDowngradeTableFeatureCommand.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow.compute as pc

from deltamerge.commands.features.unmapped import is_unmapped, remove_mapping
from deltamerge.commands.layout.optimize import Optimize, Reorg, optimize_table
from deltamerge.commands.table.change import Change, commit_change, told_json
from deltamerge.commands.table.row_ids import take_row_ids
from deltamerge.errors import AnalysisError
from deltamerge.log.commit.conflict import ReadSet, everything
from deltamerge.log.commit.proposal import Proposal
from deltamerge.log.commit.row_ids import ROW_TRACKING
from deltamerge.log.commit.transaction import commit
from deltamerge.log.commit.upkeep import after_commit
from deltamerge.log.replay.commit_file import CommitFile
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.log.replay.table import DeltaLog
from deltamerge.protocol.schema.type_widening import CHANGES, WIDENING
from deltamerge.protocol.schema.types import StructField, StructType, changed_fields, fields_of, parse_schema, schema_json
from deltamerge.protocol.table.actions import Action, DeletionVector, DomainMetadata, Metadata, RemoveFile
from deltamerge.protocol.table.column_mapping import MappingMode, mode_of
from deltamerge.protocol.table.deletion_vector import vector_reference
from deltamerge.protocol.table.row_tracking import COLUMN_NAMES, SUSPENDED, TRACKING
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.settings import author
from deltamerge.storage.location import is_absolute

PROTECTED = "delta.requireCheckpointProtectionBeforeVersion"
_VECTORS, _POLICY = "delta.enableDeletionVectors", "delta.checkpointPolicy"
_TIMES = "delta.enableInCommitTimestamps"
_SINCE = ("delta.inCommitTimestampEnablementTimestamp", "delta.inCommitTimestampEnablementVersion")


@dataclass(frozen=True, slots=True)
class Removal:
    """How a feature is dropped. `is_clean` says that the newest version makes no use of it, `clean` makes it so, or raises an
    AnalysisError where only a user can.

    `in_history` says whether a commit's file, or metadata of a checkpoint, makes use of it: readers of older versions need the
    feature; None for a feature that only writers have. `properties` and what `actions` gives leave the table with it.
    """

    is_clean: Callable[[Snapshot], bool] = lambda snapshot: True
    clean: Callable[[Session, DeltaLog], None] = lambda spark, log: None
    in_history: Callable[[CommitFile | Snapshot], bool] | None = None
    properties: tuple[str, ...] = ()
    actions: Callable[[Snapshot], list[DomainMetadata]] = lambda snapshot: []


def commit_actions(
    spark: Session, log: DeltaLog, name: str, actions: Sequence[Action], told: Mapping[str, Any] | None = None
) -> None:
    """Commit actions upon the whole table as it is."""
    before = log.snapshot()
    committed = commit(before, Proposal(name, actions, whole() if actions else ReadSet(), told or {}, author=author(spark)))
    log.remember(committed.snapshot)
    after_commit(committed.snapshot)


def whole() -> ReadSet:
    """All files were read, and any other would have been."""
    return ReadSet(whole_table=True, would_read=everything)


def _metadata_of(read: CommitFile | Snapshot) -> Metadata | None:
    return read.metadata


def _is_on(metadata: Metadata | None, key: str) -> bool:
    return metadata is not None and metadata.configuration.get(key, "false").strip().lower() == "true"


def _without(spark: Session, log: DeltaLog, keys: tuple[str, ...]) -> None:
    before = log.snapshot()
    kept = {key: value for key, value in before.metadata.configuration.items() if key not in keys}
    told = {"properties": told_json(list(keys)), "ifExists": True}
    commit_change(spark, log, before, Change("UNSET TBLPROPERTIES", told, replace(before.metadata, configuration=kept)))


def _with(spark: Session, log: DeltaLog, values: Mapping[str, str]) -> None:
    before = log.snapshot()
    metadata = replace(before.metadata, configuration={**before.metadata.configuration, **values})
    commit_change(spark, log, before, Change("SET TBLPROPERTIES", {"properties": told_json(dict(values))}, metadata))


def _has_no_vectors(snapshot: Snapshot) -> bool:
    vectors = snapshot.files.column("deletionVector")
    return not _is_on(snapshot.metadata, _VECTORS) and vectors.null_count == len(vectors)


def _clean_vectors(spark: Session, log: DeltaLog) -> None:
    """No more vectors, none in the newest version, and tombstones for those of older ones: VACUUM by writers that know of no
    vectors keeps what a tombstone names.
    """
    if not _has_no_vectors(log.snapshot()):
        _without(spark, log, (_VECTORS,))
    optimize_table(spark, log, Optimize(reorg=Reorg.PURGE))
    removed = log.snapshot().tombstones.table
    known = set(removed.filter(pc.is_null(removed["deletionVector"]))["path"].to_pylist())
    found = removed.filter(pc.is_valid(removed["deletionVector"]))["deletionVector"].to_pylist()
    names = dict.fromkeys(vector_reference(DeletionVector.from_json(vector), "a data file") for vector in found)
    missing = [name for name in names if name is not None and not is_absolute(name) and name not in known]
    now = int(time.time() * 1000)
    commit_actions(spark, log, "Deletion Vector Tombstones", [RemoveFile(name, now, data_change=False) for name in missing])


def _uses_vectors(read: CommitFile | Snapshot) -> bool:
    if _is_on(_metadata_of(read), _VECTORS):
        return True
    columns = (
        [read.files.column("deletionVector")]
        if isinstance(read, Snapshot)
        else [read.adds["deletionVector"], read.removes["deletionVector"]]
    )
    return any(column.null_count < len(column) for column in columns)


def _asks_for_v2(metadata: Metadata | None) -> bool:
    return metadata is not None and metadata.configuration.get(_POLICY, "classic").strip().lower() == "v2"


def _is_widened(metadata: Metadata) -> bool:
    return any(CHANGES in field.metadata for field in fields_of(parse_schema(metadata.schema_string)))


def _clean_types(spark: Session, log: DeltaLog) -> None:
    """No more changes of types, files with older ones written again, and the schema without what it says of them."""
    _without(spark, log, (WIDENING,))
    if not _is_widened(log.snapshot().metadata):
        return
    optimize_table(spark, log, Optimize(reorg=Reorg.TYPES))
    before = log.snapshot()
    schema = parse_schema(before.metadata.schema_string)
    cleaned = changed_fields(schema, lambda f: replace(f, metadata={k: v for k, v in f.metadata.items() if k != CHANGES}))
    metadata = replace(before.metadata, schema_string=schema_json(cleaned))
    told = {"columns": told_json([_told(path, field) for path, field in _changed(schema)])}
    commit_change(spark, log, before, Change("DROP FEATURE", told, metadata, read=whole()))


def _changed(schema: StructType, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], StructField]]:
    found = []
    for field in schema:
        here = (*path, field.name)
        if CHANGES in field.metadata:
            found.append((here, field))
        if isinstance(field.type, StructType):
            found += _changed(field.type, here)
    return found


def _told(path: tuple[str, ...], field: StructField) -> dict[str, Any]:
    (told,) = json.loads(schema_json(StructType((field,))))["fields"]
    return {**told, "name": ".".join(path)}


def _clean_times(spark: Session, log: DeltaLog) -> None:
    before = log.snapshot()
    values = before.metadata.configuration
    gone = [key for key in _SINCE if key in values]
    off = {_TIMES: "false"} if _is_on(before.metadata, _TIMES) else {}
    kept = {**{key: value for key, value in values.items() if key not in gone}, **off}
    told = {"properties": told_json([*gone, *off]), "ifExists": True}
    commit_change(spark, log, before, Change("UNSET TBLPROPERTIES", told, replace(before.metadata, configuration=kept)))


def _tracks_no_rows(snapshot: Snapshot) -> bool:
    ids, versions = (snapshot.files.column(name) for name in ("baseRowId", "defaultRowCommitVersion"))
    without = ids.null_count == len(ids) and versions.null_count == len(versions)
    return without and not _is_on(snapshot.metadata, TRACKING) and _is_on(snapshot.metadata, SUSPENDED)


def _clean_tracking(spark: Session, log: DeltaLog) -> None:
    """Rows get no more ids, and files are named again without those that they have."""
    _with(spark, log, {TRACKING: "false", SUSPENDED: "true"})
    take_row_ids(spark, log)


def _removed(snapshot: Snapshot, *names: str) -> list[DomainMetadata]:
    return [replace(domain, removed=True) for name, domain in snapshot.domains.items() if not names or name in names]


def _clean_domains(spark: Session, log: DeltaLog) -> None:
    gone = _removed(log.snapshot())
    commit_actions(spark, log, "DOMAIN METADATA CLEANUP", gone, {"domainMetadataRemovedCount": len(gone)})


def _refuse_constraints(spark: Session, log: DeltaLog) -> None:
    left = [key for key in log.snapshot().metadata.configuration if key.startswith("delta.constraints.")]
    raise AnalysisError(
        "DELTA_CANNOT_DROP_CHECK_CONSTRAINT_FEATURE",
        f"Cannot drop checkConstraints from this table: the table has {', '.join(left)}.",
        parameters={"feature": "checkConstraints"},
        hint="Drop the CHECK constraints before: ALTER TABLE .. DROP CONSTRAINT name.",
    )


_TYPES = Removal(
    is_clean=lambda s: not _is_on(s.metadata, WIDENING) and not _is_widened(s.metadata),
    clean=_clean_types,
    in_history=lambda read: (found := _metadata_of(read)) is not None and _is_widened(found),
)
REMOVALS: Mapping[str, Removal] = {
    "checkConstraints": Removal(
        is_clean=lambda s: not any(key.startswith("delta.constraints.") for key in s.metadata.configuration),
        clean=_refuse_constraints,
    ),
    "deletionVectors": Removal(_has_no_vectors, _clean_vectors, _uses_vectors),
    "columnMapping": Removal(
        is_clean=lambda s: is_unmapped(s.metadata),
        clean=remove_mapping,
        in_history=lambda read: (found := _metadata_of(read)) is not None and mode_of(found) is not MappingMode.NONE,
    ),
    "v2Checkpoint": Removal(
        is_clean=lambda s: not _asks_for_v2(s.metadata),
        clean=lambda spark, log: _with(spark, log, {_POLICY: "classic"}),
        in_history=lambda read: _asks_for_v2(_metadata_of(read)),
    ),
    "vacuumProtocolCheck": Removal(in_history=lambda read: False),
    "typeWidening": _TYPES,
    "typeWidening-preview": _TYPES,
    "inCommitTimestamp": Removal(
        is_clean=lambda s: not _is_on(s.metadata, _TIMES) and not any(key in s.metadata.configuration for key in _SINCE),
        clean=_clean_times,
    ),
    "rowTracking": Removal(
        is_clean=_tracks_no_rows,
        clean=_clean_tracking,
        properties=(TRACKING, SUSPENDED, *COLUMN_NAMES),
        actions=lambda snapshot: _removed(snapshot, ROW_TRACKING),
    ),
    "domainMetadata": Removal(is_clean=lambda s: not s.domains, clean=_clean_domains),
    "materializePartitionColumns": Removal(properties=("delta.enableMaterializePartitionColumnsFeature",)),
    "checkpointProtection": Removal(
        is_clean=lambda s: PROTECTED not in s.metadata.configuration,
        clean=lambda spark, log: _without(spark, log, (PROTECTED,)),
    ),
}
