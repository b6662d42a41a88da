"""The whole line of a merge."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from deltamerge.budgets import current_budgets
from deltamerge.errors import (
    ConcurrentModificationError,
    DeltaMergeError,
    ExecutionError,
    InvalidArgumentError,
    MetadataChangedError,
    ProtocolChangedError,
    SourceLostError,
)
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.log.replay.table import DeltaLog
from deltamerge.merge.commit import CommittedMerge, Timing, commit_merge
from deltamerge.merge.execute.execute import MergeOutcome, execute
from deltamerge.merge.execute.routed import MustBeKeptError
from deltamerge.merge.plan.kept import kept_columns
from deltamerge.merge.plan.latest import chosen_rows
from deltamerge.merge.plan.plan import REWRITE_SHARE, MergePlan, Strategy, plan_merge
from deltamerge.merge.plan.prune import foreseen, prune
from deltamerge.merge.plan.routing import route_of
from deltamerge.merge.preview import MergePreview, preview
from deltamerge.merge.report import MergeReport, merged_before, report
from deltamerge.merge.resolve.evolve import AUTO_MERGE
from deltamerge.merge.resolve.resolve import resolve
from deltamerge.merge.resolve.skip_unchanged import without_unchanged
from deltamerge.merge.statement.clauses import Batch, MergeSpec
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.settings import CASE_SENSITIVE, TIME_ZONE, engine_name, known_settings, setting
from deltamerge.spark.source.source import READ_SETTINGS, UNREAD, Reading, Source, materialize
from deltamerge.spark.stages.target import data_store

log = logging.getLogger("deltamerge.merge")


STRATEGY = "spark.deltamerge.strategy"
SHARE = "spark.deltamerge.rewriteShare"
SHARE_PROPERTY = "deltamerge.rewriteShare"
RETRIES = "spark.deltamerge.conflictRetries"
_APPLICATION, _VERSION = "spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion"
_RESET = "spark.databricks.delta.write.txnVersion.autoReset.enabled"
_SETTINGS = (STRATEGY, SHARE, RETRIES, _APPLICATION, _VERSION, _RESET, AUTO_MERGE, CASE_SENSITIVE, TIME_ZONE, *READ_SETTINGS)
Progress = Callable[[str], None]
Done = TypeVar("Done")


def run_merge(spark: Session, table: DeltaLog, spec: MergeSpec, progress: Progress | None = None) -> MergeReport:
    """Merge, commit, report; `progress` is told each step. Raises DeltaMergeError; the table is then as it was."""
    tell = progress or log.debug

    def finish(outcome: MergeOutcome, timing: Timing) -> CommittedMerge:
        tell("committing")
        return commit_merge(outcome, timing, engine_name(spark))

    done = performed(spark, table, spec, tell, finish)
    if done is None:
        return merged_before()
    if done.committed is not None:
        table.remember(done.committed.snapshot)
    return report(done)


def planned(spark: Session, table: DeltaLog, spec: MergeSpec) -> MergePlan:
    """How a merge into the newest version would run; no job runs. Raises AnalysisError, InvalidArgumentError."""
    return _planned(spark, table.snapshot(), spec)


def explained(spark: Session, table: DeltaLog, spec: MergeSpec) -> str:
    """The plan in words, with the pruning that is known without the source; no job runs.

    Raises as `planned`, UnsupportedTableError, CorruptTableError.
    """
    plan = planned(spark, table, spec)
    known = ", ".join(f"{step.files:,} {step.name}" for step in foreseen(plan))
    files = f"{known}; the source decides on the rest" if plan.pairs or plan.ranges else known
    route = route_of(prune(plan, UNREAD))
    return plan.explain(files, kept_columns(plan), "" if route is None else route.text)


def previewed(spark: Session, table: DeltaLog, spec: MergeSpec) -> MergePreview:
    """What a merge into the newest version would do; its source is evaluated, nothing is written. Raises DeltaMergeError."""
    plan = planned(spark, table, spec)
    source = materialize(chosen_rows(plan), plan.source_columns, plan.bounded, _reading(plan, False), plan.budgets)
    return preview(spark, prune(plan, source))


def performed(
    spark: Session,
    table: DeltaLog,
    spec: MergeSpec,
    tell: Progress,
    finish: Callable[[MergeOutcome, Timing], Done],
    source: Source | None = None,
) -> Done | None:
    """The whole line, its end being `finish`; None when the batch was committed before. A `source` needs no evaluation.

    When another transaction conflicts the line is run again on the newest version, as often as the specification or the
    session says. Raises DeltaMergeError.
    """
    with known_settings(spark, _SETTINGS):
        return _performed(spark, table, spec, tell, finish, source)


def _performed(
    spark: Session,
    table: DeltaLog,
    spec: MergeSpec,
    tell: Progress,
    finish: Callable[[MergeOutcome, Timing], Done],
    source: Source | None,
) -> Done | None:
    started = time.perf_counter()
    spec = _with_batch(spark, spec)
    budgets = current_budgets()
    conflicts, losses, kept = _retries(spark, spec), budgets.lost_sources, False
    given = source
    while True:
        snapshot = table.snapshot()
        if _was_merged(spec, snapshot):
            _reset_batch(spark)
            return None
        tell("resolving names and types")
        plan = _planned(spark, snapshot, spec)
        if source is None or spec.source_at is not None:
            tell("reading the source")
            reading = _reading(plan, kept or conflicts > 0)
            source = materialize(chosen_rows(plan), plan.source_columns, plan.bounded, reading, plan.budgets)
        ready = time.perf_counter()
        pruned = prune(plan, source)
        log.info("%s: %s", table.store.url, "; ".join(f"{s.files} files {s.name}" for s in pruned.funnel))
        tell(f"matching {pruned.funnel[-1].files} of {pruned.funnel[0].files} files and writing")
        try:
            outcome = execute(spark, pruned)
            done = finish(outcome, _timing(started, ready, outcome))
        except MustBeKeptError as error:
            log.info("%s: the source is evaluated by Spark: %s", table.store.url, error)
            source, kept = given, True
        except SourceLostError as error:
            losses -= 1
            if not losses:
                raise _lost_repeatedly(error, budgets.lost_sources) from error
            source = given
            _again(table, error, tell)
        except (MetadataChangedError, ProtocolChangedError):
            raise
        except ConcurrentModificationError as error:
            if not conflicts:
                raise
            conflicts -= 1
            _again(table, error, tell)
        else:
            _reset_batch(spark)
            return done


def _timing(started: float, ready: float, outcome: MergeOutcome) -> Timing:
    executed = int((time.perf_counter() - ready) * 1000)
    return Timing(started, int((ready - started) * 1000), outcome.scan_ms, executed - outcome.scan_ms)


def _reading(plan: MergePlan, kept: bool) -> Reading:
    """How a source that is a scan of files may be read by the merge; it must be kept if its rows are looked at more than once,
    be it by a join without an equality.

    A smaller one may spare files of the table by its keys, which have to be known beforehand, or else go straight to its files.
    """
    must_be_kept = kept or plan.resolved.asked is not None or not plan.equates
    at_least = None if must_be_kept else int(foreseen(plan)[-1].bytes * plan.budgets.deferred_share)
    return Reading(data_store(plan.resolved.snapshot.store), at_least, partial(_is_sent, plan))


def _is_sent(plan: MergePlan, source: Source, straight: bool) -> bool:
    """Whether the rows of a source would be sent to the owners of files, and `straight`, if that is asked."""
    route = route_of(prune(plan, source))
    return route is not None and not (straight and route.meetings)


def _again(table: DeltaLog, error: DeltaMergeError, tell: Progress) -> None:
    log.info("%s: running again: %s", table.store.url, error.detail)
    tell(f"running again after {error.condition}")


def _lost_repeatedly(error: SourceLostError, times: int) -> ExecutionError:
    return ExecutionError(
        "DELTA_MERGE_MATERIALIZE_SOURCE_FAILED_REPEATEDLY",
        f"Keeping the source of the MERGE statement materialized has failed repeatedly, {times} times: {error.detail}",
        hint="Keep executors alive while the merge runs, or write the source to a table and merge that.",
    )


def _planned(spark: Session, snapshot: Snapshot, spec: MergeSpec) -> MergePlan:
    resolved = resolve(spark, spec, snapshot)
    resolved = without_unchanged(resolved) if spec.skips_unchanged else resolved
    return plan_merge(resolved, _strategy(spark), _rewrite_share(spark, snapshot), current_budgets())


def _with_batch(spark: Session, spec: MergeSpec) -> MergeSpec:
    """The specification with the batch that the session's settings name, as delta-spark reads them, unless it has one."""
    application, version = setting(spark, _APPLICATION, ""), setting(spark, _VERSION, "")
    if spec.batch is not None or not (application and version):
        if bool(application) != bool(version) and spec.batch is None:
            raise _incomplete_batch(application, version)
        return spec
    try:
        return replace(spec, batch=Batch(application, int(version)))
    except ValueError as error:
        raise _incomplete_batch(application, version) from error


