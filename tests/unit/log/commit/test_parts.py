"""Spark's hash, by values that Spark itself gives."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from deltamerge.log.commit.parts import part_numbers, spark_hash
from deltamerge.log.replay.files import FILE_SCHEMA, table_of
from tests.unit.log.building import add, vector

KNOWN = {"Spark": 228093765, "": 142593372}


def test_the_hash_is_sparks() -> None:
    texts = pa.array([*KNOWN, None])
    found = spark_hash(texts, np.full(len(texts), 42, np.uint32)).astype(np.int32).tolist()
    assert found == [*KNOWN.values(), 42]


def test_a_row_goes_where_its_path_goes() -> None:
    rows = [add("a")["add"], add("b")["add"], add("a", deletionVector=vector("v"))["add"], add("ä" * 40)["add"]]
    table = table_of(rows, FILE_SCHEMA)
    by_path = part_numbers(table, 1_000, with_vectors=False).tolist()
    by_both = part_numbers(table, 1_000, with_vectors=True).tolist()
    assert by_path[0] == by_path[2] == by_both[0]
    assert by_both[2] != by_path[2]
    assert by_both[3] == by_path[3]
    assert all(0 <= number < 1_000 for number in by_path + by_both)
