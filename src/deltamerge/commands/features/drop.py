"""ALTER TABLE .. DROP FEATURE: a table's protocol without a feature that its newest version makes no use of any more.

Readers of older versions need a feature that readers have, too. So its commits are hidden behind checkpoints that the feature
`checkpointProtection` keeps, or with TRUNCATE HISTORY it stays until clean-up has deleted these commits.
Source: delta-spark's AlterTableDropFeatureDeltaCommand.
"""

from __future__ import annotations

import time
from dataclasses import replace

from deltamerge.commands.features.traces import PROTECTED, REMOVALS, Removal, commit_actions, whole
from deltamerge.commands.table.change import Change, commit_change, writable
from deltamerge.errors import AnalysisError
from deltamerge.log.commit.cleanup import clean_up, truncate
from deltamerge.log.commit.upkeep import checkpoint
from deltamerge.log.replay.commit_file import read_commit
from deltamerge.log.replay.segment import LOG, all_commits, complete_checkpoints
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.log.replay.table import DeltaLog
from deltamerge.progress.operation import begin
from deltamerge.protocol.table.features import FEATURES, lowest, named_features
from deltamerge.spark.session.delta_check import check_delta
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.running import operation
from deltamerge.spark.session.settings import setting

_FAST = "spark.databricks.delta.tableFeatures.fastDropFeature.enabled"
_PROTECTION = "checkpointProtection"
_KEPT = "delta.dropFeatureTruncateHistory.retentionDuration"
_DAY = 86_400_000
# As many as delta-spark tries to read, before it reads commits that stand before them.
_BARRIERS = 3


def drop_feature(spark: Session, log: DeltaLog, name: str, truncate_history: bool = False) -> int:
    """Remove a feature from a table's protocol and return the version made.

    Raises AnalysisError for a feature that the table lacks, that others need, or that can't be removed here, and where commits
    that make use of it must expire first; ConcurrentModificationError. What was done by then stays: the command goes on from
    there.
    """
    with operation(spark, "DROP FEATURE", log.store.url):
        check_delta(spark, "ALTER")
        return _without(spark, log, name, truncate_history)


def _without(spark: Session, log: DeltaLog, name: str, truncate_history: bool) -> int:
    before = writable(log)
    found, removal = _removal(before, name, truncate_history)
    is_fast = not truncate_history and setting(spark, _FAST, "true").lower() != "false"
    changed = not removal.is_clean(before)
    begin("cleaning the newest version")
    if found == _PROTECTION:
        _truncate_protected(spark, log, before)
    # Vectors of older versions get their tombstones even where the newest version has none.
    if changed or found == "deletionVectors":
        removal.clean(spark, log)
    if removal.in_history is not None:
        begin("closing off older versions")
        for _ in range(_BARRIERS if is_fast else 1):
            _barrier(spark, log)
        if not is_fast:
            _check_history(log, found, removal, changed, truncate_history)
    begin("committing")
    version = _dropped(spark, log, found, removal, truncate_history, is_fast and removal.in_history is not None)
    if is_fast and removal.in_history is not None:
        checkpoint(log.snapshot())
    return version


def _removal(before: Snapshot, name: str, truncates: bool) -> tuple[str, Removal]:
    """The feature's name and how it is removed. Raises AnalysisError where it can't be."""
    names = named_features(before.protocol)
    if name.lower().startswith("delta."):
        raise _undroppable("DELTA_FEATURE_DROP_FEATURE_IS_DELTA_PROPERTY", name, "it is a property and no feature")
    found = next((known for known in FEATURES if known.lower() == name.lower()), None)
    if found is None:
        raise _undroppable("DELTA_FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE", name, "it is not known", "Check its spelling.")
    if found not in names:
        raise _undroppable("DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT", found, "it is not in the table's protocol")
    if found not in REMOVALS:
        raise _undroppable("DELTA_FEATURE_DROP_NONREMOVABLE_FEATURE", found, "this feature can't be removed here")
    removal = REMOVALS[found]
    if truncates and removal.in_history is None and found != _PROTECTION:
        raise _undroppable("DELTA_FEATURE_DROP_HISTORY_TRUNCATION_NOT_ALLOWED", found, "it needs no truncated history")
    if found == _PROTECTION and not truncates:
        raise _undroppable(
            "DELTA_FEATURE_CAN_ONLY_DROP_CHECKPOINT_PROTECTION_WITH_HISTORY_TRUNCATION",
            found,
            "its checkpoints hide commits that make use of features that were dropped",
            "ALTER TABLE .. DROP FEATURE checkpointProtection TRUNCATE HISTORY.",
        )
    needing = sorted(other for other in names if other in FEATURES and found in FEATURES[other].requires)
    if needing:
        raise _undroppable(
            "DELTA_FEATURE_DROP_DEPENDENT_FEATURE", found, f"{', '.join(needing)} need it", "Drop these features before."
        )
    return found, removal


