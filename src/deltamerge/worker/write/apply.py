"""The write stage of a merge: changed rows in, new files and counts out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from deltamerge.worker.write.changes import by_file
from deltamerge.worker.write.count import count_changes
from deltamerge.worker.write.feed import INSERT, FeedWriter
from deltamerge.worker.write.mark import FileMarker
from deltamerge.worker.write.results import ADD, CHANGE, COUNTS, MARKED, PAGED, SPLICED, TOUCHED, result_batch, written_row
from deltamerge.worker.write.rewrite import CLAUSE, ChangedFile, ChangeSpec, FileRewriter, inserted_rows
from deltamerge.worker.write.splice.splicer import rewriter
from deltamerge.worker.write.write import PartitionWriters


def apply_changes(spec: ChangeSpec, batches: Iterable[pa.RecordBatch], number: int) -> Iterator[pa.RecordBatch]:
    """Apply rows that are ordered by file (inserted rows, which have none, first) and position.

    Yields result batches: the files written, replaced and marked, and counts: per clause, then copied, then collisions. Nothing
    is written where the specification asks for a sample.
    """
    if spec.sample is not None:
        yield from count_changes(spec, batches, spec.sample)
        return
    inserts = PartitionWriters(spec.write, number)
    feed = None if spec.feed is None else FeedWriter(spec.feed, number)
    counts = np.zeros(len(spec.clauses) + 2, np.int64)
    changer = FileMarker if spec.rewrite_share else rewriter
    current: FileMarker | FileRewriter | None = None
    open_file: int | None = None
    rows: list[dict[str, Any]] = []
    finished: list[ChangedFile] = []
    try:
        for batch in batches:
            for file, changed in by_file(pa.Table.from_batches([batch])):
                if file is None:
                    counts[: len(spec.clauses)] += np.bincount(changed.column(CLAUSE).to_numpy(), minlength=len(spec.clauses))
                    inserted = inserted_rows(spec.write, changed)
                    inserts.write(inserted)
                    if feed is not None:
                        feed.write(inserted, INSERT)
                    continue
                if current is None or file != open_file:
                    if current is not None:
                        finished.append(current.finish())
                    current, open_file = changer(spec, spec.files[file], number, inserts, feed), file
                current.take(changed)
        if current is not None:
            finished.append(current.finish())
            current = None
        rows += [written_row(ADD, written) for written in inserts.close()]
        if feed is not None:
            rows += [written_row(CHANGE, written) for written in feed.close()]
        for done in finished:
            rows += [written_row(ADD, written) for written in done.written]
        spec.write.store.sync(row["name"] for row in rows)
    except BaseException:
        inserts.discard()
        if feed is not None:
            feed.discard()
        if current is not None:
            current.discard()
        for done in finished:
            for written in done.written:
                spec.write.store.delete(written.name)
        raise
    for done in finished:
        counts[: len(spec.clauses)] += done.counts
        counts[-2] += done.copied
        counts[-1] += done.collisions
        if done.vector is None:
            rows.append({"kind": TOUCHED, "file": done.file, "rows": done.copied, "rewrite": _how(done)})
        else:
            rows.append({"kind": MARKED, "file": done.file, "rows": done.rows, "positions": done.vector})
    rows.append({"kind": COUNTS, "counts": counts.tolist()})
    yield result_batch(rows)


def _how(done: ChangedFile) -> str | None:
    """How a file was written again: spliced, or the name of the reason why not; None where nothing of it is left."""
    if not done.written and not done.copied:
        return None
    if done.plain is not None:
        return done.plain.name
    return PAGED if done.pages else SPLICED
