"""The whole line of a merge."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from deltamerge.errors import InvalidArgumentError
from deltamerge.log.table import DeltaLog
from deltamerge.merge.clauses import MergeSpec
from deltamerge.merge.commit import Timing, commit_merge
from deltamerge.merge.execute import MergeOutcome, execute
from deltamerge.merge.plan import REWRITE_SHARE, MergePlan, Strategy, plan_merge
from deltamerge.merge.prune import prune
from deltamerge.merge.report import MergeReport, report
from deltamerge.merge.resolve import resolve
from deltamerge.spark.frames import Session
from deltamerge.spark.session import engine_name, setting
from deltamerge.spark.source import Source, materialize

log = logging.getLogger("deltamerge.merge")


STRATEGY = "spark.deltamerge.strategy"
SHARE = "spark.deltamerge.rewriteShare"
Progress = Callable[[str], None]


def run_merge(spark: Session, table: DeltaLog, spec: MergeSpec, progress: Progress | None = None) -> MergeReport:
    """Merge, commit, report; `progress` is told each step. Raises DeltaMergeError; the table is then as it was."""
    tell = progress or log.debug
    outcome, timing = performed(spark, table, spec, tell)
    tell("committing")
    done = commit_merge(outcome, timing, engine_name(spark))
    if done.committed is not None:
        table.remember(done.committed.snapshot)
    return report(done)


def planned(spark: Session, table: DeltaLog, spec: MergeSpec) -> MergePlan:
    """How a merge into the newest version would run; no job runs. Raises AnalysisError, InvalidArgumentError."""
    return plan_merge(resolve(spark, spec, table.snapshot()), _strategy(spark), _rewrite_share(spark))


def performed(
    spark: Session, table: DeltaLog, spec: MergeSpec, tell: Progress, source: Source | None = None
) -> tuple[MergeOutcome, Timing]:
    """The line up to the commit; a `source` that is given needs no evaluation. Raises DeltaMergeError."""
    started = time.perf_counter()
    tell("resolving names and types")
    plan = planned(spark, table, spec)
    tell("reading the source")
    source = source or materialize(spec.source, plan.source_columns)
    ready = time.perf_counter()
    pruned = prune(plan, source)
    log.info("%s: %s", table.store.url, "; ".join(f"{s.files} files {s.name}" for s in pruned.funnel))
    tell(f"matching {pruned.funnel[-1].files} of {pruned.funnel[0].files} files and writing")
    outcome = execute(spark, pruned)
    return outcome, Timing(started, int((ready - started) * 1000), int((time.perf_counter() - ready) * 1000))


def _strategy(spark: Session) -> Strategy:
    value = setting(spark, STRATEGY, Strategy.AUTO.value)
    try:
        return Strategy(value)
    except ValueError as error:
        known = ", ".join(strategy.value for strategy in Strategy)
        message = f"The setting {STRATEGY} is {value!r}."
        raise InvalidArgumentError("DELTAMERGE_INVALID_STRATEGY", message, hint=f"One of {known}.") from error


def _rewrite_share(spark: Session) -> float:
    value = setting(spark, SHARE, str(REWRITE_SHARE))
    try:
        found = float(value)
    except ValueError:
        found = -1.0
    if 0 <= found <= 1:
        return found
    message = f"The setting {SHARE} is {value!r}."
    raise InvalidArgumentError("DELTAMERGE_INVALID_SHARE", message, hint="A number from 0 (always rewrite) to 1 (never).")
