"""Wrong arguments raise what they raise in delta.tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession

import deltamerge
from deltamerge.tables import DeltaMergeBuilder, DeltaTable
from tests.e2e.tables import make

ON = "t.id = s.id"


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> DeltaTable:
    return make(spark, tmp_path / "t", "id int, n int", [(1, 10)])


ARGUMENTS: dict[str, tuple[Callable[[DeltaMergeBuilder], object], type[Exception], str]] = {
    "set None": (lambda m: m.whenMatchedUpdate(), ValueError, "'set' in whenMatchedUpdate cannot be None"),
    "set list": (lambda m: m.whenMatchedUpdate(set=[1]), TypeError, "'set' in whenMatchedUpdate must be a dict, found to be"),
    "set key": (lambda m: m.whenMatchedUpdate(set={1: "1"}), TypeError, "Keys of dict in 'set' in whenMatchedUpdate"),
    "set value": (lambda m: m.whenMatchedUpdate(set={"n": 1}), TypeError, "Values of dict in 'set' in whenMatchedUpdate"),
    "update condition": (lambda m: m.whenMatchedUpdate(1, {"n": "1"}), TypeError, "'condition' must be a Spark SQL Column"),
    "update all condition": (lambda m: m.whenMatchedUpdateAll(True), TypeError, "'condition' must be a Spark SQL Column"),
    "delete condition": (lambda m: m.whenMatchedDelete(["n"]), TypeError, "'condition' must be a Spark SQL Column"),
    "values None": (lambda m: m.whenNotMatchedInsert(), ValueError, "'values' in whenNotMatchedInsert cannot be None"),
    "values list": (lambda m: m.whenNotMatchedInsert(values="n"), TypeError, "'values' in whenNotMatchedInsert must be a dict"),
    "values key": (
        lambda m: m.whenNotMatchedInsert(values={None: "1"}),
        TypeError,
        "Keys of dict in 'values' in whenNotMatchedIns",
    ),
    "values value": (
        lambda m: m.whenNotMatchedInsert(values={"n": None}),
        TypeError,
        "Values of dict in 'values' in whenNotMatche",
    ),
    "insert condition": (lambda m: m.whenNotMatchedInsert(1, {"n": "1"}), TypeError, "'condition' must be a Spark SQL Column"),
    "insert all condition": (lambda m: m.whenNotMatchedInsertAll(1), TypeError, "'condition' must be a Spark SQL Column"),
    "by source set None": (
        lambda m: m.whenNotMatchedBySourceUpdate(),
        ValueError,
        "'set' in whenNotMatchedBySourceUpdate cannot",
    ),
    "by source set list": (
        lambda m: m.whenNotMatchedBySourceUpdate(set=[]),
        TypeError,
        "'set' in whenNotMatchedBySourceUpdate mu",
    ),
    "by source condition": (lambda m: m.whenNotMatchedBySourceUpdate(1, {"n": "1"}), TypeError, "'condition' must be a Spark SQ"),
    "by source delete condition": (
        lambda m: m.whenNotMatchedBySourceDelete(1),
        TypeError,
        "'condition' must be a Spark SQL Colu",
    ),
}


@pytest.mark.parametrize(("call", "kind", "message"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_wrong_arguments_of_a_clause_raise_as_in_delta_tables(
    table: DeltaTable, untouchable: DataFrame, call: Callable[[DeltaMergeBuilder], object], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind) as caught:
        call(table.merge(untouchable, ON))
    assert str(caught.value).startswith(message)


def test_wrong_arguments_of_a_table(spark: SparkSession, table: DeltaTable) -> None:
    none: Any = None
    for call in (DeltaTable.forPath, DeltaTable.isDeltaTable, deltamerge.read, deltamerge.read_changes):
        with pytest.raises(IllegalArgumentException, match="DELTAMERGE_INVALID_PATH"):
            call(spark, none)
    for call in (DeltaTable.forPath, DeltaTable.forName, deltamerge.read, deltamerge.sql):
        with pytest.raises(IllegalArgumentException, match="DELTAMERGE_INVALID_SESSION"):
            call(none, "t")
    wrong: list[Callable[[], Any]] = [
        lambda: DeltaTable.forName(spark, none),
        lambda: deltamerge.sql(spark, none),
        lambda: deltamerge.write(none, "t"),
        lambda: table.alias(5),  # type: ignore[arg-type]
    ]
    for call in wrong:
        with pytest.raises(TypeError, match=r"must be a (string|DataFrame of Spark), found to be of type"):
            call()
    with pytest.raises(ValueError, match="'limit' in history must be a whole number from 0, found -1"):
        table.history(-1)


def test_wrong_arguments_of_merge_raise_as_in_delta_tables(table: DeltaTable, untouchable: DataFrame) -> None:
    with pytest.raises(ValueError, match="'source' in merge cannot be None"):
        table.merge(None, ON)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"Type of 'source' in merge must be DataFrame"):
        table.merge("s", ON)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'condition' in merge cannot be None"):
        table.merge(untouchable, None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"must be a Spark SQL Column or a string \(expression in SQL syntax\)"):
        table.merge(untouchable, 1)  # type: ignore[arg-type]
