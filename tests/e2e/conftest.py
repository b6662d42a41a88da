"""What tests through the public interface share: where tables are, strategies, and a source that no job may touch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from deltamerge.merge import line
from deltamerge.merge.execute import exchange
from deltamerge.merge.execute.attempts import Ran
from deltamerge.spark.source.facts import Source
from tests.e2e.exchanges import READ_BY_WORKERS, WAYS
from tests.e2e.tables import conf, noted
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


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Ran]:
    """How the merges of the test have run, attempt by attempt."""
    return noted(monkeypatch, line, "run_attempts")


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> list[Source]:
    """The sources that the merges of the test have evaluated."""
    return noted(monkeypatch, line, "evaluate")


@pytest.fixture
def apart(limit: Callable[..., None]) -> None:
    """Each file is written by a task of its own where rows are exchanged."""
    limit(range_task_bytes=1)


@pytest.fixture(params=WAYS)
def way(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    """How rows are exchanged: asked for by the session's setting."""
    with conf(spark, WAYS[request.param]):
        yield request.param


@pytest.fixture
def read_by_spark(monkeypatch: pytest.MonkeyPatch, limit: Callable[..., None]) -> list[DataFrame]:
    """The sources that Spark had to read for an exchange, while sources that are files are read by workers."""
    limit(**READ_BY_WORKERS)
    return noted(monkeypatch, exchange, "partitioned_rows")


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
