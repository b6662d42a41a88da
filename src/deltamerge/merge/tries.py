"""How often a merge may run again, and how long it waits before that. Must not run anything."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from deltamerge.budgets import Budgets
from deltamerge.errors import ConcurrentModificationError, DeltaMergeError, ExecutionError, MultipleMatchError, SourceLostError


@dataclass(frozen=True)
class Tries:
    """How often the line may run again: after `conflicts`, after `losses` of rows of a materialized source, and after `moves` of
    rows that it looks for to other files, when it may read no later version than `followed`.

    A conflict needs the user's leave, as the source may have been made of rows that have changed since. Moved rows are the same.
    While it `projects`, Spark may compute columns of the source for all of its rows; it runs again without where that has failed.

    After a conflict it waits `pause` seconds: a random time, whose limit doubles with each conflict in a row. Writers that have
    collided once would else collide again at the same moment.
    """

    conflicts: int
    losses: int
    moves: int
    budgets: Budgets
    collisions: int = 0
    pause: float = 0.0
    followed: int | None = None
    projects: bool = True

    def after(self, error: DeltaMergeError, projected: bool = False) -> Tries:
        """What is left after an error; raises the error when it is nothing, or running again does not help. `projected` says that
        Spark has computed columns of the source.
        """
        if isinstance(error, SourceLostError):
            if self.losses > 1:
                return replace(self, losses=self.losses - 1, pause=0.0, followed=None)
            raise ExecutionError(
                "DELTA_MERGE_MATERIALIZE_SOURCE_FAILED_REPEATEDLY",
                f"Keeping the source of the MERGE statement materialized has failed repeatedly, "
                f"{self.budgets.lost_sources} times: {error.detail}",
                hint="Keep executors alive while the merge runs, or write the source to a table and merge that.",
            ) from error
        if projected and isinstance(error, ExecutionError) and not isinstance(error, MultipleMatchError):
            return replace(self, projects=False, pause=0.0, followed=None)
        collisions = self.collisions + 1
        waiting = replace(self, collisions=collisions, pause=self._pause(collisions), followed=None)
        if isinstance(error, ConcurrentModificationError) and error.followed is not None and self.moves:
            return replace(waiting, moves=self.moves - 1, followed=error.followed)
        if not error.runs_again or not self.conflicts:
            raise error
        return replace(waiting, conflicts=self.conflicts - 1)

    def _pause(self, collisions: int) -> float:
        limit = min(self.budgets.retry_wait_ms << min(collisions - 1, 30), self.budgets.longest_retry_wait_ms)
        return random.uniform(0, limit / 1000)


def first_tries(conflicts: int, budgets: Budgets) -> Tries:
    """The tries of a merge that has not run yet."""
    return Tries(conflicts, budgets.lost_sources, budgets.moved_rows, budgets)
