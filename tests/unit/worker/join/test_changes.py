"""Changed rows of a file come in the order of their positions, whichever chunk of the source they are of."""

from __future__ import annotations

import pyarrow as pa
import pytest

from deltamerge.worker.join.changes import by_position
from deltamerge.worker.scan.scan import ROW


def part(*positions: int) -> pa.Table:
    return pa.table(
        {ROW: pa.array(positions, pa.int64()), "v": pa.array([f"row {position}" for position in positions], pa.string())}
    )


@pytest.mark.parametrize(
    "parts",
    [
        [part(3, 5), part(1, 5)],
        [part(5, 3)],
        [part(), part(2), part(1)],
        [part(1, 3), part(3, 4)],
        [part()],
    ],
)
def test_rows_come_in_the_order_of_their_positions(parts: list[pa.Table]) -> None:
    found = by_position(parts)
    assert found.column(ROW).to_pylist() == sorted(row for one in parts for row in one.column(ROW).to_pylist())
    assert found.column("v").to_pylist() == [f"row {row}" for row in found.column(ROW).to_pylist()]


def test_rows_in_order_are_not_copied() -> None:
    first, second = part(1, 3), part(3, 4)
    found = by_position([first, second])
    assert [chunk.buffers()[1].address for chunk in found.column(ROW).chunks] == [
        one.column(ROW).chunk(0).buffers()[1].address for one in (first, second)
    ]


def test_many_tables_become_one() -> None:
    assert by_position([part(number) for number in range(100)]).column(ROW).num_chunks == 1
