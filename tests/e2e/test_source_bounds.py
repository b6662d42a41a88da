"""What of a source reaches the driver is bounded over all its partitions together, whatever the driver may have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from deltamerge.budgets import DEFAULTS, Budgets
from deltamerge.merge.plan.choose import choose_readings
from deltamerge.spark.source.evaluate import evaluate
from deltamerge.spark.source.facts import Evaluation, Source, bounds_in
from deltamerge.spark.source.inspect import Inspection, inspect_source
from deltamerge.worker.scan.store import DataStore
from tests.e2e.counting import jobs_of

pytestmark = pytest.mark.classic  # the setting is of the driver


@contextmanager
def driver_may_have(spark: SparkSession, size: str) -> Iterator[None]:
    """The driver takes no larger results of a job."""
    context: Any = spark.sparkContext._jsc
    settings = context.sc().conf()
    settings.set("spark.driver.maxResultSize", size)
    try:
        yield
    finally:
        settings.remove("spark.driver.maxResultSize")


def texts(spark: SparkSession, partitions: int, width: int) -> DataFrame:
    """A source whose size nobody foresees: a row of `width` bytes a partition."""
    rows = spark.range(0, partitions, 1, partitions).where("id >= 0")
    return rows.selectExpr("id AS k", f"repeat('x', {width}) AS w").mapInArrow(lambda batches: batches, "k long, w string")


def evaluated(frame: DataFrame, bounded: Sequence[str] = ("k",), budgets: Budgets = DEFAULTS) -> Source:
    """A source with its columns k and w."""
    source = inspect_source(frame, Inspection(["k", "w"], DataStore("file", "/"), bounded), budgets)
    return evaluate(source, choose_readings(source.facts, budgets), bounded, budgets)


def test_many_partitions_send_no_more_than_the_driver_holds(spark: SparkSession) -> None:
    """200 partitions of 32 kB, a twenty-fifth of all that is usual: 6.4 MB, of which the driver may have 4."""
    few = Budgets(counted_part_bytes=32_500, counted_bytes=320_000, collected_bytes=3_000_000)
    before = jobs_of(spark)
    with driver_may_have(spark, "4m"):
        source = evaluated(texts(spark, 200, 32_000), budgets=few)
    assert jobs_of(spark) - before == 1
    assert (source.facts.evaluation, source.rows) == (Evaluation.MATERIALIZED, 200)
    assert source.bytes > 6_400_000
    assert source.facts.bounds is not None
    bounds = bounds_in(source.facts.bounds, "k")
    assert bounds is not None
    assert bounds.to_pylist() == [0, 199]


@pytest.mark.parametrize("foreseen", [True, False])
def test_a_source_that_the_driver_may_not_have_stays_with_spark(spark: SparkSession, foreseen: bool) -> None:
    source = texts(spark, 4, 100_000)
    if foreseen:
        source = spark.range(0, 4, 1, 4).selectExpr("id AS k", "repeat('x', 100000) AS w")
    with driver_may_have(spark, "200k"):
        found = evaluated(source)
        assert (found.facts.evaluation, found.rows) == (Evaluation.MATERIALIZED, 4)
        assert found.bytes >= 400_000
        assert found.facts.bounds is not None
        assert sorted(row.k for row in found.frame.select("k").collect()) == [0, 1, 2, 3]
    assert evaluated(source).facts.evaluation is Evaluation.COLLECTED
