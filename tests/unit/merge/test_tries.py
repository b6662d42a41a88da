"""How often a merge runs again, and how long it waits before that."""

from __future__ import annotations

import pytest

from deltamerge.budgets import DEFAULTS
from deltamerge.errors import ConcurrentModificationError, ExecutionError, SourceLostError
from deltamerge.merge.tries import Tries, first_tries

CONFLICT = ConcurrentModificationError("DELTA_CONCURRENT_APPEND", "Files were added.")
LOST = SourceLostError("CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND", "Rows are lost.")


def after_conflicts(count: int) -> Tries:
    tries = first_tries(count, DEFAULTS)
    for _ in range(count):
        tries = tries.after(CONFLICT)
    return tries


def test_the_first_run_waits_for_nothing() -> None:
    assert first_tries(3, DEFAULTS).pause == 0


@pytest.mark.parametrize(("conflicts", "limit"), [(1, 0.1), (2, 0.2), (3, 0.4), (6, 3.2), (7, 5.0), (200, 5.0)])
def test_waits_up_to_a_limit_that_doubles(conflicts: int, limit: float) -> None:
    pauses = [after_conflicts(conflicts).pause for _ in range(60)]
    assert 0.5 * limit < max(pauses) <= limit
    assert min(pauses) < 0.5 * limit


def test_two_writers_wait_for_different_times() -> None:
    assert len({after_conflicts(1).pause for _ in range(10)}) == 10


def test_lost_rows_are_asked_for_at_once() -> None:
    tries = first_tries(1, DEFAULTS).after(CONFLICT).after(LOST)
    assert (tries.conflicts, tries.losses, tries.pause) == (0, DEFAULTS.lost_sources - 1, 0)


def test_ends_with_the_error_when_nothing_is_left() -> None:
    with pytest.raises(ConcurrentModificationError):
        after_conflicts(2).after(CONFLICT)
    with pytest.raises(ExecutionError, match="failed repeatedly, 3 times: Rows are lost"):
        first_tries(0, DEFAULTS).after(LOST).after(LOST).after(LOST)


def test_does_not_run_again_where_that_can_not_help() -> None:
    error = ExecutionError("DELTA_ANY", "It is so.")
    with pytest.raises(ExecutionError) as raised:
        first_tries(5, DEFAULTS).after(error)
    assert raised.value is error
