"""Running a routed merge: source rows to the owners of files, what those write, and rows that are inserted afterwards."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.errors import DeltaMergeError
from deltamerge.log.commit.transaction import delete_quietly
from deltamerge.merge.plan.prune import PrunedPlan
from deltamerge.merge.plan.routing import Route
from deltamerge.merge.statement.clauses import Side
from deltamerge.protocol.schema.types import arrow_schema
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.jobs import collect
from deltamerge.spark.source.source import Source
from deltamerge.spark.source.source_files import shares
from deltamerge.spark.stages.routing import BATCH_BYTES, inserted_frame, met_frame, owned_frame, routed_files, routed_rows
from deltamerge.spark.stages.shuffle import partition_keys
from deltamerge.spark.stages.target import data_store, scan_spec
from deltamerge.spark.stages.writing import RESULT_TYPE
from deltamerge.worker.join.meet import REPEATED, MeetSpec
from deltamerge.worker.join.owned import OwnedSpec
from deltamerge.worker.join.route import RouteSpec
from deltamerge.worker.join.sized import TOO_LARGE
from deltamerge.worker.scan.scan import FileTask
from deltamerge.worker.scan.source import NOT_READ, SourceSpec
from deltamerge.worker.write.results import ADD, CHANGE, COUNTS, NEW, result_batch
from deltamerge.worker.write.rewrite import ChangeSpec, ClauseAction

log = logging.getLogger("deltamerge.merge")


class MustBeKeptError(Exception):
    """What a source's files tell may not hold, or does not serve a join: Spark must evaluate it, and the plan be made anew."""


class Way(Protocol):
    """How source rows come to the tasks that write: what is sent where, and what becomes of it."""

    @property
    def first(self) -> RouteSpec:
        """Where source rows are sent."""

    def results(self, rows: Frame, refers: bool, change: ChangeSpec) -> Frame:
        """The result rows that come of source rows on their way; with `refers` new ones are only referred to."""


@dataclass(frozen=True)
class Straight:
    """Rows go to the owners of the files that may have their keys, which match them."""

    first: RouteSpec
    owned: OwnedSpec

    def results(self, rows: Frame, refers: bool, change: ChangeSpec) -> Frame:
        """Matched and written in one."""
        return owned_frame(rows, self.first, replace(self.owned, refers=refers), change)


@dataclass(frozen=True)
class Met:
    """Rows of both sides meet by their keys; those that change go to the owners of their files, which are read in `bins`."""

    spec: MeetSpec
    bins: Sequence[Sequence[FileTask]]

    @property
    def first(self) -> RouteSpec:
        """To where the table's rows of the same keys come, too."""
        return self.spec.source

    def results(self, rows: Frame, refers: bool, change: ChangeSpec) -> Frame:
        """Matched, then written; what moves is only deleted if new rows are only referred to."""
        owned, moves = replace(self.spec.owned, refers=refers), refers and self.spec.moves
        if moves:
            assert owned.matched is not None
            clauses = list(change.clauses)
            clauses[owned.matched.number] = ClauseAction("delete")
            change = replace(change, clauses=tuple(clauses))
        if refers and (moves or owned.matched is None or not owned.matched.values):
            owned = replace(owned, written=pa.schema([]))  # nothing but deletions is sent
        return met_frame(rows, replace(self.spec, owned=owned, moves=moves), self.bins, change)


def route_merge(spark: Session, pruned: PrunedPlan, route: Route, change: ChangeSpec, description: str) -> pa.Table | None:
    """Route, match and write; result rows. None where a task would hold too much, which a join spills.

    Raises DeltaMergeError, MustBeKeptError; files of ended tasks may stay, for vacuum.
    """
    try:
        return _route_merge(spark, pruned, route, change, description)
    except DeltaMergeError as error:
        if error.condition != TOO_LARGE:
            raise
        log.info("%s: Spark joins: %s", pruned.plan.resolved.snapshot.store.url, error.detail)
        return None


