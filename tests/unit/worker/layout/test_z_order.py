"""Keys along a curve through several columns."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from deltamerge.worker.layout.z_order import distinct_keys, sampled, sorted_rows, z_keys, z_order_of

MOMENTS = [datetime(2024, 1, day, tzinfo=UTC) for day in (3, 1, 2)]
VALUES = [
    pa.array([3, 1, 2]),
    pa.array([0.5, -1.0, 0.0]),
    pa.array(["c", "a", "b\0"]),
    pa.array([b"c", b"a", b"b"]),
    pa.array([date(2024, 1, 3), date(1, 1, 1), date(2024, 1, 2)]),
    pa.array(MOMENTS, pa.timestamp("us", "UTC")),
    pa.array([Decimal("3.00"), Decimal("-1.00"), Decimal("2.50")]),
]


@pytest.mark.parametrize("values", VALUES, ids=[str(values.type) for values in VALUES])
def test_one_column_gives_its_own_order_nulls_first(values: pa.Array) -> None:
    rows = pa.table({"v": pa.concat_arrays([values, pa.nulls(1, values.type)]), "n": [2, 0, 1, -1]})
    assert sorted_rows(rows, [("v",)])["n"].to_pylist() == [-1, 0, 1, 2]


def test_bits_of_columns_are_interleaved() -> None:
    x, y = np.meshgrid(np.arange(32), np.arange(32), indexing="ij")
    rows = pa.table({"x": x.ravel(), "s": pa.StructArray.from_arrays([pa.array(y.ravel())], ["y"])})
    found = sorted_rows(rows, [("x",), ("s", "y")])
    points = list(zip(found["x"].to_pylist(), [s["y"] for s in found["s"].to_pylist()], strict=True))
    assert max(max(point) for point in points[:128]) < 16
    assert sorted(points) == sorted(zip(x.ravel().tolist(), y.ravel().tolist(), strict=True))


def test_ranks_of_a_sample_hold_for_all_rows() -> None:
    rows = pa.table({"v": np.random.default_rng(1).permutation(5_000)})
    order = z_order_of(pa.concat_tables(list(sampled([rows], 0.2))), [("v",)])
    keys = z_keys(rows, order)
    place = np.argsort(keys, kind="stable")
    found = rows["v"].to_numpy()[place]
    assert np.abs(found - np.arange(5_000)).max() < 200
    assert len(z_keys(rows.slice(0, 0), order)) == 0


def test_keys_of_a_batch_are_made_different_in_order() -> None:
    keys = z_keys(pa.table({"v": [1] * 50 + [2] * 50}), z_order_of(pa.table({"v": [1, 2]}), [("v",)]))
    found: list[Any] = distinct_keys(keys).to_pylist()
    assert len(set(found)) == 100
    assert max(found[:50]) < min(found[50:])
    assert distinct_keys(keys).equals(distinct_keys(keys))
    assert len(distinct_keys(keys[:0])) == 0
