"""Auto compaction: after a write, small files of the partitions that it touched are put together, in a commit of its own.

Whatever goes wrong is logged: the write has happened. Source: delta-spark's AutoCompact and AutoCompactPartitionStats.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, OrderedDict
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.commands.layout.bins import Limits, deleted_share
from deltamerge.commands.layout.optimize import Auto, Optimize, optimized
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.log.replay.table import DeltaLog
from deltamerge.merge.execute.outcome import MergeOutcome
from deltamerge.protocol.schema.types import StructType
from deltamerge.protocol.table.actions import AddFile
from deltamerge.spark.session.file_sizes import AutoCompaction, auto_compaction
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.schema import to_spark

log = logging.getLogger("deltamerge.commands")

_PROPERTY, _OLDER_PROPERTY = "delta.autoOptimize.autoCompact", "delta.autoOptimize"
_MOST_PARTITIONS = 128
_KEPT = 1 << 16
_NULL = "\0"

_Partition = tuple[str | None, ...]


class _Compacted:
    """The partitions that this process has compacted: only these need so many small files before it does so again."""

    def __init__(self) -> None:
        self._found: OrderedDict[tuple[str, _Partition], None] = OrderedDict()
        self._lock = threading.Lock()

    def has(self, table: str, partition: _Partition) -> bool:
        """Whether the partition of the table of an id was compacted."""
        return (table, partition) in self._found

    def add(self, table: str, partitions: Sequence[_Partition]) -> None:
        """Note partitions; the oldest ones are forgotten."""
        with self._lock:
            self._found.update(dict.fromkeys((table, partition) for partition in partitions))
            while len(self._found) > _KEPT:
                self._found.popitem(last=False)


_compacted = _Compacted()


def compact_after_changes(spark: Session, table: DeltaLog, committed: Snapshot, outcome: MergeOutcome) -> None:
    """As `compact_after`, where rows were changed: files that only got a deletion vector are no new ones."""
    if outcome.added:
        compact_after(spark, table, committed, [*outcome.added, *(mark.file for mark in outcome.marked)])


def compact_after(spark: Session, table: DeltaLog, committed: Snapshot, added: Sequence[AddFile]) -> None:
    """Put small files together in the partitions to which a commit added files, where session or table ask for it.

    `committed` is the version that it made. Nothing is raised.
    """
    try:
        asked = auto_compaction(spark)
        if added and (_asks(committed) if asked.enabled is None else asked.enabled):
            table.remember(committed)
            _compact(spark, table, committed, added, asked)
    except Exception as error:  # whatever it is, the commit has happened
        log.warning("auto compaction of %s after version %d failed: %s", committed.store.url, committed.version, error)


def _asks(snapshot: Snapshot) -> bool:
    if snapshot.properties.flag(_OLDER_PROPERTY):
        return True
    value = snapshot.properties.values.get(_PROPERTY, "false").lower()
    if value not in ("true", "false"):
        log.warning("%s of %s is %r, not true: its files are not compacted", _PROPERTY, snapshot.store.url, value)
    return value == "true"


def _compact(spark: Session, table: DeltaLog, committed: Snapshot, added: Sequence[AddFile], asked: AutoCompaction) -> None:
    names = [field.physical_name for field in committed.partition_schema]
    touched: list[_Partition] = list(dict.fromkeys(tuple(file.partition_values.get(name) for name in names) for file in added))
    files = committed.files.table()
    small = Counter(_partitions(files.filter(pc.less(files["size"], asked.small)), names).to_pylist())
    id = committed.metadata.id
    chosen = [key for key in touched if not _compacted.has(id, key) or small[_text(key)] >= asked.files]
    chosen = sorted(chosen, key=lambda key: -small[_text(key)])[:_MOST_PARTITIONS]
    if not chosen:
        return
    newest = table.snapshot()
    files = newest.files.table()
    wanted = pa.array([_text(key) for key in chosen], pa.string())
    files = files.filter(pc.is_in(_partitions(files, names), value_set=wanted))
    request = Optimize(auto=Auto(_predicates(committed.partition_schema, chosen)))
    done = optimized(spark, table, newest, request, Limits(asked.small, asked.full, deleted_share(spark)), files)
    _compacted.add(id, chosen)
    log.info("auto compaction of %s: %d files became %d", newest.store.url, len(done.removed), len(done.added))


def _partitions(files: pa.Table, names: Sequence[str]) -> pa.Array:
    """The partition of each file as one text."""
    if not names:
        return pa.array(np.full(files.num_rows, ""), pa.string())
    values = files["partitionValues"].combine_chunks()
    columns = [pc.coalesce(pc.map_lookup(values, pa.scalar(name), "first"), _NULL) for name in names]
    return pc.binary_join_element_wise(*columns, "\1")


def _text(partition: _Partition) -> str:
    return "\1".join(_NULL if value is None else value for value in partition)


def _predicates(schema: StructType, partitions: Sequence[_Partition]) -> tuple[str, ...]:
    """The partitions as delta-spark tells of them in the history."""
    if not len(schema):
        return ()
    columns, found = to_spark(schema).fields, []
    for partition in partitions:
        terms = [
            f"('{column.name} <=> cast({'null' if value is None else value} as {column.dataType.simpleString()}))"
            for column, value in zip(columns, partition, strict=True)
        ]
        found.append(_joined(terms, "AND"))
    return (_joined(found, "OR"),)


def _joined(terms: Sequence[str], word: str) -> str:
    text = terms[0]
    for term in terms[1:]:
        text = f"({text} {word} {term})"
    return text
