"""The sink of a preview: changed rows are counted, and some of each clause shown, in place of being written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from deltamerge.worker.scan.streams import arrow_stream
from deltamerge.worker.write.changes import DistinctRows, by_file
from deltamerge.worker.write.results import COUNTS, SAMPLE, TOUCHED, result_batch
from deltamerge.worker.write.rewrite import CLAUSE, ChangeSpec, ClauseAction
from deltamerge.worker.write.write import check_lengths, check_required


def count_changes(spec: ChangeSpec, batches: Iterable[pa.RecordBatch], most: int) -> Iterator[pa.RecordBatch]:
    """Count rows as `apply_changes` would, which are ordered as there; up to `most` of each clause are shown.

    Yields result batches: the files in which rows change, counts, and changed rows as an Arrow stream. Raises Refused for a
    value that a clause sets and that could not be written.
    """
    counts = np.zeros(len(spec.clauses) + 2, np.int64)
    rows: list[dict[str, Any]] = []
    shown: list[pa.Table] = []
    distinct, open_file = DistinctRows(spec.ignores_duplicate_matches), None
    for batch in batches:
        for file, changed in by_file(pa.Table.from_batches([batch])):
            if file is not None and file != open_file:
                counts[-1] += distinct.collisions
                distinct, open_file = DistinctRows(spec.ignores_duplicate_matches), file
                rows.append({"kind": TOUCHED, "file": file})
            once = changed if file is None else distinct.take(changed)
            clauses = once.column(CLAUSE).to_numpy()
            for clause in np.unique(clauses).tolist():
                left = max(0, most - int(counts[clause]))
                own = once if (clauses == clause).all() else once.filter(pa.array(clauses == clause))
                _check(spec, spec.clauses[clause], own)
                counts[clause] += own.num_rows
                shown.append(own.slice(0, left))
    counts[-1] += distinct.collisions
    rows += [{"kind": SAMPLE, "positions": arrow_stream(pa.concat_tables(shown))}] if shown else []
    rows.append({"kind": COUNTS, "counts": counts.tolist()})
    yield result_batch(rows)


def _check(spec: ChangeSpec, action: ClauseAction, changed: pa.Table) -> None:
    """Raise Refused for a value that could not be written."""
    names = spec.write.schema.names if action.kind == "insert" else action.assigned
    values = changed.select([name for name in changed.column_names if name in names])
    check_required((*spec.write.required, *spec.write.elements), values)
    check_lengths(spec.write.lengths, values)
