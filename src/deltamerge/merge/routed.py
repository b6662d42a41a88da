"""Running a routed merge: source rows to the owners of files, what those write, and rows that are inserted afterwards."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.errors import DeltaMergeError
from deltamerge.log.transaction import delete_quietly
from deltamerge.merge.clauses import Side
from deltamerge.merge.prune import PrunedPlan
from deltamerge.merge.routing import Route
from deltamerge.protocol.schema import arrow_schema
from deltamerge.spark.frames import Frame, Session
from deltamerge.spark.jobs import collect
from deltamerge.spark.routing import BATCH_BYTES, inserted_frame, owned_frame, routed_files, routed_rows
from deltamerge.spark.shuffle import partition_keys
from deltamerge.spark.source_files import shares
from deltamerge.spark.target import data_store, scan_spec
from deltamerge.spark.writing import RESULT_TYPE
from deltamerge.worker.owned import OwnedSpec
from deltamerge.worker.results import ADD, CHANGE, NEW
from deltamerge.worker.rewrite import ChangeSpec
from deltamerge.worker.route import RouteSpec
from deltamerge.worker.source import NOT_READ, SourceSpec

log = logging.getLogger("deltamerge.merge")

_INSERTER_BYTES = 256 << 20
_MOST_INSERTERS = 64
# New rows are told to the driver by their places: an eighth of a byte each at worst, and no more than this number of bytes.
_PLACES_BYTES = 32 << 20


def route_merge(spark: Session, pruned: PrunedPlan, route: Route, change: ChangeSpec, description: str) -> pa.Table:
    """Route, match and write; result rows. Raises DeltaMergeError; files of ended tasks may stay, for vacuum."""
    source, snapshot = pruned.source, pruned.plan.resolved.snapshot
    spec, owned = _route_spec(pruned, route), _owned_spec(pruned, route)
    # A task's inserted rows would be a small file beside each file that it writes again.
    joined = replace(change, together=change.write.target_bytes // 2 if owned.inserts else 0)

    def run(rows: Frame, owned: OwnedSpec) -> pa.Table:
        return collect(owned_frame(rows, spec, owned, change if owned.refers else joined), description, RESULT_TYPE, BATCH_BYTES)

    if source.files:
        files = _source_spec(pruned)
        try:
            if not route.deciding or source.rows > 8 * _PLACES_BYTES:
                return run(routed_files(spark, files, spec), owned)
            some = replace(files, columns=route.deciding, placed=True)
            found = run(routed_files(spark, some, spec), replace(owned, refers=True))
            return _with_new(spark, pruned, found, owned, change, files, description)
        except DeltaMergeError as error:
            if error.condition != NOT_READ:
                raise
            log.info("%s: Spark reads the source: %s", snapshot.store.url, error.detail)
    return run(routed_rows(source.frame, spec), owned)


def _route_spec(pruned: PrunedPlan, route: Route) -> RouteSpec:
    inserters = 0
    if Side.NOT_MATCHED in route.clauses:
        inserters = int(max(1, min(_MOST_INSERTERS, pruned.source.bytes // _INSERTER_BYTES)))
    tasks = partition_keys(len(route.ranges.files) + inserters)
    return RouteSpec(route.key, route.ranges, inserters, tuple(tasks))


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
    )


def _source_spec(pruned: PrunedPlan) -> SourceSpec:
    plan = pruned.plan
    schema = arrow_schema(plan.resolved.scope.source.select(list(plan.source_columns)))
    stamps = {file.name: file.stamp for file in pruned.source.files}
    return SourceSpec(data_store(plan.resolved.snapshot.store), schema, shares(pruned.source.files), stamps)


def _with_new(
    spark: Session,
    pruned: PrunedPlan,
    found: pa.Table,
    owned: OwnedSpec,
    change: ChangeSpec,
    source: SourceSpec,
    description: str,
) -> pa.Table:
    """Result rows with those of the rows that are inserted, which were only referred to."""
    new = found.filter(pc.equal(found["kind"], NEW))
    places: dict[int, list[bytes]] = {}
    for number, part in zip(new["file"].to_pylist(), new["positions"].to_pylist(), strict=True):
        places.setdefault(number, []).append(part)
    if not places:
        return found
    try:
        inserted = collect(inserted_frame(spark, owned, change, source, places), description, RESULT_TYPE)
    except BaseException:
        delete_quietly(pruned.plan.resolved.snapshot, _written(found))
        raise
    return pa.concat_tables([found, inserted])


def _written(found: pa.Table) -> Sequence[str]:
    names: list[str] = found.filter(pc.is_in(found["kind"], pa.array([ADD, CHANGE])))["name"].to_pylist()
    return names
