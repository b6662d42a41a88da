"""The benchmark's merges, as data: what is merged into which table, by which clauses. Must not know any engine."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.data import DATE, KEYS, QUANTITY, REASON, REGION, Shape, write_batch
from benchmarks.tables import LIVE_FILE, LOG

ON_KEYS = " AND ".join(f"t.{key} = s.{key}" for key in KEYS)
OPERATION, FROM, TO = "operation", "date_from", "date_to"


@dataclass(frozen=True)
class Clause:
    """A WHEN clause. `kind` is update, delete, insert, or delete_by_source; without `values` all columns are set.

    `{low}` and `{high}` in a condition stand for the first and the last order of the batch's range.
    """

    kind: str
    condition: str | None = None
    values: Mapping[str, str] = field(default_factory=dict)


UPDATE, DELETE, INSERT = Clause("update"), Clause("delete"), Clause("insert")


def same(batch: pa.Table) -> pa.Table:
    """The batch as it is."""
    return batch


def with_operation(batch: pa.Table) -> pa.Table:
    """The batch as a change feed sends it: a third of the rows are deletes."""
    letters = np.where(batch[KEYS[0]].to_numpy() % 3 == 0, "D", "U")
    return batch.append_column(OPERATION, pa.array(letters, pa.string()))


def with_dates(batch: pa.Table) -> pa.Table:
    """The keys, a quantity and a range of dates, which for a third of the rows misses the row's date by a day."""
    days = batch[DATE].cast(pa.int32()).to_numpy()
    start = np.where(batch[KEYS[0]].to_numpy() % 3 == 0, days + 1, days - 3)
    dates = {name: pa.array(values.astype(np.int32)).cast(pa.date32()) for name, values in ((FROM, start), (TO, days + 3))}
    return pa.table({**{name: batch[name] for name in (*KEYS, QUANTITY)}, **dates})


def two_columns(batch: pa.Table) -> pa.Table:
    """The keys and two values."""
    return batch.select([*KEYS, QUANTITY, REASON])


@dataclass(frozen=True)
class BenchCase:
    """A merge. The batch has `matched` and `new` rows, as shares of the rows in the table's `share` that begins at `start`.

    `changed` makes the batch of whole rows what the merge reads; `added` names the columns that it has above the table's.
    `layouts` names the tables it makes sense for, `files` their number when it matters; `again` says that what is timed is
    the same merge a second time into the same table.
    """

    name: str
    clauses: tuple[Clause, ...]
    share: float
    matched: float
    new: float
    start: float = 0.0
    condition: str = ON_KEYS
    changed: Callable[[pa.Table], pa.Table] = same
    added: tuple[str, ...] = ()
    layouts: tuple[str, ...] = ("clustered", "scattered")
    files: int = 16
    feed: bool = False
    again: bool = False

    @property
    def slug(self) -> str:
        """The name, fit for a file."""
        return re.sub("[^a-z0-9]+", "-", self.name.lower()).strip("-")

    def bounds(self, shape: Shape) -> tuple[int, int]:
        """The numbers of the first row of the batch's range, and of the row after the last."""
        return int(shape.rows * self.start), int(shape.rows * (self.start + self.share))

    def filled(self, text: str, shape: Shape) -> str:
        """A condition with the orders of the batch's range put in."""
        first, last = self.bounds(shape)
        return text.format(low=shape.times(first)[0], high=shape.times(last - 1)[0])

    def batch(self, folder: Path, shape: Shape) -> Path:
        """The batch for a table as a Parquet file, which every engine reads as its source; made when it is not there."""
        path = folder / f"{shape.name}-{self.slug}.parquet"
        if not path.exists():
            first, last = self.bounds(shape)
            partial = path.with_suffix(".partial")
            counts = [round((last - first) * part) for part in (self.matched, self.new)]
            write_batch(partial, shape, first, last, counts[0], counts[1], self.changed)
            partial.rename(path)
        return path


def _percent(share: float) -> str:
    return f"{share * 100:g}%"


def upsert(share: float, matched: float, new: float) -> BenchCase:
    """An upsert as in Delta's own benchmark: into a share of the files, with shares of their rows matched and new."""
    parts = [f"{_percent(matched)} matched"] if matched else []
    parts += [f"{_percent(new)} new"] if new else []
    where = {1.0: "all files", 0.5: "half the files"}.get(share, "1 file of 16")
    return BenchCase(f"upsert, {where}, {' + '.join(parts)}", (UPDATE, INSERT), share, matched, new, _start(share))


def insert(new: float, several: bool) -> BenchCase:
    """Delta's insert-only merges: into one file, with one or two clauses."""
    clauses = (Clause("insert", f"s.{KEYS[1]} % 2 = 0"), INSERT) if several else (INSERT,)
    name = f"insert-only, 1 file of 16, {_percent(new)} new{', two clauses' if several else ''}"
    return BenchCase(name, clauses, 1 / 16, 0, new, 4 / 16)


def _start(share: float) -> float:
    return 4 / 16 if share < 0.5 else 0.0


