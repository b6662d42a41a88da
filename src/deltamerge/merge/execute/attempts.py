"""The attempts of a physical plan, one after the other, until one has changed rows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from deltamerge.merge.execute.broadcast import broadcast
from deltamerge.merge.execute.exchange import exchange
from deltamerge.merge.execute.remove_files import remove_files
from deltamerge.merge.execute.spark_join import spark_join
from deltamerge.merge.execute.work import Changed, Work
from deltamerge.merge.plan.physical import (
    Attempt,
    Broadcast,
    EvaluateSource,
    Exchange,
    PhysicalPlan,
    RemoveFiles,
    SparkJoin,
    following,
)
from deltamerge.worker.scan.outcomes import NotThisWay

log = logging.getLogger("deltamerge.merge")

_RUN: dict[type, Callable[[Work, Any], Changed | NotThisWay]] = {
    RemoveFiles: remove_files,
    Broadcast: broadcast,
    Exchange: exchange,
    SparkJoin: spark_join,
}


@dataclass(frozen=True)
class Ran:
    """How a plan ended: `changed` by an `attempt`, None where the source must be evaluated first; and the attempts before it,
    each with what it found.
    """

    plan: PhysicalPlan
    attempt: Attempt
    changed: Changed | None
    ended: tuple[tuple[Attempt, NotThisWay], ...] = ()

    def others(self) -> Iterator[str]:
        """Why the rows were not matched in another way, in words."""
        for strategy, reason in self.plan.rejected:
            yield f"no {strategy.text}: {reason}"
        for attempt, outcome in self.ended:
            yield f"no {attempt.text}: {outcome.reason}"


def run_attempts(work: Work, plan: PhysicalPlan) -> Ran:
    """Run the attempts of a plan until one has changed rows.

    Raises DeltaMergeError; nothing is committed, and what tasks are known to have written is deleted.
    """
    ended: tuple[tuple[Attempt, NotThisWay], ...] = ()
    attempt, *rest = plan.attempts
    while not isinstance(attempt, EvaluateSource):
        found = _RUN[type(attempt)](work, attempt)
        if isinstance(found, Changed):
            return Ran(plan, attempt, found, ended)
        log.info("%s: no %s: %s", work.logical.resolved.snapshot.store.url, attempt.text, found.reason)
        ended = (*ended, (attempt, found))
        attempt, *rest = following(rest, attempt, found)
    return Ran(plan, attempt, None, ended)
