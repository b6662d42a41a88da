"""The hashes of a source's keys, by one job over the rows that are materialized."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pyspark.sql import types as T

from deltamerge.protocol.values.distinct import distinct
from deltamerge.spark.expressions.expression import only
from deltamerge.spark.session.frames import Frame
from deltamerge.spark.session.jobs import collect
from deltamerge.spark.session.shipping import shipped
from deltamerge.spark.stages.writing import positional
from deltamerge.worker.entry import hash_map
from deltamerge.worker.skipping.bloom import Hashes

_HASHES = T.StructType([T.StructField("hashes", T.BinaryType())])


def distinct_hashes(rows: Frame, columns: Sequence[str], null_safe: Sequence[bool]) -> Hashes:
    """The distinct hashes of the keys that some columns of the rows make; 4 bytes each. Raises DeltaMergeError."""
    keys = positional(only(rows, columns))
    parts = collect(keys.mapInArrow(shipped(hash_map(null_safe)), _HASHES), "deltamerge: hash the source's keys", _HASHES)
    return distinct(np.frombuffer(b"".join(parts["hashes"].to_pylist()), np.uint32))
