"""Rows that a predicate leaves out are surely none for which it is true."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamerge.protocol.values.predicate import ALWAYS, And, Compare, IsNotNull, IsNull, OneOf, Or, Path, Predicate
from deltamerge.worker.skipping.narrow import may_hold, narrows
from tests.effort import examples
from tests.unit.log.rows import KINDS, holds, predicates

DECIDED = {"byte", "integer", "long", "date", "timestamp", "timestamp_ntz"}


@examples(400)
@given(st.data())
def test_no_row_is_left_out_for_which_the_predicate_is_true(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(KINDS), min_size=2, max_size=2), label="kinds")
    columns: dict[Path, Any] = {(name,): kind for name, kind in zip("ab", kinds, strict=True)}
    row = st.fixed_dictionaries({path: st.none() | kind.values for path, kind in columns.items()})
    rows = data.draw(st.lists(row, max_size=8), label="rows")
    predicate = data.draw(predicates(columns), label="predicate")
    table = pa.table({path[0]: pa.array([r[path] for r in rows], kind.type) for path, kind in columns.items()})
    found = may_hold(predicate, table)
    true = [holds(predicate, r, columns) for r in rows]
    assert len(found) == len(rows)
    assert all(kept for kept, is_true in zip(found.tolist(), true, strict=True) if is_true)
    assert narrows(predicate, table.schema) or found.all()
    if all(kind.name in DECIDED for kind in kinds) and "<=>" not in str(predicate) and "None" not in str(predicate):
        assert found.tolist() == true


ROWS = pa.table({"k": pa.array([1, 5, None, 9], pa.int32()), "w": ["a", "b", None, "c"]})


def at_least(value: int, type: pa.DataType | None = None) -> Compare:
    return Compare(("k",), ">=", pa.scalar(value, type or pa.int32()))


@pytest.mark.parametrize(
    ("predicate", "kept"),
    [
        (at_least(5), [False, True, False, True]),
        (And((at_least(5), Compare(("w",), "=", pa.scalar("c")))), [False, True, False, True]),
        (Or((at_least(9), IsNull(("k",)))), [False, False, True, True]),
        (OneOf(("k",), pa.array([1, 9], pa.int32()), or_null=True), [True, False, True, True]),
        (Or(()), [False] * 4),
    ],
)
def test_what_is_surely_compared_narrows(predicate: Predicate, kept: list[bool]) -> None:
    assert narrows(predicate, ROWS.schema)
    assert may_hold(predicate, ROWS).tolist() == kept


@pytest.mark.parametrize(
    "predicate",
    [
        ALWAYS,
        Or((at_least(5), Compare(("w",), "=", pa.scalar("c")))),
        at_least(5, pa.int64()),
        Compare(("k", "x"), "=", pa.scalar(1, pa.int32())),
        Compare(("k",), "=", pa.scalar(None, pa.int32())),
        Compare(("k",), "<=>", pa.scalar(1, pa.int32())),
        IsNotNull(("w",)),
        IsNotNull(("other",)),
    ],
)
def test_what_is_not_leaves_all_rows(predicate: Predicate) -> None:
    assert not narrows(predicate, ROWS.schema)
    assert may_hold(predicate, ROWS).all()
