"""Modified rows of one file as they arrive, each position once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from deltamerge.protocol.values.distinct import distinct
from deltamerge.worker.scan.scan import ROW


class DistinctHits:
    """Drops repeated positions, and counts them as collisions unless they are to be folded."""

    def __init__(self, folds: bool) -> None:
        self._folds = folds
        self._last_row = -1
        self._last_collision = -1
        self.collisions = 0

    def take(self, hits: pa.Table) -> pa.Table:
        """The rows whose positions were not seen before; positions are never below those before."""
        rows = hits.column(ROW).to_numpy()
        if not len(rows):
            return hits
        first = np.empty(len(rows), np.bool_)
        first[0] = rows[0] != self._last_row
        first[1:] = rows[1:] != rows[:-1]
        self._last_row = int(rows[-1])
        repeated = distinct(rows[~first])
        if not len(repeated):
            return hits
        if not self._folds:
            self.collisions += int((repeated > self._last_collision).sum())
            self._last_collision = int(repeated[-1])
        return hits.filter(pa.array(first))
