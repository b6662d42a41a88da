"""A DELETE by the partition alone: the files of the partitions leave the table, and none is opened.

Source: delta-spark's DeleteCommand, whose metrics count the rows of removed files by their statistics.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from deltamerge.merge.execute.work import Changed, Work
from deltamerge.merge.plan.physical import RemoveFiles
from deltamerge.protocol.schema.types import arrow_type
from deltamerge.protocol.values.condition import names_in
from deltamerge.worker.scan.outcomes import NotEvaluable, NotThisWay
from deltamerge.worker.scan.scan import FILE, FileTask
from deltamerge.worker.skipping.holds import Sides, holds
from deltamerge.worker.write.results import COUNTS, RESULT_SCHEMA, result_batch, touched_batch


def remove_files(work: Work, attempt: RemoveFiles) -> Changed | NotThisWay:
    """Remove the files for whose partition the condition is true; NotEvaluable where statistics don't count the rows of one."""
    condition = work.logical.target_condition
    assert condition is not None
    schema = work.files.snapshot.schema
    columns = {FILE: pa.array([task.file for task in work.tasks], pa.int32())}
    for field in schema.select(sorted(names_in(condition))):
        columns[field.name] = pa.array([task.partition[field.name] for task in work.tasks], arrow_type(field.type))
    chosen = [work.tasks[at] for at in np.flatnonzero(holds(condition, Sides(len(work.tasks), pa.table(columns))))]
    counts = [_living_rows(task) for task in chosen]
    if any(count is None for count in counts):
        return NotEvaluable("the statistics of a file don't say how many rows it has")
    told = [{"kind": COUNTS, "counts": [sum(count or 0 for count in counts), 0, 0]}]
    return Changed(pa.Table.from_batches([touched_batch([task.file for task in chosen]), result_batch(told)], RESULT_SCHEMA))


def _living_rows(task: FileTask) -> int | None:
    if task.rows is None:
        return None
    return task.rows - (task.vector.descriptor.cardinality if task.vector else 0)
