"""The line of a merge: from a statement to changed rows and what becomes of them, one step after the other."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TypeVar

from deltamerge.budgets import Budgets
from deltamerge.errors import DeltaMergeError, SourceLostError
from deltamerge.log.commit.unread import check_unread
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.log.replay.table import DeltaLog
from deltamerge.log.turns import in_turn
from deltamerge.merge.execute.attempts import run_attempts
from deltamerge.merge.execute.outcome import MergeOutcome, outcome_of
from deltamerge.merge.execute.work import work_on
from deltamerge.merge.plan.choose import Facts, choose, large_source, may_be_exchanged
from deltamerge.merge.plan.latest import chosen_rows
from deltamerge.merge.plan.logical import LogicalPlan, Strategy, Wishes, logical_plan, with_projections
from deltamerge.merge.plan.physical import PhysicalPlan
from deltamerge.merge.plan.program import compile_clauses
from deltamerge.merge.plan.prune import FileFacts, prune, prune_by_bounds, prune_by_source
from deltamerge.merge.resolve.one_time import at_time, shares_time, with_known_functions, with_own_time
from deltamerge.merge.resolve.queries_read import queries_read
from deltamerge.merge.resolve.resolve import resolve
from deltamerge.merge.resolve.skip_unchanged import without_unchanged
from deltamerge.merge.settings import (
    SETTINGS,
    budgets_of,
    check_names,
    forget_transaction,
    retries_of,
    rewrite_share_of,
    strategy_of,
    with_transaction,
)
from deltamerge.merge.statement.clauses import MergeSpec, TxnId
from deltamerge.merge.tries import Tries, first_tries
from deltamerge.progress.operation import begin
from deltamerge.spark.read.unread import all_read, frame_read
from deltamerge.spark.session.delta_check import check_delta
from deltamerge.spark.session.file_sizes import check_sizes
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.running import shows_progress
from deltamerge.spark.session.settings import known_settings, own_settings, pads_chars
from deltamerge.spark.source.evaluate import evaluate
from deltamerge.spark.source.facts import Evaluation, Source
from deltamerge.spark.source.inspect import InspectedSource, Inspection, inspect_source
from deltamerge.spark.stages.target import data_store

log = logging.getLogger("deltamerge.merge")

Done = TypeVar("Done")


@dataclass(frozen=True)
class Timing:
    """Wall times of a merge's steps, in ms; `started` is in seconds of the monotonic clock."""

    started: float
    source_ms: int
    scan_ms: int
    rewrite_ms: int

    @property
    def elapsed_ms(self) -> int:
        """Time since the start, in ms."""
        return int((time.perf_counter() - self.started) * 1000)


def merge(
    spark: Session,
    table: DeltaLog,
    spec: MergeSpec,
    finish: Callable[[MergeOutcome, Timing], Done],
    source: Source | None = None,
    sample: int | None = None,
) -> Done | None:
    """Merge into the newest version, and `finish`; None when the same transaction id was merged before.

    A `source` is evaluated already. With a `sample` nothing is written: rows are counted, and so many of each clause shown. When
    another transaction conflicts the line runs again on the newest version, as often as the specification or the session
    says; so it does when rows of the materialized source are lost, or rows were moved to other files meanwhile. Where it has
    collided several times in a row, the process's other threads wait for it. Raises DeltaMergeError; the table is then as it was.
    """
    with known_settings(spark, SETTINGS), ExitStack() as turn:
        check_names(own_settings())
        check_delta(spark, spec.statement)
        check_sizes(spark)
        shows_progress(spark)
        started, spec = time.perf_counter(), with_transaction(spark, spec)
        budgets = budgets_of(spark)
        spec = spec if source is not None else _with_reading(spec, table)
        given, rereads, tries = source, None, first_tries(retries_of(spark, spec), budgets)
        logical: LogicalPlan | None = None
        while True:
            snapshot = _newest(table, tries.followed)
            if _was_merged(spec, snapshot):
                done = None
                break
            check_unread(snapshot, spec.source_read)
            begin("resolving names and types")
            try:
                understood = _with_queries_read(spark, planned(spark, snapshot, spec, rereads))
                if source is None or spec.source_at is not None:
                    prospect = prospect_of(understood, budgets, tries.projects)
                    logical, readings = prospect.logical, prospect.plan.readings
                    source, files = _evaluated(prospect, budgets)
                else:
                    logical = _as_before(understood, logical)
                    files, readings = prune_by_source(logical, prune(logical), source, budgets), ()
                logical = _at_time(spark, logical, source.time)
                ready = time.perf_counter()
                plan = replace(choose(logical, Facts(source.facts, files), budgets), readings=readings)
                _log_plan(snapshot, files, plan)
                work = work_on(spark, logical, source, files, budgets, sample)
                ran = run_attempts(work, plan)
                if ran.changed is None:
                    source, rereads = given, ran.attempt.reason
                    continue
                done = finish(outcome_of(work, ran), _timing(started, ready, ran.changed.scan_ms))
                break
            except DeltaMergeError as error:
                before = tries
                tries = tries.after(error, logical is not None and bool(logical.program.projections))
                source = given if _is_lost(error, source) or tries.projects != before.projects else source
                _wait(turn, table, tries, error)
        if sample is None:
            forget_transaction(spark)
        return done


