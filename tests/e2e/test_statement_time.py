"""A merge is one statement: the time that its expressions ask for is the same for every row and clause."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.e2e.tables import content, make, source

OLD = datetime(2020, 1, 1)
ROWS = [(1, OLD, "a"), (2, OLD, "a"), (3, OLD, "b")]
TIMES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "text": ("current_timestamp()", str),
    "a word": ("current_timestamp", str),
    "now": ("now()", str),
    "column": ("current_timestamp()", F.expr),
    "within": ("greatest(now(), timestamp'2020-01-01')", str),
}


def times(spark: SparkSession, path: Path) -> set[Any]:
    return {row[1] for row in content(spark, path)}


@pytest.mark.parametrize("vectors", [False, True], ids=["rewritten", "marked"])
@pytest.mark.parametrize("condition", ["t.id = s.id", "t.id = s.id AND t.w <= s.w"], ids=["keys", "more than keys"])
@pytest.mark.parametrize("form", list(TIMES))
def test_clauses_of_all_kinds_have_the_same_time(
    spark: SparkSession, tmp_path: Path, strategy: str, vectors: bool, condition: str, form: str
) -> None:
    text, given = TIMES[form]
    table = make(spark, tmp_path / "t", "id int, at timestamp, w string", ROWS, files=2, vectors=vectors)
    changes = source(spark, "id int, w string", [(2, "a"), (3, "a"), (4, "a")])
    merge = table.merge(changes, condition).whenMatchedUpdate(set={"at": given(text)})
    merge = merge.whenNotMatchedInsert(values={"id": "s.id", "at": given(text), "w": "s.w"})
    merge = merge.whenNotMatchedBySourceUpdate(set={"at": given(text)})
    assert merge.preview().strategy == ("arrow" if strategy == "auto" else "join")
    assert merge.run().inserted == (1 if condition == "t.id = s.id" else 2)
    assert len(times(spark, tmp_path / "t") - {OLD}) == 1
    assert OLD not in times(spark, tmp_path / "t")


def test_the_search_condition_has_the_time_of_the_clauses(spark: SparkSession, tmp_path: Path) -> None:
    """Which only a join can say: in Arrow the condition is asked first."""
    table = make(spark, tmp_path / "t", "id int, at timestamp, w string", ROWS)
    merge = table.merge(source(spark, "id int", [(2,), (4,)]), "t.id = s.id AND t.at < now()")
    apart = merge.whenMatchedUpdate(set={"at": "now()"}).whenNotMatchedInsert(values={"id": "s.id", "at": "now()"})
    assert apart.preview().strategy == "join"
    together = merge.whenMatchedUpdate(set={"at": "now()"}).whenNotMatchedInsert(values={"id": "s.id", "at": "NULL"})
    assert together.preview().strategy == "arrow"
    apart.execute()
    assert len(times(spark, tmp_path / "t") - {OLD}) == 1
