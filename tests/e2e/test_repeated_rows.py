"""Source rows with many partners each: what they make of changes may be too large to be held, and Spark joins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from deltamerge.exceptions import DeltaMultipleMatchException
from deltamerge.merge.execute import match
from deltamerge.tables import DeltaMergeBuilder
from deltamerge.worker.scan.outcomes import TooLarge
from tests.e2e.tables import content, make, source

ROWS = [(number, number % 3, f"row {number}" * 9) for number in range(30)]
CHANGES = [(0, "zero" * 25), (1, "one" * 25), (7, "seven" * 25)]
WIDE = "x" * 1_000


@pytest.fixture
def merge(spark: SparkSession, tmp_path: Path) -> DeltaMergeBuilder:
    """Twenty rows of the table have one of two partners; one source row has none."""
    table = make(spark, tmp_path / "t", "id int, k int, v string", ROWS, files=3)
    return table.merge(source(spark, "k int, v string", CHANGES), "t.k = s.k")


# What takes most: the copies, what a value is made of, what it is, what a condition asks of pairs.
FORMS = {
    "copies": ({"v": "s.v"}, None, lambda v, new: new),
    "source's values": ({"v": "upper(s.v)"}, None, lambda v, new: new.upper()),
    "table's values": ({"v": "substr(t.v, 1, 3)"}, None, lambda v, new: v[:3]),
    "new values": ({"v": f"concat(t.k, '{WIDE}')"}, None, lambda v, new: f"{'0' if new[0] == 'z' else '1'}{WIDE}"),
    "condition": ({"k": "9"}, "length(t.v) > 4 AND length(s.v) > 4", lambda v, new: v),
}


@pytest.mark.parametrize("form", list(FORMS))
@pytest.mark.parametrize("room", [None, 900], ids=["held", "too large"])
def test_changes_that_are_too_large_are_made_by_a_join(
    spark: SparkSession, tmp_path: Path, merge: DeltaMergeBuilder, limit: Callable[..., None], form: str, room: int | None
) -> None:
    if room is not None:
        limit(changed_bytes=room)
    values, condition, expected = FORMS[form]
    merge = merge.whenMatchedUpdate(condition, values)
    strategy = "broadcast" if room is None else "range_exchange" if form == "copies" else "spark_join"
    assert merge.preview().strategy == strategy
    report = merge.run()
    assert (report.updated, report.strategy) == (20, strategy)
    new = dict(CHANGES)
    key = "k" in values
    rows = [(n, 9 if key else k, expected(v, new[k])) if k in new else (n, k, v) for n, k, v in ROWS]
    assert content(spark, tmp_path / "t") == rows


def test_ambiguous_changes_that_are_too_large_are_refused_all_the_same(
    spark: SparkSession, tmp_path: Path, limit: Callable[..., None]
) -> None:
    limit(changed_bytes=900)
    table = make(spark, tmp_path / "t", "id int, k int, v string", ROWS, files=3)
    merge = table.merge(source(spark, "k int, v string", [*CHANGES, (1, "again")]), "t.k = s.k")
    with pytest.raises(DeltaMultipleMatchException):
        merge.whenMatchedUpdate(set={"v": "s.v"}).execute()
    assert content(spark, tmp_path / "t") == ROWS


def test_spark_joins_where_the_driver_may_not_hold_the_result_of_a_job(
    spark: SparkSession,
    tmp_path: Path,
    merge: DeltaMergeBuilder,
    monkeypatch: pytest.MonkeyPatch,
    limit: Callable[..., None],
) -> None:
    def refused(*given: Any) -> TooLarge:
        return TooLarge("Total size of serialized results ...")

    limit(driver_match_bytes=-1)
    monkeypatch.setattr(match, "attempt", refused)
    assert merge.whenMatchedDelete().run().deleted == 20
    assert content(spark, tmp_path / "t") == [row for row in ROWS if row[1] == 2]
