"""What tasks are given is pickled with all that it has, also where the code of its classes came by value before."""

from __future__ import annotations

import pickle
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from deltamerge.protocol.values import condition, predicate
from deltamerge.worker.scan import scan

# Beyond the year 9999, where Python has no date.
DAY = pa.array([4_000_000], pa.int32()).cast(pa.date32())[0]
GIVEN: list[tuple[ModuleType, Any]] = [
    (scan, scan.FileTask(0, "a", {"p": DAY}, rows=3)),
    (predicate, predicate.Compare(("x",), "<", DAY)),
    (condition, condition.Constant(DAY)),
]


def day_of(value: Any) -> int:
    days: int = value.partition["p"].value if isinstance(value, scan.FileTask) else value.value.value
    return days


@pytest.mark.parametrize(("module", "value"), GIVEN, ids=lambda value: type(value).__name__)
def test_dates_beyond_those_of_python_come_along(module: ModuleType, value: Any) -> None:
    assert day_of(pickle.loads(pickle.dumps(value))) == 4_000_000
    cloudpickle.register_pickle_by_value(module)
    try:
        by_value = cloudpickle.loads(cloudpickle.dumps(value))
    finally:
        cloudpickle.unregister_pickle_by_value(module)
    assert type(by_value) is type(value)
    for one in (value, by_value):
        assert day_of(pickle.loads(pickle.dumps(one))) == 4_000_000