def _route_merge(spark: Session, pruned: PrunedPlan, route: Route, change: ChangeSpec, description: str) -> pa.Table:
    source, snapshot = pruned.source, pruned.plan.resolved.snapshot
    owned = _owned_spec(pruned, route)
    way = _way(pruned, route, owned, change)
    # A task's inserted rows would be a small file beside each file that it writes again.
    joined = replace(change, together=change.write.target_bytes // 2 if owned.inserts else 0)

    def run(rows: Frame, refers: bool = False) -> pa.Table:
        changes = change if refers and not route.moves else joined
        return collect(way.results(rows, refers, changes), description, RESULT_TYPE, BATCH_BYTES)

    if source.files:
        files = _source_spec(pruned)
        try:
            if route.deciding and source.rows <= pruned.plan.budgets.position_rows:
                some = replace(files, columns=route.deciding, placed=True)
                try:
                    found = run(routed_files(spark, some, way.first), refers=True)
                    return _with_new(spark, pruned, found, owned, change, files, route.moves, description)
                except DeltaMergeError as error:
                    if error.condition != REPEATED:
                        raise
                    log.info("%s: whole rows are sent to the files: %s", snapshot.store.url, error.detail)
            return run(routed_files(spark, files, way.first))
        except DeltaMergeError as error:
            if error.condition != NOT_READ:
                raise
            must_be_kept(source, error.detail)
            log.info("%s: Spark reads the source: %s", snapshot.store.url, error.detail)
    return run(routed_rows(source.frame, way.first))


def must_be_kept(source: Source, why: str) -> None:
    """Raise MustBeKeptError if files were spared by what a source's own files tell, which may not hold when Spark reads them."""
    if not source.is_kept and source.bounds is not None:
        raise MustBeKeptError(why)


def _way(pruned: PrunedPlan, route: Route, owned: OwnedSpec, change: ChangeSpec) -> Way:
    inserters, budgets = 0, pruned.plan.budgets
    if Side.NOT_MATCHED in route.clauses:
        inserters = int(max(1, min(budgets.insert_tasks, pruned.source.bytes // budgets.exchange_insert_task_bytes)))
    owners = tuple(partition_keys(len(route.ranges.files) + inserters))
    if not route.meetings:
        return Straight(RouteSpec(route.key, route.ranges, inserters, owners, budgets=budgets), owned)
    spec = MeetSpec(owned, route.keys, tuple(partition_keys(route.meetings)), owners, route.moves)
    return Met(spec, [[change.files[file] for file in files] for files in route.ranges.files])


def _owned_spec(pruned: PrunedPlan, route: Route) -> OwnedSpec:
    resolved, pairs = pruned.plan.resolved, pruned.plan.pairs
    keys = {pair.target for pair in pairs}
    known = resolved.snapshot.schema
    written = {name for clause in resolved.clauses for name in clause.assigned}
    return OwnedSpec(
        scan_spec(resolved.snapshot, known.select([name for name in known.names if name in keys]), None),
        tuple((pair.target, pair.source) for pair in pairs),
        route.key,
        route.ranges,
        arrow_schema(resolved.schema.select(list(written))),
        route.clauses.get(Side.MATCHED),
        route.clauses.get(Side.NOT_MATCHED),
        route.clauses.get(Side.BY_SOURCE),
        budgets=pruned.plan.budgets,
    )


def _source_spec(pruned: PrunedPlan) -> SourceSpec:
    plan = pruned.plan
    schema = arrow_schema(plan.resolved.scope.source.select(list(plan.source_columns)))
    stamps = {file.name: file.stamp for file in pruned.source.files}
    return SourceSpec(
        data_store(plan.resolved.snapshot.store), schema, shares(pruned.source.files, plan.budgets.source_task_bytes), stamps
    )


def _with_new(
    spark: Session,
    pruned: PrunedPlan,
    found: pa.Table,
    owned: OwnedSpec,
    change: ChangeSpec,
    source: SourceSpec,
    moves: bool,
    description: str,
) -> pa.Table:
    """Result rows with those of the rows that were only referred to: new ones, and with `moves` updated ones."""
    places, counts = _places(found), _counts(found)
    if not places or counts[-1]:
        return found
    clause = owned.inserts or owned.matched
    try:
        rows = inserted_frame(spark, replace(owned, inserts=clause), change, source, places)
        inserted = collect(rows, description, RESULT_TYPE)
    except BaseException:
        delete_quietly(pruned.plan.resolved.snapshot, _written(found))
        raise
    if not moves:
        return pa.concat_tables([found, inserted])
    assert clause is not None
    assert owned.matched is not None
    twice = np.zeros(len(counts), np.int64)  # updated rows were counted when they were deleted
    twice[clause.number] = -counts[owned.matched.number]
    told = pa.Table.from_batches([result_batch([{"kind": COUNTS, "counts": twice.tolist()}])])
    return pa.concat_tables([found, inserted, told])


def _places(found: pa.Table) -> dict[int, list[bytes]]:
    """For each bin of the source the places that result rows tell."""
    rows = found.filter(pc.equal(found["kind"], NEW))
    places: dict[int, list[bytes]] = {}
    for number, part in zip(rows["file"].to_pylist(), rows["positions"].to_pylist(), strict=True):
        places.setdefault(number, []).append(part)
    return places


def _counts(found: pa.Table) -> np.ndarray[Any, Any]:
    """The counts of all tasks: of rows by clause, of copied rows, and of those that were hit twice."""
    rows = found.filter(pc.equal(found["kind"], COUNTS))["counts"].to_pylist()
    return np.asarray(np.array(rows, np.int64).sum(axis=0))


def _written(found: pa.Table) -> Sequence[str]:
    names: list[str] = found.filter(pc.is_in(found["kind"], pa.array([ADD, CHANGE])))["name"].to_pylist()
    return names