def _wait(turn: ExitStack, table: DeltaLog, tries: Tries, error: DeltaMergeError) -> None:
    """Wait before running again; after conflicts in a row take the table's turn, so that other threads wait and this one wins."""
    log.info("%s: running again: %s", table.store.url, error.detail)
    begin(f"running again after {error.condition}")
    if tries.collisions == tries.budgets.collisions:
        turn.enter_context(in_turn(table.store.url))
    else:
        time.sleep(tries.pause)


def _newest(table: DeltaLog, followed: int | None) -> Snapshot:
    """The newest version, but none after the one that is `followed`."""
    snapshot = table.snapshot()
    return snapshot if followed is None or snapshot.version <= followed else table.snapshot(followed)


def _is_lost(error: DeltaMergeError, source: Source | None) -> bool:
    """Whether the source has to be evaluated again after an error: its rows are gone, or nobody keeps them."""
    return isinstance(error, SourceLostError) or (source is not None and source.facts.evaluation is Evaluation.DEFERRED)


def planned(spark: Session, snapshot: Snapshot, spec: MergeSpec, rereads: str | None = None) -> LogicalPlan:
    """A merge into a snapshot, understood; no job runs. `rereads` says why its source can't be read while it is merged, if so.

    Raises AnalysisError, InvalidArgumentError, UnsupportedTableError.
    """
    resolved = resolve(spark, spec, snapshot)
    resolved = without_unchanged(resolved, pads_chars(spark, resolved.schema)) if spec.skips_unchanged else resolved
    resolved = with_own_time(spark, with_known_functions(spark, resolved))
    wishes = Wishes(strategy_of(spark), rewrite_share_of(spark, snapshot, spec.statement), retries_of(spark, spec) > 0)
    logical = logical_plan(resolved, wishes)
    return replace(logical, rereads=rereads or logical.rereads)


@dataclass(frozen=True)
class Prospect:
    """What is known of a merge before its source is evaluated, and the plan that is chosen by it.

    `logical` may have columns that Spark computes of the source. `files` are those that the statement's own predicates leave,
    `by_bounds` those that the footers of the source's files leave, too.
    """

    logical: LogicalPlan
    source: InspectedSource
    files: FileFacts
    by_bounds: FileFacts
    plan: PhysicalPlan


def prospect_of(logical: LogicalPlan, budgets: Budgets, projects: bool = True) -> Prospect:
    """What is known of a merge without a job. It `projects` columns that Spark computes where only they let rows be sent."""
    files, rows = prune(logical), chosen_rows(logical)
    found = _prospect(logical, files, rows, budgets)
    is_small = found.plan.collects and logical.strategy is Strategy.AUTO
    if not projects or not logical.program.is_left_to_spark or found.plan.exchanges or is_small:
        return found
    projected = with_projections(logical)
    if projected is None or not may_be_exchanged(projected, budgets):
        return found
    other = _prospect(projected, files, rows, budgets)
    return other if other.plan.exchanges else found