def _dropped(spark: Session, log: DeltaLog, found: str, removal: Removal, truncates: bool, protects: bool) -> int:
    snapshot = log.snapshot()
    if not removal.is_clean(snapshot):
        raise _undroppable(
            "DELTA_FEATURE_DROP_CONFLICT_REVALIDATION_FAIL",
            found,
            "another transaction made use of it again",
            "Run the command again when nothing else changes the table.",
        )
    kept = {key: value for key, value in snapshot.metadata.configuration.items() if key not in removal.properties}
    names = named_features(snapshot.protocol) - {found}
    if protects:
        names |= {_PROTECTION}
        kept[PROTECTED] = str(snapshot.version + 1)
    change = Change(
        "DROP FEATURE",
        {"featureName": found, "truncateHistory": truncates},
        replace(snapshot.metadata, configuration=kept),
        lowest(names),
        tuple(removal.actions(snapshot)),
        whole(),
    )
    return commit_change(spark, log, snapshot, change)


def _barrier(spark: Session, log: DeltaLog) -> None:
    """A version without changes, and its checkpoint. Raises StorageError."""
    commit_actions(spark, log, "Empty Commit", [])
    checkpoint(log.snapshot())


def _check_history(log: DeltaLog, found: str, removal: Removal, changed: bool, truncates: bool) -> None:
    """Raise AnalysisError where commits make use of the feature that are not deleted yet."""
    if changed:
        raise _undroppable(
            "DELTA_FEATURE_DROP_WAIT_FOR_RETENTION_PERIOD",
            found,
            "the newest version makes no use of it any more, but older ones do",
            f"Run the command again when they have expired{_when(log, truncates)}.",
        )
    snapshot, now = log.snapshot(), int(time.time() * 1000)
    if truncates:
        truncate(snapshot, now, snapshot.properties.interval(_KEPT, _DAY))
    else:
        clean_up(snapshot, now)
    if _is_in_history(log, removal):
        raise _undroppable(
            "DELTA_FEATURE_DROP_HISTORICAL_VERSIONS_EXIST",
            found,
            "older versions make use of it",
            f"Run the command again when they have expired{_when(log, truncates)}, or without TRUNCATE HISTORY.",
        )


def _is_in_history(log: DeltaLog, removal: Removal) -> bool:
    assert removal.in_history is not None
    store = log.store
    checkpoints = complete_checkpoints(store.list(LOG, ""))
    if checkpoints and removal.in_history(log.snapshot(min(checkpoints))):
        return True
    return any(removal.in_history(read_commit(store, info)) for info in all_commits(store))


def _truncate_protected(spark: Session, log: DeltaLog, before: Snapshot) -> None:
    """Delete the commits that protected checkpoints hide. Raises AnalysisError where they have not expired."""
    first = int(before.metadata.configuration.get(PROTECTED, 0))
    if _begins_at(log, first):
        return
    _barrier(spark, log)
    snapshot = log.snapshot()
    truncate(snapshot, int(time.time() * 1000), snapshot.properties.interval(_KEPT, _DAY))
    if not _begins_at(log, first):
        raise _undroppable(
            "DELTA_FEATURE_DROP_CHECKPOINT_PROTECTION_WAIT_FOR_RETENTION_PERIOD",
            _PROTECTION,
            "older versions make use of features that were dropped",
            f"Run the command again when they have expired{_when(log, True)}.",
        )


def _begins_at(log: DeltaLog, first: int) -> bool:
    """Whether the log begins with a version from `first` on, and its checkpoint."""
    if first <= 0:
        return True
    checkpoints = complete_checkpoints(log.store.list(LOG, ""))
    begins = min(int(info.name.rpartition("/")[2].split(".")[0]) for info in all_commits(log.store))
    return bool(checkpoints) and min(checkpoints) >= first and begins >= first


def _when(log: DeltaLog, truncates: bool) -> str:
    key = _KEPT if truncates else "delta.logRetentionDuration"
    properties = log.snapshot().properties
    kept = properties.interval(_KEPT, _DAY) if truncates else properties.log_retention
    return f", {kept / 3_600_000:g} hours after they were made ({key})"


def _undroppable(condition: str, name: str, why: str, hint: str | None = None) -> AnalysisError:
    return AnalysisError(condition, f"Cannot drop {name} from this table: {why}.", parameters={"feature": name}, hint=hint)
