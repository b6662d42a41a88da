"""The tables of cases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from deltamerge.budgets import using
from tests.cases.tables import Tables
from tests.e2e.tables import conf
from tests.java import INTERPRETED


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    """The tables, in a session that interprets its queries: compiling them takes longer than a few rows.

    Files have row groups of two rows, so that some are left as they are. Sessions of PySpark 3.5 have to be told to be ANSI.
    """
    with conf(spark, {**INTERPRETED, "spark.sql.ansi.enabled": "true"}), using(row_group_rows=2):
        yield Tables(spark, tmp_path_factory.mktemp("cases"))
