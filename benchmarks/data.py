"""The benchmark's rows: tables and change batches shaped like TPC-DS web_returns, keyed by order and item; the same every time.

Must not know what is merged, nor by what.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

Ids = npt.NDArray[np.int64]

KEYS = ("wr_order_number", "wr_item_sk")
QUANTITY, REASON, DATE, REGION = "wr_return_quantity", "wr_reason", "wr_returned_date", "wr_region"
REGIONS = 16
GROUP_ROWS = 1 << 20
_LINES = 4
_ITEMS = 4_500
_ROWS_A_DAY = 1_000
_FIRST_DAY, _DAYS = 8_000, 12_000
_FEWEST_COLUMNS = len(KEYS) + 3
_PICKED_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Shape:
    """A table. `layout` is clustered (by key), scattered (any key in any file), partitioned (by region), or log.

    Of a log table only one file of a thousand rows is real; the others are in the log alone. Row groups have at most
    `group_rows` rows.
    """

    rows: int
    files: int = 16
    columns: int = 24
    layout: str = "clustered"
    group_rows: int = GROUP_ROWS

    @property
    def name(self) -> str:
        """What tells the table from others, fit for a folder."""
        groups = "" if self.group_rows == GROUP_ROWS else f"-{self.group_rows}"
        return f"web_returns-{self.rows}-{self.files}-{self.columns}-{self.layout}{groups}"

    def files_of_ids(self) -> list[Ids]:
        """The numbers of the rows in each file."""
        order = np.arange(self.rows)
        if self.layout == "scattered":
            order = np.random.default_rng(1).permutation(self.rows)
        return np.array_split(order, self.files)

    def times(self, number: int) -> tuple[int, date]:
        """The order and the date of the row with this number."""
        return number // _LINES + 1, date(1970, 1, 1) + timedelta(_FIRST_DAY + number // _ROWS_A_DAY % _DAYS)

    def table(self, ids: Ids) -> pa.Table:
        """The rows with the given numbers, all columns."""
        found = web_returns(ids, self.columns)
        if self.layout == "partitioned":
            found = found.append_column(REGION, pa.array((ids * REGIONS // self.rows).astype(np.int32)))
        return found


def web_returns(ids: Ids, columns: int = 24) -> pa.Table:
    """The rows with the given numbers: keys and dates by the number, in order of time; the rest random but repeatable."""
    rng = np.random.default_rng(int(ids[0]) + 7 if len(ids) else 7)
    count = len(ids)
    others = columns - _FEWEST_COLUMNS
    found = {
        "wr_order_number": pa.array(ids // _LINES + 1),
        "wr_item_sk": pa.array(ids % _LINES * _ITEMS + ids * 2_654_435_761 % _ITEMS),
    }
    for n in range(others - others // 2):
        found[f"wr_sk_{n}"] = pa.array(rng.integers(0, 200_000, count), mask=rng.random(count) < 0.02)
    for n in range(others // 2):
        found[f"wr_amt_{n}"] = pa.array(np.round(rng.random(count) * 1_000, 2))
    found[QUANTITY] = pa.array(rng.integers(0, 100, count).astype(np.int32))
    reasons = np.array([f"reason {n} in words" for n in range(60)], dtype=object)
    found[REASON] = pa.array(reasons[rng.integers(0, 60, count)])
    found[DATE] = pa.array((_FIRST_DAY + ids // _ROWS_A_DAY % _DAYS).astype(np.int32)).cast(pa.date32())
    return pa.table(found)


def write_batch(
    path: Path, shape: Shape, first: int, last: int, matched: int, new: int, changed: Callable[[pa.Table], pa.Table]
) -> None:
    """Write a change batch: `matched` random rows numbered within [first, last), and `new` rows with items that do not exist.

    What `changed` makes of them is written, in pieces, so that a batch may be as large as the table.
    """
    rng = np.random.default_rng(matched + new)
    hit = np.sort(rng.choice(np.arange(first, last), matched, replace=False))
    added = np.sort(rng.choice(np.arange(first, last), new, replace=False))
    path.parent.mkdir(parents=True, exist_ok=True)
    schema = changed(shape.table(np.arange(1))).schema
    with pq.ParquetWriter(path, schema) as writer:
        for ids, exist in ((hit, True), (added, False)):
            for start in range(0, len(ids), _PICKED_AT_ONCE):
                rows = shape.table(ids[start : start + _PICKED_AT_ONCE])
                writer.write_table(changed(rows if exist else _unknown(rows)))


def _unknown(rows: pa.Table) -> pa.Table:
    """The rows with items that their orders do not have, among those that others have: no statistics tell them apart."""
    items = rows[KEYS[1]].to_numpy()
    moved = items // _ITEMS * _ITEMS + (items + _ITEMS // 2) % _ITEMS
    return rows.set_column(1, KEYS[1], pa.array(moved))
