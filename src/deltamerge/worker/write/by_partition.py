"""Rows apart by their partition, and what tells partitions apart. Must not know of files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.errors import InvalidArgumentError
from deltamerge.protocol.values.partitions import partition_text
from deltamerge.worker.scan.row_errors import Refused


def split_by_partition(table: pa.Table, columns: Sequence[str]) -> Iterator[tuple[dict[str, Any], pa.Table]]:
    """The rows of each partition, with its typed values by logical name."""
    if not columns or not table.num_rows:
        yield {}, table
        return
    codes: Any = None
    for name in columns:
        encoded = table.column(name).combine_chunks().dictionary_encode(null_encoding="encode")
        code = encoded.indices.cast(pa.int64())
        if codes is not None:
            mixed = pc.add(pc.multiply(codes, len(encoded.dictionary)), code)
            code = mixed.dictionary_encode().indices.cast(pa.int64())
        codes = code
    order = pc.sort_indices(codes)
    counts = np.bincount(codes.to_numpy(zero_copy_only=False))
    ordered = table if len(counts) == 1 else table.take(order)
    start = 0
    for count in counts:
        rows = ordered.slice(start, count)
        start += int(count)
        yield {name: rows.column(name)[0] for name in columns}, rows


def partition_key(partition: Mapping[str, Any]) -> tuple[str | None, ...]:
    """What tells partitions apart: their texts in the log, so that NaN is one value and -0.0 is not 0.0.

    Raises Refused for a value that the log can't hold.
    """
    try:
        return tuple(partition_text(value) for value in partition.values())
    except InvalidArgumentError as error:
        raise Refused(error.condition, error.detail, str(error.parameters["value"])) from error
