"""How much a task may hold of what comes to it, and what is worked on at once: chunks of what comes, pieces of what is made."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.budgets import Budgets
from deltamerge.worker.join.pairs import Indices
from deltamerge.worker.scan.row_errors import Refused

TOO_LARGE = "DELTAMERGE_TASK_TOO_LARGE"


class Held:
    """The bytes of tables that a task holds. Raises Refused (`TOO_LARGE`) above `most`: then Spark joins, which spills."""

    def __init__(self, most: int) -> None:
        self._left = self._most = most

    def add(self, rows: pa.Table) -> None:
        """Count a table that is held from now on."""
        self.expect(rows.nbytes)
        self._left -= rows.nbytes

    def expect(self, size: int) -> None:
        """Refuse so many bytes before they are made."""
        if size > self._left:
            raise Refused(TOO_LARGE, f"A task would hold more than {self._most >> 20} MB of rows that come to it.")


class Chunk:
    """Rows that come in parts, gathered until they are worth to be worked on at once."""

    def __init__(self, budgets: Budgets) -> None:
        self._budgets = budgets
        self._parts: list[pa.Table] = []
        self._rows = self._bytes = 0

    def add(self, rows: pa.Table) -> bool:
        """Take rows; whether they are enough now."""
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
    number = np.cumsum(_row_bytes(source)[chosen]) // size
    cuts = np.flatnonzero(np.diff(number)) + 1
    for start, end in pairwise([0, *cuts.tolist(), len(chosen)]):
        yield slice(start, end)


def _row_bytes(rows: pa.Table) -> npt.NDArray[np.int64]:
    """About the bytes of each row; nested values count as their column's average."""
    total = np.ones(rows.num_rows, np.int64)
    for column in rows.columns:
        total += _value_bytes(column, rows.num_rows)
    return total


def _value_bytes(column: Any, rows: int) -> Any:
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return pc.fill_null(pc.binary_length(column), 0).to_numpy().astype(np.int64)
    return max(1, column.nbytes // max(1, rows))
