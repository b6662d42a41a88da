"""The target as a DataFrame: an Arrow scan of exactly the files that can matter."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heapreplace

from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from deltamerge.budgets import DEFAULTS, Budgets
from deltamerge.protocol.values.widths import STORED_ROW_BYTES, is_fixed, row_width
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.shipping import shipped
from deltamerge.worker.entry import MATCHED, match_map, scan_map
from deltamerge.worker.scan.scan import FILE, ROW, FileTask, ScanSpec
from deltamerge.worker.skipping.narrow import narrows

# How many rows of a task may have the same match before they count against what all tasks may bring.
_REPEATED = 4
MATCHED_TYPE: T.StructType = from_arrow_schema(MATCHED)


def scan_frame(
    spark: Session,
    spec: ScanSpec,
    schema: T.StructType,
    tasks: Sequence[FileTask],
    sizes: Sequence[int],
    rows: int | None = None,
    budgets: Budgets = DEFAULTS,
) -> Frame:
    """A lazy frame of `schema`, which describes `spec.schema`, plus the file index and row position of each row.

    `sizes` are the files' bytes, by which they are spread over tasks; of about how many `rows` they have Spark is told, so that
    it knows whether the frame can be broadcast.
    """
    bins = pack(tasks, sizes, budgets) or [[]]
    fields = [*schema.fields, T.StructField(FILE, T.IntegerType(), False), T.StructField(ROW, T.LongType(), False)]
    each = max(1, _told_rows(spec, sum(sizes), rows) // len(bins))
    # Spark takes a scan to have as many rows as the range below it, filtered or not: one of as many numbers, of which
    # one a bin is left.
    numbers = spark.range(0, len(bins) * each, 1, len(bins)).where(F.col("id") % each == 0)
    return numbers.mapInArrow(shipped(scan_map(spec, bins, each)), T.StructType(fields))


def _told_rows(spec: ScanSpec, size: int, rows: int | None) -> int:
    """Of how many rows Spark is told where files of `size` bytes have about `rows`: of so many that it takes the frame for no
    smaller than the files, as where it reads them itself. It takes a text for 20 bytes long, and would broadcast long ones.
    """
    if rows is None:
        return size // STORED_ROW_BYTES
    if not rows or all(is_fixed(field.type) for field in spec.schema):
        return rows
    return max(rows, size // row_width(spec.schema))


def pack(
    tasks: Sequence[FileTask], sizes: Sequence[int], budgets: Budgets = DEFAULTS, each: int | None = None, least: int = 8
) -> list[list[FileTask]]:
    """The tasks in bins of about equal bytes, by default those of a scan's task, and at `least` so many: large files alone, small
    ones together.
    """
    total = sum(sizes)
    count = min(len(tasks), budgets.scan_tasks, max(least, total // (each or budgets.scan_task_bytes) + 1))
    bins: list[list[FileTask]] = [[] for _ in range(count)]
    heap = [(0, number) for number in range(count)]
    heapify(heap)
    for size, task in sorted(zip(sizes, tasks, strict=True), key=lambda pair: -pair[0]):
        load, number = heap[0]
        bins[number].append(task)
        heapreplace(heap, (load + size + 1, number))
    return bins


def match_frame(
    spark: Session,
    spec: ScanSpec,
    tasks: Sequence[FileTask],
    sizes: Sequence[int],
    source_rows: int,
    budgets: Budgets,
    most_bytes: float,
) -> Frame:
    """The candidate rows of the files with their key ids, in batches of `MATCHED`, over all tasks bounded to about twice the rows
    that may match, and `most_bytes`.

    More come only where they are dense: from one task up to an eighth of either, if the source has rows for them. Where
    every row comes their number is known before.
    """
    bins = pack(tasks, sizes, budgets)
    most_rows = budgets.match_rows
    dense = min(most_rows // 8, _REPEATED * source_rows)
    every = spec.others is not None and not narrows(spec.others, spec.schema)
    rows = most_rows if every else max(dense, 2 * most_rows // max(1, len(bins)))
    size = max(most_bytes // 8, 2 * most_bytes // max(1, len(bins)))
    numbers = spark.range(0, len(bins), 1, len(bins))
    return numbers.mapInArrow(shipped(match_map(spec, bins, rows, size, budgets.payload_bytes)), MATCHED_TYPE)
