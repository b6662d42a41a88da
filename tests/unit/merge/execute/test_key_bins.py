"""Which files' keys one task of a hash exchange reads."""

from __future__ import annotations

import pytest

from deltamerge.budgets import Budgets
from deltamerge.merge.execute.exchange import key_bins
from deltamerge.worker.scan.scan import FileTask

MB = 1 << 20


@pytest.mark.parametrize(
    ("files", "size", "is_remote", "tasks"),
    [
        (3, MB, False, 3),
        (16, 24 * MB, False, 4),
        (16, 24 * MB, True, 4),
        (64, 24 * MB, False, 13),
        (1_000, 100_000, False, 4),
        (300, MB, False, 4),
        (300, MB, True, 8),  # each file is waited for
        (300, None, True, 5),
    ],
)
def test_what_it_costs_to_open_files_counts(files: int, size: int | None, is_remote: bool, tasks: int) -> None:
    given = [FileTask(number, "", {}, size=size) for number in range(files)]
    bins = key_bins(given, is_remote, Budgets())
    assert len(bins) == tasks
    assert sorted(task.file for own in bins for task in own) == list(range(files))
    assert max(map(len, bins)) - min(map(len, bins)) <= 1
