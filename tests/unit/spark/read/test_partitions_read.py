"""Files of which a frame with filters may have read rows."""

from __future__ import annotations

import pyarrow as pa
import pytest

from deltamerge.log.replay.files import FILE_SCHEMA
from deltamerge.spark.plans.filters import Comparison
from deltamerge.spark.read.partitions_read import may_have_read
from tests.unit.merge.merges import snapshot_of, struct

TABLE = snapshot_of(struct(p="string", k="integer", day="date", d="double"), (), ["p", "k", "day", "d"])


def files(**values: str | None) -> pa.Table:
    return pa.table({"partitionValues": pa.array([list(values.items())], FILE_SCHEMA.field("partitionValues").type)})


FILE = files(p="a", k="5", day="2024-01-02", d="1.5")


@pytest.mark.parametrize(
    ("column", "operator", "values", "expected"),
    [
        ("p", "=", ["a"], True),
        ("p", "=", ["b"], False),
        ("p", "=", ["b", "a"], True),
        ("k", "=", ["6"], False),
        ("k", "<", ["10"], True),
        ("k", "=", ["5.0"], True),  # whatever that is
        ("day", ">=", ["2024-01-02"], True),
        ("day", ">", ["2024-01-02"], False),
        ("day", ">", ["20240102"], True),
        ("d", "=", ["9"], True),  # not compared
        ("x", "=", ["9"], True),
    ],
)
def test_partition_values_are_compared(column: str, operator: str, values: list[str], expected: bool) -> None:
    comparison = Comparison(column, operator, tuple(values))
    assert may_have_read([[comparison]], FILE, TABLE) is expected
    assert may_have_read([[comparison, Comparison("p", "=", ("zz",))]], FILE, TABLE) is False
    assert may_have_read([[comparison], [Comparison("p", "=", ("a",))]], FILE, TABLE) is True


def test_what_is_not_told_may_have_been_read() -> None:
    wanted = [[Comparison("p", "=", ("b",))]]
    assert may_have_read([], FILE, TABLE)
    assert may_have_read([[]], FILE, TABLE)
    assert may_have_read(wanted, files(k="5"), TABLE)
    unknown = pa.table({"partitionValues": pa.array([None], FILE_SCHEMA.field("partitionValues").type)})
    assert may_have_read(wanted, unknown, TABLE)
    assert not may_have_read(wanted, files(p=None), TABLE)
    assert not may_have_read([], FILE.slice(1), TABLE)
