"""Files put together by workers, or by the calling process where there is little to read."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait

import pyarrow as pa

from deltamerge.progress.operation import advancing
from deltamerge.progress.value import Amount
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.jobs import collect, in_process
from deltamerge.spark.session.shipping import shipped
from deltamerge.spark.stages.writing import RESULT_TYPE
from deltamerge.worker.entry import compact_map
from deltamerge.worker.layout.compact import CompactSpec, compact
from deltamerge.worker.write.results import RESULT_SCHEMA


def compacted(spark: Session, spec: CompactSpec, description: str) -> pa.Table:
    """Write each bin's rows; result rows. Raises ExecutionError, CorruptTableError.

    What tasks wrote before another one failed is no part of the table, and is left for VACUUM.
    """
    if sum(task.size or 0 for bin in spec.bins for task in bin) <= spec.write.budgets.driver_compact_bytes:
        return _in_process(spec)
    numbers = spark.range(0, len(spec.bins), 1, len(spec.bins))
    return collect(numbers.mapInArrow(shipped(compact_map(spec)), RESULT_TYPE), description, RESULT_TYPE)


def _in_process(spec: CompactSpec) -> pa.Table:
    advance = advancing()

    def compacted_bin(number: int) -> pa.RecordBatch:
        found = compact(spec, number)
        advance(lambda: Amount(len(spec.bins[number]), sum(task.size or 0 for task in spec.bins[number])))
        return found

    with in_process(), ThreadPoolExecutor(spec.write.budgets.driver_threads) as pool:
        jobs = [pool.submit(compacted_bin, number) for number in range(len(spec.bins))]
        try:
            return pa.Table.from_batches([job.result() for job in jobs], RESULT_SCHEMA)
        except BaseException:
            _discard(spec, jobs)
            raise


def _discard(spec: CompactSpec, jobs: list[Future[pa.RecordBatch]]) -> None:
    """Delete what the jobs that went well have written; one that fails deletes its own files."""
    for job in jobs:
        job.cancel()
    for job in wait(jobs).done:
        if not job.cancelled() and job.exception() is None:
            for name in job.result().column("name").to_pylist():
                spec.write.store.delete(name)
