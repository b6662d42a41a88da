"""Spark sessions for tests: classic, or with `--connect` a local Spark Connect server, one for the whole run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

pytest_plugins = ["tests.stores.fixtures"]

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.memory": "2g",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--connect", action="store_true", help="run the tests that need Spark on a local Spark Connect server")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--connect"):
        return
    kept = [item for item in items if "spark" in getattr(item, "fixturenames", ()) and not item.get_closest_marker("classic")]
    dropped = [item for item in items if item not in kept]
    config.hook.pytest_deselected(items=dropped)
    items[:] = kept


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session that tests share; a test that changes its settings puts them back."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder
    builder = builder.remote("local[2]") if request.config.getoption("--connect") else builder.master("local[2]")
    for key, value in {**SETTINGS, "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    if not request.config.getoption("--connect"):
        session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
