"""One session in which delta-spark and deltamerge both run."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.java import INTERPRETED, QUICK_JAVA


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session with delta-spark's extension; its JARs come from Maven Central, once."""
    pytest.importorskip("delta", reason="delta-spark is not installed: run `make oracle`")
    session = oracle_session(tmp_path_factory.mktemp("warehouse"))
    yield session
    session.stop()


def oracle_session(warehouse: Path) -> SparkSession:
    """A session for both engines."""
    from delta import configure_spark_with_delta_pip

    extension = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "2",
    }
    session: SparkSession = configure_spark_with_delta_pip(_builder(warehouse, extension)).getOrCreate()
    return session


def plain_session(warehouse: Path) -> SparkSession:
    """A session like it without delta-spark."""
    return _builder(warehouse, {}).getOrCreate()


def _builder(warehouse: Path, extension: Mapping[str, str]) -> SparkSession.Builder:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    settings = {
        **extension,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": "2",
        # VACUUM of delta-spark lists folders in so many tasks, 10,000 if nothing is said.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
        "spark.sql.warehouse.dir": str(warehouse),
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": "3g",
        "spark.driver.extraJavaOptions": QUICK_JAVA,
        **INTERPRETED,
        "spark.sql.adaptive.enabled": "false",
    }
    builder = SparkSession.builder.master("local[2]").appName("deltamerge oracle")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder


if __name__ == "__main__":
    oracle_session(Path("spark-warehouse")).stop()
