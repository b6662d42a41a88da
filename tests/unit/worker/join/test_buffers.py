"""Pieces of chosen rows cover them all, in order, and none is of much more than 16 MB, however often a long row is chosen."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from deltamerge.worker.join.buffers import Buffer, pieces
from deltamerge.worker.scan.outcomes import AttemptEnded


def test_a_long_row_that_is_chosen_often_makes_many_pieces() -> None:
    rows = pa.table({"s": ["x" * (1 << 20), "y", None], "n": [1, 2, 3]})
    chosen = np.array([0] * 40 + [1, 2] * 1_000)
    found = list(pieces(rows, chosen, 16 << 20))
    assert np.concatenate([chosen[piece] for piece in found]).tolist() == chosen.tolist()
    assert max(int((chosen[piece] == 0).sum()) for piece in found) <= 17
    assert len(found) == 3
    assert list(pieces(rows, chosen[:0], 16 << 20)) == []


def test_bytes_are_refused_before_they_are_made() -> None:
    buffer = Buffer(100)
    buffer.add(pa.table({"a": pa.array([0] * 10, pa.int64())}))
    buffer.expect(20)
    with pytest.raises(AttemptEnded, match="more than 0 MB"):
        buffer.expect(21)
    buffer.expect(20)