def _prospect(logical: LogicalPlan, files: FileFacts, rows: Frame, budgets: Budgets) -> Prospect:
    resolved = logical.resolved
    wanted = Inspection(
        logical.source_columns,
        data_store(resolved.snapshot.store),
        logical.bounded,
        logical.rereads is None,
        may_be_exchanged(logical, budgets),
        large_source(files, budgets),
        shares_time(rows.sparkSession, resolved, rows),
        resolved.scope.source_alias,
        {projection.name: projection.computed for projection in logical.program.projections},
    )
    source = inspect_source(rows, wanted, budgets)
    bounds = source.facts.bounds
    by_bounds = files if bounds is None else prune_by_bounds(logical, files, bounds)
    return Prospect(logical, source, files, by_bounds, choose(logical, Facts(source.facts, by_bounds), budgets))


def _evaluated(prospect: Prospect, budgets: Budgets) -> tuple[Source, FileFacts]:
    """The source, evaluated once as the plan says, and the files that it leaves."""
    begin("reading the source")
    logical = prospect.logical
    source = evaluate(prospect.source, prospect.plan.readings, logical.bounded, budgets)
    if source.facts.is_read_unevaluated:
        return source, prospect.by_bounds
    return source, prune_by_source(logical, prospect.files, source, budgets)


def _as_before(logical: LogicalPlan, before: LogicalPlan | None) -> LogicalPlan:
    """A merge that runs again by the source that was evaluated for it `before`."""
    return logical if before is None or not before.program.projections else with_projections(logical) or logical


def _at_time(spark: Session, logical: LogicalPlan, micros: int | None) -> LogicalPlan:
    """The merge with its expressions at the time at which the source was evaluated; None leaves them as they are."""
    if micros is None:
        return logical
    resolved = at_time(spark, logical.resolved, micros)
    return replace(logical, resolved=resolved, program=compile_clauses(resolved))


def _with_reading(spec: MergeSpec, table: DeltaLog) -> MergeSpec:
    """The specification with what its source has read of the target: with these rows it can't run again."""
    read = all_read((spec.source_read, frame_read(spec.source, table.store)))
    return spec if read is None else replace(spec, source_read=read, retries=0)


def _with_queries_read(spark: Session, logical: LogicalPlan) -> LogicalPlan:
    """The merge with what queries within its values have read of the target.

    Raises a ConcurrentModificationError where that has changed since.
    """
    resolved, read = logical.resolved, queries_read(spark, logical.resolved)
    if read is None:
        return logical
    check_unread(resolved.snapshot, read)
    spec = replace(resolved.spec, source_read=all_read((resolved.spec.source_read, read)))
    return replace(logical, resolved=replace(resolved, spec=spec))


def _log_plan(snapshot: Snapshot, files: FileFacts, plan: PhysicalPlan) -> None:
    funnel = (f"{step.files} files {step.name}" for step in files.funnel)
    log.info("%s: %s", snapshot.store.url, "; ".join((*funnel, *plan.lines())))


def _timing(started: float, ready: float, scan_ms: int) -> Timing:
    """The steps up to now of a merge whose source was `ready`; both in seconds."""
    executed_ms = int((time.perf_counter() - ready) * 1000)
    return Timing(started, int((ready - started) * 1000), scan_ms, executed_ms - scan_ms)


def _was_merged(spec: MergeSpec, snapshot: Snapshot) -> bool:
    return spec.txn_id is not None and is_recorded(spec.txn_id, snapshot)


def is_recorded(given: TxnId, snapshot: Snapshot) -> bool:
    """Whether a table has a commit of this transaction, or of a newer one of the same application."""
    if given.application not in snapshot.txns:
        return False
    known = snapshot.txns[given.application].version
    if known >= given.version:
        log.info(
            "version %d of transaction %s is in %s already (%d)", given.version, given.application, snapshot.store.url, known
        )
    return known >= given.version
