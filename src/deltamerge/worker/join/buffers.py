"""What a task buffers of the rows that come to it, up to a limit; what is worked on at once, and made at once."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa

from deltamerge.budgets import Budgets
from deltamerge.protocol.values.widths import row_bytes
from deltamerge.worker.join.matching import Indices
from deltamerge.worker.scan.outcomes import AttemptEnded, TooLarge


class Buffer:
    """Counts the bytes of tables that a task buffers. Raises AttemptEnded (TooLarge) above `most`: Spark's join spills."""

    def __init__(self, most: int) -> None:
        self._left = self._most = most

    def add(self, rows: pa.Table) -> None:
        """Count a table that is buffered from now on."""
        self.expect(rows.nbytes)
        self._left -= rows.nbytes

    def expect(self, size: int) -> None:
        """Refuse so many bytes before they are made."""
        if size > self._left:
            raise AttemptEnded(TooLarge(f"a task would buffer more than {self._most >> 20} MB of rows"))


class Chunk:
    """Rows that come in parts, gathered until they are worth to be matched at once."""

    def __init__(self, budgets: Budgets) -> None:
        self._budgets = budgets
        self._parts: list[pa.Table] = []
        self._rows = self._bytes = 0

    def add(self, rows: pa.Table) -> bool:
        """Take rows; whether they are enough."""
        self._parts.append(rows)
        self._rows, self._bytes = self._rows + rows.num_rows, self._bytes + rows.nbytes
        return self._bytes >= self._budgets.chunk_bytes or self._rows >= self._budgets.chunk_rows

    def take(self) -> pa.Table | None:
        """What was gathered, which is forgotten; None if nothing was."""
        parts, self._parts, self._rows, self._bytes = self._parts, [], 0, 0
        return pa.concat_tables(parts) if parts else None


def pieces(source: pa.Table, chosen: Indices, size: int) -> Iterator[slice]:
    """Slices of the source rows `chosen`, which may repeat, each of about `size` bytes: one long row may stand for many."""
    if not len(chosen):
        return
    number = np.cumsum(row_bytes(source)[chosen] + 1) // size
    cuts = np.flatnonzero(np.diff(number)) + 1
    for start, end in pairwise([0, *cuts.tolist(), len(chosen)]):
        yield slice(start, end)
