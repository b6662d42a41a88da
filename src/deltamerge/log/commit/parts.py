"""Into which part of a multi-part checkpoint a file action goes: Spark's hash partitioning, as the protocol demands.

Source: PROTOCOL.md, "Multi-part checkpoint"; Spark's Murmur3Hash.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.log.stats.struct import whole

Words = npt.NDArray[np.uint32]

_SEED = 42


def part_numbers(table: pa.Table, parts: int, with_vectors: bool) -> npt.NDArray[np.int64]:
    """The part, from 0, of each row of a file table: by path, and by the deletion vector's id where those are supported."""
    hashes = spark_hash(whole(table["path"]), np.full(table.num_rows, _SEED, np.uint32))
    if with_vectors:
        hashes = spark_hash(_vector_ids(whole(table["deletionVector"])), hashes)
    return hashes.astype(np.int32).astype(np.int64) % parts


def spark_hash(texts: pa.Array, seeds: Words) -> Words:
    """Spark's Murmur3 hash of strings, each with its own seed; a null leaves its seed as it is."""
    data = texts.cast(pa.binary())
    lengths = pc.binary_length(data).fill_null(-1).to_numpy(zero_copy_only=False)
    found = seeds.copy()
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        if length >= 0:
            joined = b"".join(data.take(pa.array(rows)).to_pylist())
            found[rows] = _hash(np.frombuffer(joined, np.uint8).reshape(len(rows), int(length)), seeds[rows])
    return found


def _hash(data: npt.NDArray[np.uint8], seeds: Words) -> Words:
    length = data.shape[1]
    whole = length - length % 4
    words = np.ascontiguousarray(data[:, :whole]).view("<u4")
    h = seeds.copy()
    with np.errstate(over="ignore"):
        for at in range(whole // 4):
            h = _mix(h, words[:, at].astype(np.uint32))
        for at in range(whole, length):
            h = _mix(h, data[:, at].astype(np.int8).astype(np.int32).astype(np.uint32))
        h ^= np.uint32(length)
        h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        return h ^ (h >> np.uint32(16))


def _mix(h: Words, k: Words) -> Words:
    k = _rotated(k * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    return _rotated(h ^ k, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _rotated(values: Words, by: int) -> Words:
    return (values << np.uint32(by)) | (values >> np.uint32(32 - by))


def _vector_ids(vectors: pa.StructArray) -> pa.Array:
    def part(name: str) -> Any:
        return pc.struct_field(vectors, name)

    identity = pc.binary_join_element_wise(part("storageType"), part("pathOrInlineDv"), "")
    offset = pc.cast(part("offset"), pa.string())
    return pc.if_else(pc.is_valid(offset), pc.binary_join_element_wise(identity, offset, "@"), identity)
