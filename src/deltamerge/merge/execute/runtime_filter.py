"""The target rows that a large source can't match, dropped before they reach Spark: by a Bloom filter of its keys."""

from __future__ import annotations

import logging
from dataclasses import replace

import pyarrow as pa

from deltamerge.merge.execute.work import Work
from deltamerge.merge.plan.conditions import KeyPair
from deltamerge.merge.plan.exchange import field_type
from deltamerge.merge.plan.logical import hashed_keys
from deltamerge.merge.plan.prune import converted
from deltamerge.protocol.schema.types import arrow_type
from deltamerge.spark.source.facts import bounds_in
from deltamerge.spark.source.key_hashes import distinct_hashes
from deltamerge.worker.skipping.bloom import BloomFilter, bloom_bits

log = logging.getLogger("deltamerge.merge")


def with_bloom_filter(work: Work) -> Work:
    """The work with files whose rows are filtered by the source's keys, by one job."""
    pairs = [pair for pair, is_hashed in zip(work.logical.keys, hashed_keys(work.logical), strict=True) if is_hashed]
    null_safe = tuple(pair.null_safe for pair in pairs)
    hashes = distinct_hashes(work.source.frame, [pair.source for pair in pairs], null_safe)
    log.info("%s: rows are filtered by %d hashes of keys", work.files.snapshot.store.url, len(hashes))
    bounds = tuple(_bounds(work, pair) for pair in pairs)
    found = BloomFilter(tuple(pair.target for pair in pairs), null_safe, bloom_bits(hashes), bounds)
    return replace(work, files=replace(work.files, row_filter=found))


def _bounds(work: Work, pair: KeyPair) -> pa.Array | None:
    """The source's least and greatest value as values of the target's column; None when they are not known or have none."""
    known = work.source.facts.bounds
    found = None if known is None else bounds_in(known, pair.source)
    if found is None:
        return None
    limits = converted(found, arrow_type(field_type(work.logical.resolved.scope.target, pair.target)))
    return None if limits.null_count else limits
