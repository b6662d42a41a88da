"""What tests through the public interface share: where tables are, strategies, and a source that no job may touch."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.stores.paths import StorePath

if TYPE_CHECKING:
    from tests.stores.server import S3Server


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path | StorePath]:
    """Where a test may make tables: a folder, or with `--store s3` one in a bucket, which environment and session open."""
    if request.config.getoption("--store") == "local":
        yield tmp_path
        return
    server: S3Server = request.getfixturevalue("server")
    spark: SparkSession = request.getfixturevalue("spark")
    for name, value in {**server.options, "aws_allow_http": "true"}.items():
        monkeypatch.setenv(name.upper(), value)
    for name, value in server.settings.items():
        spark.conf.set(name, value)
    monkeypatch.setattr(StorePath, "server", server, raising=False)
    yield StorePath(request.getfixturevalue("bucket")) / "tables"
    for name in server.settings:
        spark.conf.unset(name)


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
