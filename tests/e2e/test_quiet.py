"""What Spark refuses is said once, by this library's error: PySpark's log of it, 15 kB and more, is not printed above it."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

import deltamerge
from tests.e2e.refused_queries import refused_by_deltamerge
from tests.faults.processes import Child
from tests.unit.spark.pyspark.test_quiet import NAMES, Kept

CONDITIONS = [
    "DELTA_MERGE_UNRESOLVED_EXPRESSION",
    "DELTA_MERGE_UNRESOLVED_EXPRESSION",
    "PARSE_SYNTAX_ERROR",
    "DELTA_AGGREGATION_NOT_SUPPORTED",
    "DATATYPE_MISMATCH.CAST_WITH_FUNC_SUGGESTION",
    "DELTA_MERGE_UNRESOLVED_EXPRESSION",
    "PARSE_SYNTAX_ERROR",
    "UNRESOLVED_COLUMN.WITHOUT_SUGGESTION",
    "TABLE_OR_VIEW_NOT_FOUND",
    "DELTA_MISSING_DELTA_TABLE",
    "UNRESOLVED_COLUMN.WITH_SUGGESTION",
]


@pytest.mark.classic
def test_nothing_is_printed_in_a_process_of_its_own(tmp_path: Path) -> None:
    with Child("tests.e2e.refused_queries", tmp_path / "t", folder=tmp_path / "child") as child:
        assert child.hear().split() == CONDITIONS
        assert child.hear() == "UNRESOLVED_COLUMN.WITHOUT_SUGGESTION"
    (log,) = (tmp_path / "child").glob("*.log")
    ours, theirs = log.read_text().split("BY SPARK")
    assert "Logger" not in ours
    assert "Traceback" not in ours
    assert "nothing_of_the_kind" in theirs
    assert "SQLQueryContextLogger" in theirs


def test_nothing_is_logged(spark: SparkSession, tmp_path: Path) -> None:
    deltamerge.write(spark.range(3), str(tmp_path / "t"))
    kept = Kept()
    one, other = map(PySparkLogger.getLogger, NAMES)
    with patch.object(one, "handlers", [kept]), patch.object(other, "handlers", [kept]):
        assert refused_by_deltamerge(spark, str(tmp_path / "t")) == CONDITIONS
    assert kept.messages == []
