"""The rows of the target that a large source can't match, left out before they reach Spark: by a Bloom filter of its keys."""

from __future__ import annotations

import logging
from dataclasses import replace

import pyarrow as pa

from deltamerge.merge.plan.prune import PrunedPlan, converted
from deltamerge.protocol.schema.types import PrimitiveType, arrow_type
from deltamerge.spark.source.key_hashes import distinct_hashes
from deltamerge.worker.scan.bloom import BloomFilter, bloom_bits, hashable

log = logging.getLogger("deltamerge.merge")


def filtered(pruned: PrunedPlan) -> PrunedPlan:
    """The plan with a filter of the source's keys, by one job, where it is too large to be held but small beside the target.

    As it is where no filter may be used or none pays.
    """
    plan, source = pruned.plan, pruned.source
    if (
        pruned.keys is not None
        or not source.is_kept
        or source.collected is not None
        or not 0 < source.rows <= plan.budgets.bloom_keys
    ):
        return pruned
    pairs = [pair for pair in plan.keys if hashable(_type(pruned, pair.target))]
    if not pairs or not pruned.files.num_rows or pruned.rows < plan.budgets.bloom_rows_per_key * source.rows:
        return pruned
    null_safe = tuple(pair.null_safe for pair in pairs)
    hashes = distinct_hashes(source.frame, [pair.source for pair in pairs], null_safe)
    log.info("%s: rows are filtered by %d hashes of keys", plan.resolved.snapshot.store.url, len(hashes))
    limits = tuple(_limits(pruned, pair.target, pair.source) for pair in pairs)
    return replace(pruned, keys=BloomFilter(tuple(pair.target for pair in pairs), null_safe, bloom_bits(hashes), limits))


def _type(pruned: PrunedPlan, column: str) -> pa.DataType:
    found = pruned.plan.resolved.scope.target.find(column, case_sensitive=True)
    return pa.null() if found is None or not isinstance(found.type, PrimitiveType) else arrow_type(found.type)


def _limits(pruned: PrunedPlan, target: str, source: str) -> tuple[pa.Scalar, pa.Scalar] | None:
    """The source's least and greatest value as values of the target's column; None when they are not known or have none."""
    found = pruned.source.limits(source)
    low, high = (None, None) if found is None else converted(found, _type(pruned, target))
    return (low, high) if low is not None and high is not None and low.is_valid and high.is_valid else None
