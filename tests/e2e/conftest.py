"""What tests through the public interface share: the strategies of a merge, and a source that no job may touch."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


@pytest.fixture(params=["auto", "join"])
def strategy(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    """The test runs once with each strategy."""
    spark.conf.set("spark.deltamerge.strategy", request.param)
    yield request.param
    spark.conf.unset("spark.deltamerge.strategy")


@pytest.fixture
def untouchable(spark: SparkSession) -> DataFrame:
    """A source with alias s and columns id, name, n, d that fails when it is evaluated."""
    failing = F.when(F.col("id") >= 0, F.raise_error(F.lit("the source was evaluated"))).cast("int")
    columns = [failing.alias("id"), F.lit("x").alias("name"), F.lit(1).alias("n"), F.lit(date(2020, 1, 1)).alias("d")]
    return spark.range(3).select(*columns).alias("s")
