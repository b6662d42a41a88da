"""The exchanges: source rows to the tasks that write files, what those write, and rows that a second job writes afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.budgets import Budgets
from deltamerge.log.commit.transaction import delete_quietly
from deltamerge.merge.execute.work import Changed, Work
from deltamerge.merge.plan.physical import Exchange, Reader
from deltamerge.merge.statement.clauses import ClauseKind
from deltamerge.progress.operation import begin
from deltamerge.progress.value import Amount
from deltamerge.protocol.schema.types import arrow_schema
from deltamerge.spark.session.frames import Frame
from deltamerge.spark.session.jobs import attempt as attempted
from deltamerge.spark.session.settings import pads_chars
from deltamerge.spark.source.parquet_files import shares
from deltamerge.spark.stages.exchange.frames import hash_joined, inserted_rows, partitioned_files, partitioned_rows, range_joined
from deltamerge.spark.stages.exchange.shuffle import partition_keys
from deltamerge.spark.stages.scan import pack
from deltamerge.spark.stages.target import data_store, scan_spec
from deltamerge.spark.stages.writing import RESULT_TYPE
from deltamerge.worker.join.clauses import ClauseProgram, needed_columns
from deltamerge.worker.join.hash_join import HashJoinSpec
from deltamerge.worker.join.partitioning import Partitioning
from deltamerge.worker.join.range_join import JoinSpec
from deltamerge.worker.scan.outcomes import NotThisWay
from deltamerge.worker.scan.scan import FileTask
from deltamerge.worker.scan.source import SourceSpec
from deltamerge.worker.write.results import ADD, CHANGE, COUNTS, POSITIONS, result_batch
from deltamerge.worker.write.rewrite import ChangeSpec, ClauseAction

# Spark puts rows in an Arrow batch until it has so many bytes; one of ours may be megabytes.
_BATCH_BYTES = {"spark.sql.execution.arrow.maxBytesPerBatch": str(16 << 20)}

# Of each file in an object store: its end, and its keys.
_REQUESTS = 2


@dataclass(frozen=True)
class _Jobs:
    """What the jobs of an exchange do: the first joins, and writes what it is sent; the second, if there is one, inserts the rows
    that the first only reports, those included, with `update_as_delete_insert`, that take the place of updated ones.
    """

    join: JoinSpec
    change: ChangeSpec
    second: JoinSpec | None = None
    second_change: ChangeSpec | None = field(default=None, repr=False)


def exchange(work: Work, attempt: Exchange) -> Changed | NotThisWay:
    """Send, match and write. Raises DeltaMergeError; files of tasks that had ended may stay, for vacuum."""
    jobs = _jobs(work, attempt)
    begin("matching and writing", lambda: work.amount)
    rows = _sent(work, attempt, jobs)
    found = attempted(rows, work.description, RESULT_TYPE, _BATCH_BYTES)
    if not isinstance(found, pa.Table) or jobs.second is None:
        return Changed(found) if isinstance(found, pa.Table) else found
    positions, counts = _positions(found), _counts(found)
    if not positions or counts[-1]:
        return Changed(found)
    return _with_second_job(work, jobs, found, positions, counts)


def _jobs(work: Work, attempt: Exchange) -> _Jobs:
    """What each job does. A preview shows rows with their values, so that it sends all columns, and needs no second job."""
    program, resolved = work.logical.program, work.logical.resolved
    matched, inserts, by_source = (
        tuple(compiled.program for compiled in program.of(kind))
        for kind in (ClauseKind.MATCHED, ClauseKind.NOT_MATCHED, ClauseKind.BY_SOURCE)
    )
    read = {pair.target for pair in work.logical.pairs} | set(needed_columns((*matched, *by_source), "target"))
    known = resolved.snapshot.schema
    schema = known.select([name for name in known.names if name in read])
    join = JoinSpec(
        scan_spec(resolved.snapshot, schema, None, padded=pads_chars(work.spark, schema)),
        tuple((pair.target, pair.source) for pair in work.logical.pairs),
        attempt.key,
        attempt.ranges,
        arrow_schema(program.written),
        matched,
        inserts,
        by_source,
        spread_by=attempt.spread_by,
        budgets=work.budgets,
    )
    # A task's inserted rows would be a small file beside each file that it writes again.
    together = replace(work.change, together=work.change.write.target_bytes // 2 if inserts else 0)
    if not attempt.key_only or work.change.sample is not None:
        return _Jobs(join, together)
    # All rows without a match are reported, and the second job asks the conditions of the inserts.
    second, reported = join, tuple(ClauseProgram(program.number) for program in inserts[:1])
    if attempt.update_as_delete_insert:
        # Only rows for which the conditions are true are reported. Both clauses set the same columns of them.
        whole_row = replace((*inserts, *matched)[0], condition=None)
        second = replace(join, inserts=(whole_row,))
        clauses = list(together.clauses)
        clauses[matched[0].number] = ClauseAction("delete")
        together = replace(together, clauses=tuple(clauses))
        matched, reported = (tuple(replace(program, values={}) for program in programs) for programs in (matched, inserts))
    sets = [column for column in join.written if any(column.name in program.values for program in (*matched, *by_source))]
    first = replace(join, matched=matched, inserts=reported, written=pa.schema(sets), positions_only=True)
    if attempt.update_as_delete_insert:
        return _Jobs(replace(first, update_as_delete_insert=True), together, second, work.change)
    return _Jobs(first, work.change, second, work.change)


def _sent(work: Work, attempt: Exchange, jobs: _Jobs) -> Frame:
    """The rows of the source on their way, and what becomes of them; result rows."""
    budgets, files = work.budgets, attempt.ranges.files
    inserters = 0
    if jobs.join.inserts:
        inserters = int(max(1, min(budgets.insert_tasks, work.source.bytes // budgets.exchange_insert_task_bytes)))
    writers = tuple(partition_keys(len(files) + inserters))
    if not attempt.hash_tasks:
        spread_by = attempt.spread_by
        partitioning = Partitioning(attempt.key, attempt.ranges, inserters, writers, spread_by=spread_by, budgets=budgets)
        return range_joined(_rows(work, attempt, jobs, partitioning), partitioning, jobs.join, jobs.change)
    hashed = HashJoinSpec(jobs.join, attempt.hash_keys, tuple(partition_keys(attempt.hash_tasks)), writers)
    bins = key_bins([jobs.change.files[file] for own in files for file in own], jobs.change.write.store.remote, budgets)
    return hash_joined(_rows(work, attempt, jobs, hashed.source), hashed, bins, jobs.change)


def key_bins(files: Sequence[FileTask], is_remote: bool, budgets: Budgets) -> list[list[FileTask]]:
    """The files whose keys each task reads: by their bytes, and by what it costs to open them."""
    opening = _REQUESTS * budgets.request_bytes if is_remote else budgets.open_bytes
    return pack(files, [(file.size or 0) + opening for file in files], budgets, budgets.hash_scan_bytes, budgets.hash_least_tasks)


def _rows(work: Work, attempt: Exchange, jobs: _Jobs, partitioning: Partitioning) -> Frame:
    """The rows of the source, as Spark or workers read them."""
    if attempt.reader is Reader.SPARK:
        return partitioned_rows(work.source.frame, partitioning)
    source = _source_spec(work)
    if jobs.second is not None:
        source = replace(source, columns=attempt.key_only, positioned=True)
    return partitioned_files(work.spark, source, partitioning)


def _source_spec(work: Work) -> SourceSpec:
    logical, files = work.logical, work.source.facts.files
    schema = arrow_schema(logical.resolved.scope.source.select(list(logical.source_columns)))
    stamps = {file.name: file.stamp for file in files}
    return SourceSpec(data_store(logical.resolved.snapshot.store), schema, shares(files, work.budgets.source_task_bytes), stamps)


def _with_second_job(
    work: Work, jobs: _Jobs, found: pa.Table, positions: dict[int, list[bytes]], counts: np.ndarray[Any, Any]
) -> Changed | NotThisWay:
    """Result rows with those of the rows that were only reported; without them what was written before is deleted."""
    assert jobs.second is not None
    assert jobs.second_change is not None
    inserted: pa.Table | NotThisWay | None = None
    try:
        begin("writing rows of the source", lambda: Amount(rows=work.source.rows))
        rows = inserted_rows(work.spark, jobs.second, jobs.second_change, _source_spec(work), positions)
        inserted = attempted(rows, work.description, RESULT_TYPE)
    finally:
        if not isinstance(inserted, pa.Table):
            delete_quietly(work.logical.resolved.snapshot, _written(found))
    if not isinstance(inserted, pa.Table):
        return inserted
    tables = [found, inserted]
    if jobs.join.update_as_delete_insert:
        twice = np.zeros(len(counts), np.int64)  # updated rows were counted when they were deleted
        twice[jobs.second.inserts[0].number] = -counts[jobs.join.matched[0].number]
        tables.append(pa.Table.from_batches([result_batch([{"kind": COUNTS, "counts": twice.tolist()}])]))
    return Changed(pa.concat_tables(tables))


def _positions(found: pa.Table) -> dict[int, list[bytes]]:
    """For each bin of the source the positions that result rows report."""
    rows = found.filter(pc.equal(found["kind"], POSITIONS))
    positions: dict[int, list[bytes]] = {}
    for number, part in zip(rows["file"].to_pylist(), rows["positions"].to_pylist(), strict=True):
        positions.setdefault(number, []).append(part)
    return positions


def _counts(found: pa.Table) -> np.ndarray[Any, Any]:
    """The counts of all tasks: of rows by clause, of copied rows, and of those that were changed twice."""
    rows = found.filter(pc.equal(found["kind"], COUNTS))["counts"].to_pylist()
    return np.asarray(np.array(rows, np.int64).sum(axis=0))


def _written(found: pa.Table) -> Sequence[str]:
    names: list[str] = found.filter(pc.is_in(found["kind"], pa.array([ADD, CHANGE])))["name"].to_pylist()
    return names
