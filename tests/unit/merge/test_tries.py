"""How often a merge runs again, and how long it waits before that."""

from __future__ import annotations

import pytest

from deltamerge.budgets import DEFAULTS
from deltamerge.errors import ConcurrentModificationError, ExecutionError, MultipleMatchError, SourceLostError
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


def moved(version: int | None) -> ConcurrentModificationError:
    error = ConcurrentModificationError("DELTA_CONCURRENT_DELETE_READ", "Files were removed.")
    error.followed = version
    return error


def test_moved_rows_need_no_leave_and_name_the_version_to_read() -> None:
    tries = first_tries(1, DEFAULTS)
    for number in range(DEFAULTS.moved_rows):
        tries = tries.after(moved(number))
        assert (tries.conflicts, tries.followed) == (1, number)
        assert 0 < tries.pause < 5
    assert (tries.after(moved(99)).conflicts, tries.after(moved(99)).followed) == (0, None)
    with pytest.raises(ConcurrentModificationError):
        tries.after(CONFLICT).after(moved(99))


def test_a_conflict_and_lost_rows_let_the_newest_version_be_read() -> None:
    tries = first_tries(1, DEFAULTS).after(moved(7))
    assert tries.after(CONFLICT).followed is None
    assert tries.after(LOST).followed is None


def test_ends_with_the_error_when_nothing_is_left() -> None:
    with pytest.raises(ConcurrentModificationError):
        after_conflicts(2).after(CONFLICT)
    with pytest.raises(ExecutionError, match="failed repeatedly, 3 times: Rows are lost"):
        first_tries(0, DEFAULTS).after(LOST).after(LOST).after(LOST)


def test_runs_again_without_computed_columns_where_these_may_have_failed() -> None:
    error, tries = ExecutionError("DIVIDE_BY_ZERO", "It is 0."), first_tries(0, DEFAULTS)
    again = tries.after(error, projected=True)
    assert (tries.projects, again.projects, again.pause) == (True, False, 0)
    for other in (MultipleMatchError("DELTA_ANY", "It is so."), CONFLICT):
        with pytest.raises(type(other)):
            tries.after(other, projected=True)
    assert first_tries(1, DEFAULTS).after(CONFLICT, projected=True).projects
    assert tries.after(LOST, projected=True).projects


def test_does_not_run_again_where_that_can_not_help() -> None:
    error = ExecutionError("DELTA_ANY", "It is so.")
    with pytest.raises(ExecutionError) as raised:
        first_tries(5, DEFAULTS).after(error)
    assert raised.value is error
