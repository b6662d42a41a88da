"""The engines under test: each merges a batch file into a table. The text of a merge is the same for all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.cases import BenchCase, Clause
from benchmarks.data import Shape

Merge = Callable[[Any, Path, Path, BenchCase, Shape], None]


@dataclass(frozen=True)
class Engine:
    """How an engine merges: `run` takes a session (None where `needs_spark` is false), table, batch, case and shape.

    `vectors` says that its tables have deletion vectors switched on; the others are copied on write.
    """

    name: str
    run: Merge
    vectors: bool = False
    needs_spark: bool = True


def delta_spark(spark: Any, table: Path, source: Path, case: BenchCase, shape: Shape) -> None:
    """delta-spark."""
    from delta.tables import DeltaTable

    builder = merge_of(DeltaTable.forPath(spark, str(table)), spark.read.parquet(str(source)), case, shape)
    builder.execute().collect()


def deltamerge(spark: Any, table: Path, source: Path, case: BenchCase, shape: Shape) -> None:
    """This library."""
    from deltamerge.tables import DeltaTable

    builder = merge_of(DeltaTable.forPath(spark, str(table)), spark.read.parquet(str(source)), case, shape)
    builder.execute().collect()


def merge_of(table: Any, source: Any, case: BenchCase, shape: Shape) -> Any:
    """The case as a merge of either library, built and not run."""
    builder = table.alias("t").merge(source.alias("s"), case.filled(case.condition, shape))
    for clause in case.clauses:
        builder = _with_clause(builder, clause, clause.condition and case.filled(clause.condition, shape))
    return builder


def _with_clause(builder: Any, clause: Clause, condition: str | None) -> Any:
    match clause.kind:
        case "update" if clause.values:
            return builder.whenMatchedUpdate(condition, dict(clause.values))
        case "update":
            return builder.whenMatchedUpdateAll(condition)
        case "delete":
            return builder.whenMatchedDelete(condition)
        case "insert":
            return builder.whenNotMatchedInsertAll(condition)
        case "delete_by_source":
            return builder.whenNotMatchedBySourceDelete(condition)
    raise ValueError(clause.kind)


def _delta_rs(streamed: bool) -> Merge:
    def run(spark: Any, table: Path, source: Path, case: BenchCase, shape: Shape) -> None:
        import deltalake
        import pyarrow.parquet as pq

        condition, added = case.filled(case.condition, shape), list(case.added) or None
        merger: Any = deltalake.DeltaTable(table).merge(
            pq.read_table(source), condition, source_alias="s", target_alias="t", streamed_exec=streamed
        )
        for clause in case.clauses:
            when = clause.condition and case.filled(clause.condition, shape)
            match clause.kind:
                case "update" if clause.values:
                    merger = merger.when_matched_update(dict(clause.values), when)
                case "update":
                    merger = merger.when_matched_update_all(when, added)
                case "delete":
                    merger = merger.when_matched_delete(when)
                case "insert":
                    merger = merger.when_not_matched_insert_all(when, added)
                case "delete_by_source":
                    merger = merger.when_not_matched_by_source_delete(when)
                case kind:
                    raise ValueError(kind)
        merger.execute()

    return run


OURS, OURS_DV = "deltamerge", "deltamerge, vectors"
SPARK, SPARK_DV = "delta-spark", "delta-spark, vectors"
RUST, RUST_PRUNING = "delta-rs", "delta-rs, pruning"
ENGINES = {
    engine.name: engine
    for engine in (
        Engine(OURS, deltamerge),
        Engine(SPARK, delta_spark),
        Engine(RUST, _delta_rs(streamed=True), needs_spark=False),
        Engine(RUST_PRUNING, _delta_rs(streamed=False), needs_spark=False),
        Engine(OURS_DV, deltamerge, vectors=True),
        Engine(SPARK_DV, delta_spark, vectors=True),
    )
}
