"""Which files OPTIMIZE puts together: small ones, and those of which many rows are deleted, by partition and size.

Source: delta-spark's OptimizeExecutor. Sizes are in bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deltamerge.protocol.table.actions import AddFile
from deltamerge.spark.session.file_sizes import invalid_setting, number_setting
from deltamerge.spark.session.frames import Session
from deltamerge.worker.scan.scan import FileTask
from deltamerge.worker.write.by_partition import partition_key

_LEAST = "spark.databricks.delta.optimize.minFileSize"
_MOST = "spark.databricks.delta.optimize.maxFileSize"
_DELETED = "spark.databricks.delta.optimize.maxDeletedRowsRatio"
_GIGABYTE = str(1 << 30)


@dataclass(frozen=True, slots=True)
class Limits:
    """Files of fewer bytes than `small`, or of whose rows more than `deleted` are gone, come to files of at most `full` bytes."""

    small: int
    full: int
    deleted: float


def limits_of(spark: Session) -> Limits:
    """The limits that the session asks for. Raises InvalidArgumentError."""
    sizes = [number_setting(spark, key, _GIGABYTE) for key in (_LEAST, _MOST)]
    return Limits(int(sizes[0]), int(sizes[1]), deleted_share(spark))


def deleted_share(spark: Session) -> float:
    """Of which share of its rows deleted a file is written again, as the session says. Raises InvalidArgumentError."""
    deleted = number_setting(spark, _DELETED, "0.05")
    if deleted > 1:
        raise invalid_setting(_DELETED, str(deleted), "a number from 0 to 1")
    return deleted


def is_chosen(file: AddFile, limits: Limits) -> bool:
    """Whether a file is small, or too many of its rows are deleted."""
    if file.size < limits.small:
        return True
    if file.deletion_vector is None:
        return False
    rows = file.num_records
    return not rows or file.deletion_vector.cardinality / rows > limits.deleted


def is_purged(file: AddFile) -> bool:
    """Whether a REORG that purges writes a file again: rows of it are deleted, or nobody knows how many."""
    vector = file.deletion_vector
    return vector is not None and (file.num_records is None or vector.cardinality > 0)


def packed(tasks: Sequence[FileTask], full: float, in_order: bool = False) -> list[tuple[FileTask, ...]]:
    """The files in bins of one partition and at most `full` bytes each, smaller files first, or `in_order`; a larger file has a
    bin alone.
    """
    groups: dict[tuple[str | None, ...], list[FileTask]] = {}
    for task in tasks:
        groups.setdefault(partition_key(task.partition), []).append(task)
    bins: list[list[FileTask]] = []
    for group in groups.values():
        held = full
        bins.append([])
        for task in group if in_order else sorted(group, key=_size):
            held += _size(task)
            if held > full and bins[-1]:
                bins.append([])
            if not bins[-1]:
                held = _size(task)
            bins[-1].append(task)
    return [tuple(found) for found in bins]


def _size(task: FileTask) -> int:
    return task.size or 0
