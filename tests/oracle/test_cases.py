"""Every merge case ends in delta-spark as its file says; what differs there on purpose is stated beside what is expected here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tests.cases.conditions import caught_as
from tests.cases.format import Case
from tests.cases.running import run_case
from tests.cases.tables import Tables
from tests.cases.test_cases import CASES, check, in_sample, modes
from tests.oracle.engines import DELTA_SPARK

CHOSEN = [case for case in CASES if in_sample(case, 10)]
MODES = [(case, mode) for case in CHOSEN for mode in modes(case)]


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    return Tables(spark, tmp_path_factory.mktemp("cases"))


@pytest.mark.parametrize(("case", "mode"), MODES, ids=[f"{case.id} [{mode}]" for case, mode in MODES])
def test_delta_spark_agrees(spark: SparkSession, tables: Tables, case: Case, mode: str) -> None:
    vectors = mode == "marked"
    if case.unconfirmed and case.unconfirmed.startswith(mode):
        pytest.skip(f"not confirmed by delta-spark: {case.unconfirmed}")
    outcome = run_case(spark, case, tables, DELTA_SPARK, vectors)
    check(case.of_delta_spark, outcome)
    if case.expected.error is not None and outcome.error == case.expected.error and outcome.raised is not Py4JJavaError:
        assert issubclass(outcome.raised or object, caught_as(case.expected.error))  # PySpark can't make some of them its own
    if not case.differs:
        expected = dict(case.vector_metrics or case.metrics if vectors else case.metrics)
        assert {name: int(outcome.metrics.get(name, 0)) for name in expected} == expected


def test_a_difference_is_one() -> None:
    assert [case.id for case in CASES if case.differs and case.theirs == case.expected] == []
