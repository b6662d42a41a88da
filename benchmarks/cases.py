"""The benchmark's cases: what is merged, as data."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from benchmarks.data import batch


@dataclass(frozen=True)
class BenchCase:
    """A merge of `matched` rows spread over the first `share` of the table from `start`, plus `new` rows.

    Counts are fractions of the table's rows; `kind` is upsert, delete or insert.
    """

    name: str
    kind: str
    start: float
    share: float
    matched: float
    new: float

    def source(self, rows: int) -> pa.Table:
        """The change batch for a table of `rows` rows."""
        first, last = int(rows * self.start), int(rows * (self.start + self.share))
        return batch(rows, first, last, int(rows * self.matched), int(rows * self.new), seed=len(self.name))


BASIC = (
    BenchCase("upsert, 1 file of 16, 10% matched + 10% new", "upsert", 4 / 16, 1 / 16, 0.1 / 16, 0.1 / 16),
    BenchCase("upsert, all files, 1% matched", "upsert", 0, 1, 0.01, 0),
    BenchCase("upsert, half the files, 1% matched", "upsert", 0, 0.5, 0.005, 0),
    BenchCase("delete 5% of one file", "delete", 4 / 16, 1 / 16, 0.05 / 16, 0),
    BenchCase("insert-only, 3% of the rows", "insert", 0, 1, 0, 1 / 32),
)
