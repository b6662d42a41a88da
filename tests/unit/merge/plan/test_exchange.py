"""How rows would be exchanged: which tasks write which files, what a task has, and how many keys there can be."""

from __future__ import annotations

from typing import Any

import pytest

from deltamerge.budgets import Budgets
from deltamerge.merge.plan.exchange import Layouts
from deltamerge.merge.plan.logical import Wishes, logical_plan
from deltamerge.merge.plan.prune import prune
from tests.unit.merge.merges import delete, merge_of, snapshot_of, struct
from tests.unit.merge.plan.test_prune import add, spanning

KEYS = struct(k="long")


def layouts(*ranges: tuple[int, int] | None, **limits: Any) -> Layouts:
    """The layouts of files of ten rows, with these ranges of keys; without statistics for None."""
    files = [add(str(n), 100, None if given is None else spanning(*given)) for n, given in enumerate(ranges)]
    logical = logical_plan(merge_of(snapshot_of(KEYS, files), KEYS, "t.k = s.k", delete()), Wishes())
    return Layouts(logical, prune(logical), Budgets(**limits))


@pytest.mark.parametrize(
    ("task_bytes", "files", "most_rows"),
    [(1, ((0,), (1,), (2,), (3,)), 10), (200, ((0, 1), (2, 3)), 20), (1 << 30, ((0, 1, 2, 3),), 40)],
)
def test_neighbours_in_the_order_of_their_keys_are_one_tasks(
    task_bytes: int, files: tuple[tuple[int, ...], ...], most_rows: int
) -> None:
    found = layouts((0, 9), (10, 19), (20, 29), (30, 39), range_task_bytes=task_bytes).best
    assert (found.ranges.files, found.most_rows, found.overlap, found.span) == (files, most_rows, 1.0, 40)
    assert found.ranges.low.tolist() == [10 * own[0] for own in files]
    assert found.ranges.high.tolist() == [10 * own[-1] + 9 for own in files]


def test_overlap_is_averaged_over_the_files() -> None:
    assert layouts((0, 9), (0, 9), (20, 29), (20, 29), range_task_bytes=1).best.overlap == 2
    assert layouts((0, 9), (0, 99), (20, 29), (30, 39), range_task_bytes=1).best.overlap > 1.5


def test_a_file_without_statistics_may_have_every_key() -> None:
    found = layouts((0, 9), None, (20, 29), range_task_bytes=1).best
    assert (found.overlap, found.span) == (2.0, 0)


def test_a_file_without_keys_belongs_to_the_first_task() -> None:
    empty = {"numRecords": 10, "nullCount": {"k": 10}}
    files = [add("0", 100, spanning(0, 9)), add("1", 100, empty), add("2", 100, spanning(10, 19))]
    logical = logical_plan(merge_of(snapshot_of(KEYS, files), KEYS, "t.k = s.k", delete()), Wishes())
    found = Layouts(logical, prune(logical), Budgets(range_task_bytes=1)).best
    assert found.ranges.files == ((0, 1), (2,))
    assert (found.overlap, found.span) == (1.0, 20)
