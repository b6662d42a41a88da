"""What a merge did to the table's files, from what its tasks report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.log.commit.dv_files import MarkedFile
from deltamerge.log.commit.transaction import delete_quietly
from deltamerge.log.replay.files import add_files
from deltamerge.merge.execute.attempts import Ran
from deltamerge.merge.execute.multiple_matches import multiple_matches
from deltamerge.merge.execute.work import Work
from deltamerge.protocol.table.actions import AddFile, CdcFile
from deltamerge.spark.stages.results import added_files, change_files
from deltamerge.worker.scan.streams import read_stream
from deltamerge.worker.write.results import COUNTS, MARKED, SAMPLE, TOUCHED


@dataclass(frozen=True)
class MergeOutcome:
    """What the tasks did. `touched` has the rows of the target's files that are replaced; counts are in rows.

    `changed` counts per clause, in the statement's order; `copied` the unchanged rows in files that are replaced;
    `changes` are the change data files; `rewrites` counts the files that were written again by how: spliced, or why not;
    `shown` has changed rows of a merge that was only previewed, None if there are none.
    """

    work: Work
    ran: Ran
    added: tuple[AddFile, ...]
    touched: pa.Table = field(repr=False)
    marked: tuple[MarkedFile, ...] = ()
    changed: tuple[int, ...] = ()
    copied: int = 0
    changes: tuple[CdcFile, ...] = ()
    rewrites: Mapping[str, int] = field(default_factory=dict)
    shown: pa.Table | None = field(default=None, repr=False)

    @property
    def is_empty(self) -> bool:
        """Whether no row changed."""
        return not any(self.changed)

    @property
    def added_bytes(self) -> int:
        """Bytes of the new files."""
        return sum(file.size for file in self.added)

    @property
    def change_bytes(self) -> int:
        """Bytes of the change data files."""
        return sum(file.size for file in self.changes)

    @property
    def removed_bytes(self) -> int:
        """Bytes of the files that are replaced."""
        return int(pc.sum(self.touched["size"]).as_py() or 0)

    @property
    def updated_vectors(self) -> int:
        """Deletion vectors that replace another one of their file."""
        return sum(mark.file.deletion_vector is not None for mark in self.marked)

    @property
    def removed_vectors(self) -> int:
        """Deletion vectors that leave the table, those that are updated included, as delta-spark counts."""
        return self.updated_vectors + int(self.touched.num_rows - self.touched["deletionVector"].null_count)


def outcome_of(work: Work, ran: Ran) -> MergeOutcome:
    """What became of the changed rows. Raises MultipleMatchError where a target row was changed for several source rows."""
    assert ran.changed is not None
    result, schema, files = ran.changed.result, work.logical.resolved.schema, work.files.table
    added, changes = added_files(result, schema), change_files(result, schema)
    counts = np.zeros(len(work.logical.resolved.clauses) + 2, np.int64)
    for row in _of_kind(result, COUNTS)["counts"].to_pylist():
        counts += np.array(row, np.int64)
    if counts[-1]:
        delete_quietly(work.logical.resolved.snapshot, [name for name, _ in (*added, *changes)])
        raise multiple_matches(work, int(counts[-1]))
    replaced = _of_kind(result, TOUCHED)
    touched = sorted(replaced["file"].to_pylist())
    marked = _of_kind(result, MARKED).sort_by("file")
    shown = [read_stream(stream) for stream in _of_kind(result, SAMPLE)["positions"]]
    return MergeOutcome(
        work,
        ran,
        tuple(file for _, file in added),
        files.take(pa.array(touched, pa.int64())),
        _marked(files, marked),
        tuple(int(n) for n in counts[:-2]),
        int(counts[-2]),
        tuple(file for _, file in changes),
        Counter(replaced["rewrite"].drop_null().to_pylist()),
        pa.concat_tables(shown) if shown else None,
    )


def _of_kind(result: pa.Table, kind: str) -> pa.Table:
    return result.filter(pc.equal(result["kind"], kind))


def _marked(table: pa.Table, marked: pa.Table) -> tuple[MarkedFile, ...]:
    files = add_files(table.take(marked["file"].cast(pa.int64())))
    columns = zip(files, marked["rows"].to_pylist(), marked["positions"].to_pylist(), strict=True)
    return tuple(MarkedFile(file, rows, vector) for file, rows, vector in columns)
