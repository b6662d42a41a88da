"""Scalars survive the way to a worker, whether or not Python has a value for them."""

from __future__ import annotations

import pickle
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from deltamerge.protocol.values.condition import Constant
from deltamerge.protocol.values.predicate import Compare
from deltamerge.worker.scan.scan import FileTask

FAR = 253_402_300_800_000_000
VALUES = [
    pa.array([2_932_897], pa.int32()).cast(pa.date32())[0],
    pa.array([FAR]).cast(pa.timestamp("us", "UTC"))[0],
    pa.array([FAR]).cast(pa.timestamp("us", "PST"))[0],
    pa.array([-FAR]).cast(pa.timestamp("us"))[0],
    *map(pa.scalar, (date(2020, 1, 1), 1.5, "a", True, Decimal("1.50"), b"x")),
    pa.scalar(None, pa.date32()),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: str(value.type))
@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps])
def test_a_scalar_arrives_as_it_was(value: pa.Scalar, dumps: Any) -> None:
    task = pickle.loads(dumps(FileTask(1, "a", {"p": value}, rows=3)))
    assert (task.file, task.name, task.rows) == (1, "a", 3)
    compared = pickle.loads(dumps(Compare(("p",), "<", value)))
    assert (compared.column, compared.op) == (("p",), "<")
    for found in (task.partition["p"], compared.value, pickle.loads(dumps(Constant(value))).value):
        assert found.type == value.type
        assert found.equals(value)
