"""The different values of an array."""

from __future__ import annotations

import numpy as np
import pytest

from deltamerge.protocol.values.distinct import distinct


@pytest.mark.parametrize("type", [np.int64, np.uint32, np.int32])
def test_each_value_comes_once_and_in_order(type: type) -> None:
    random = np.random.default_rng(7)
    for size, most in ((0, 1), (1, 1), (1_000, 10), (1_000, 1 << 30)):
        values = random.integers(0, most, size).astype(type)
        found = distinct(values)
        assert found.dtype == type
        assert found.tolist() == sorted(set(values.tolist()))