ONE = 1 / 16
DELTA = (
    *(insert(new, several) for new in (0.05, 0.5, 1.0) for several in (False, True)),
    BenchCase("delete-only, 1 file of 16, 5% matched", (DELETE,), ONE, 0.05, 0, 4 / 16),
    *(upsert(ONE, matched, 0.1) for matched in (0.0, 0.01, 0.1)),
    *(upsert(ONE, matched, 0.001) for matched in (0.5, 0.99, 1.0)),
    upsert(ONE, 0.1, 0.0),
    upsert(0.5, 0.01, 0.001),
    upsert(1.0, 0.01, 0.001),
)

_IN_RANGE = f"t.{KEYS[0]} BETWEEN {{low}} AND {{high}}"
_VALUES = {QUANTITY: f"t.{QUANTITY} + s.{QUANTITY}", REASON: f"s.{REASON}"}
PARTIAL = BenchCase(
    "partial update, half the files, 1% matched", (Clause("update", None, _VALUES),), 0.5, 0.01, 0, changed=two_columns
)
CDC = BenchCase(
    "CDC, 1 file of 16, 10% changed + 10% new",
    (Clause("delete", f"s.{OPERATION} = 'D'"), UPDATE, Clause("insert", f"s.{OPERATION} <> 'D'")),
    *(ONE, 0.1, 0.1, 4 / 16),
    changed=with_operation,
    added=(OPERATION,),
)
SYNC = BenchCase("sync with all rows, 1% gone + 1% new", (INSERT, Clause("delete_by_source")), 1.0, 0.99, 0.01)
SYNC_RANGE = BenchCase(
    "sync of a range, 1 file of 16, 90% updated + 10% gone",
    (UPDATE, INSERT, Clause("delete_by_source", _IN_RANGE)),
    *(ONE, 0.9, 0.01, 4 / 16),
)
FEED = replace(upsert(ONE, 0.1, 0.1), name="upsert with change feed, 1 file of 16, 10% matched + 10% new", feed=True)
PARTITIONS = BenchCase(
    "upsert, 2 partitions of 16, 10% matched + 10% new",
    (UPDATE, INSERT),
    *(2 / 16, 0.1, 0.1, 4 / 16),
    condition=f"t.{REGION} = s.{REGION} AND {ON_KEYS}",
    layouts=("partitioned",),
)
RANGE = BenchCase(
    "update in a range of dates, 1 file of 16, 10% matched",
    (Clause("update", None, {QUANTITY: f"s.{QUANTITY}"}),),
    *(ONE, 0.1, 0, 4 / 16),
    condition=f"{ON_KEYS} AND t.{DATE} BETWEEN s.{FROM} AND s.{TO}",
    changed=with_dates,
    added=(FROM, TO),
)
WHOLE = BenchCase("upsert, source as large as the table, 90% matched + 10% new", (UPDATE, INSERT), 1.0, 0.9, 0.1)
WHOLE_IF = BenchCase(
    "upsert, source as large as the table, 90% matched + 10% new, conditions",
    (Clause("update", f"s.{QUANTITY} > 10"), Clause("insert", f"s.{QUANTITY} < 90")),
    *(1.0, 0.9, 0.1),
)
WHOLE_CALLS = BenchCase(
    "upsert, source as large as the table, 90% matched + 10% new, conditions that call functions",
    (Clause("update", f"length(s.{REASON}) > 3"), Clause("insert", f"upper(s.{REASON}) <> 'X'")),
    *(1.0, 0.9, 0.1),
)
MANY_FILES = BenchCase(
    "upsert, 1 file of 100,000, 1% matched + 1% new",
    (UPDATE, INSERT),
    *(1 / LOG.files, 0.01, 0.01, LIVE_FILE / LOG.files),
    condition=f"{ON_KEYS} AND {_IN_RANGE}",
    layouts=("log",),
)
MANY_FILES_AGAIN = replace(MANY_FILES, name=f"{MANY_FILES.name}, again", again=True)
EVERYDAY = replace(upsert(1.0, 0.05, 0.05), name="upsert, table of 1 file, 5% matched + 5% new", files=1)

OTHERS = (
    PARTIAL,
    CDC,
    SYNC,
    SYNC_RANGE,
    FEED,
    PARTITIONS,
    RANGE,
    WHOLE,
    WHOLE_IF,
    WHOLE_CALLS,
    MANY_FILES,
    MANY_FILES_AGAIN,
    EVERYDAY,
)
BASIC = (
    upsert(ONE, 0.1, 0.1),
    upsert(1.0, 0.01, 0.001),
    upsert(0.5, 0.01, 0.001),
    upsert(ONE, 0.99, 0.001),
    next(case for case in DELTA if case.clauses == (DELETE,)),
    insert(0.5, several=False),
    *(insert(new, several=True) for new in (0.05, 0.5, 1.0)),
    *(PARTIAL, CDC, SYNC, SYNC_RANGE, FEED, PARTITIONS, RANGE, WHOLE, MANY_FILES),
)
SHARES = (0.001, 0.01, 0.1, 0.5, 1.0)