def _incomplete_batch(application: str, version: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        "DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS",
        f"Invalid options for idempotent writes: {_APPLICATION} is {application!r} and {_VERSION} is {version!r}.",
        hint="Set both, the version as a whole number, or neither.",
    )


def _was_merged(spec: MergeSpec, snapshot: Snapshot) -> bool:
    if spec.batch is None or spec.batch.application not in snapshot.txns:
        return False
    known = snapshot.txns[spec.batch.application].version
    if known >= spec.batch.version:
        log.info("batch %d of %s is in %s already (%d)", spec.batch.version, spec.batch.application, snapshot.store.url, known)
    return known >= spec.batch.version


def _reset_batch(spark: Session) -> None:
    """Forget the version that the session names, when the session asks for that."""
    if setting(spark, _RESET, "false").lower() == "true":
        spark.conf.unset(_VERSION)


def _retries(spark: Session, spec: MergeSpec) -> int:
    if spec.retries is not None:
        return spec.retries
    value = setting(spark, RETRIES, "0")
    if value.isdecimal():
        return int(value)
    message = f"The setting {RETRIES} is {value!r}."
    raise InvalidArgumentError("DELTAMERGE_INVALID_RETRIES", message, hint="How often to run again: 0, 1, 2 ..")


def _strategy(spark: Session) -> Strategy:
    value = setting(spark, STRATEGY, Strategy.AUTO.value)
    try:
        return Strategy(value)
    except ValueError as error:
        known = ", ".join(strategy.value for strategy in Strategy)
        message = f"The setting {STRATEGY} is {value!r}."
        raise InvalidArgumentError("DELTAMERGE_INVALID_STRATEGY", message, hint=f"One of {known}.") from error


def _rewrite_share(spark: Session, snapshot: Snapshot) -> float:
    """The session's share, the table's own, or the default, in this order."""
    where = f"setting {SHARE}"
    value = setting(spark, SHARE, "")
    if not value:
        where, value = f"table property {SHARE_PROPERTY}", snapshot.properties.values.get(SHARE_PROPERTY, str(REWRITE_SHARE))
    try:
        found = float(value)
    except ValueError:
        found = -1.0
    if 0 <= found <= 1:
        return found
    message = f"The {where} is {value!r}."
    raise InvalidArgumentError("DELTAMERGE_INVALID_SHARE", message, hint="A number from 0 (always rewrite) to 1 (never).")
