"""Changed rows as they come to a file: file by file, each position once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from deltamerge.protocol.values.distinct import distinct
from deltamerge.worker.scan.scan import FILE, ROW


def by_file(table: pa.Table) -> Iterator[tuple[int | None, pa.Table]]:
    """The changed rows of each file in turn; None for rows without a file, which are inserted."""
    if not table.num_rows:
        return
    files = table.column(FILE).combine_chunks().fill_null(-1).to_numpy(zero_copy_only=False)
    ends = [*(np.flatnonzero(files[1:] != files[:-1]) + 1), len(files)]
    start = 0
    for end in ends:
        yield (int(files[start]) if files[start] >= 0 else None), table.slice(start, end - start)
        start = int(end)


class DistinctRows:
    """The changed rows of one file: drops repeated positions, and counts them as collisions unless duplicates are ignored."""

    def __init__(self, ignores_duplicates: bool) -> None:
        self._ignores_duplicates = ignores_duplicates
        self._last_row = -1
        self._last_collision = -1
        self.collisions = 0

    def take(self, changed: pa.Table) -> pa.Table:
        """The rows whose positions were not seen before; positions are never below those before."""
        rows = changed.column(ROW).to_numpy()
        if not len(rows):
            return changed
        first = np.empty(len(rows), np.bool_)
        first[0] = rows[0] != self._last_row
        first[1:] = rows[1:] != rows[:-1]
        self._last_row = int(rows[-1])
        repeated = distinct(rows[~first])
        if not len(repeated):
            return changed
        if not self._ignores_duplicates:
            self.collisions += int((repeated > self._last_collision).sum())
            self._last_collision = int(repeated[-1])
        return changed.filter(pa.array(first))
