"""Changed rows as they come to a file: each position once, those that come twice counted."""

from __future__ import annotations

import pyarrow as pa
import pytest

from deltamerge.worker.scan.scan import ROW
from deltamerge.worker.write.changes import DistinctRows


@pytest.mark.parametrize(("folds", "collisions"), [(False, 2), (True, 0)])
def test_rows_that_come_twice_are_dropped_and_counted_once_within_a_batch_and_across(folds: bool, collisions: int) -> None:
    rows = DistinctRows(folds)
    taken = [rows.take(pa.table({ROW: pa.array(batch, pa.int64())})) for batch in ([0, 1, 1, 1, 2], [], [2, 2], [2, 3])]
    assert [found.column(ROW).to_pylist() for found in taken] == [[0, 1, 2], [], [], [3]]
    assert rows.collisions == collisions
