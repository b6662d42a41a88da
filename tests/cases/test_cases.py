"""Every merge case ends as its file says, with touched files rewritten and with rows marked."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

import deltamerge
from tests.cases.conditions import caught_as, needs_rows
from tests.cases.format import Case, Expected, case_files, load_cases
from tests.cases.running import Engine, Outcome, large_sources, run_at
from tests.cases.tables import Tables, rendered_table
from tests.e2e.counting import jobs_of
from tests.e2e.tables import conf
from tests.java import INTERPRETED

ALL = bool(os.environ.get("DELTAMERGE_TEST_ALL"))
CASES = [case for file in case_files() for case in load_cases(file)]
ENGINE = Engine(deltamerge.sql, deltamerge.DeltaTable)
JOIN = replace(ENGINE, settings=(("spark.deltamerge.strategy", "join"),))
ROUTE = replace(ENGINE, settings=(("spark.deltamerge.strategy", "route"),))
MEET = replace(ENGINE, settings=(("spark.deltamerge.strategy", "meet"),))
LARGE = replace(ENGINE, within=large_sources)


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    """The tables, in a session that interprets its queries: compiling them takes longer than a few rows."""
    with conf(spark, INTERPRETED):
        yield Tables(spark, tmp_path_factory.mktemp("cases"))


def in_sample(case: Case, parts: int) -> bool:
    """Whether a case is in the fixed share of cases that stands for all."""
    return ALL or zlib.crc32(case.id.encode()) % parts == 0


def parameters() -> list[object]:
    """Each case in each mode: without and with deletion vectors.

    When everything is tested all of them by a join, too, with source rows sent to the owners of files where that can be, with the
    rows of both sides sent to where they meet, and as if the source could not be held.
    """
    found = []
    for case in CASES:
        marks = [pytest.mark.xfail(reason=case.fails, strict=True)] if case.fails else []
        for mode in ("rewritten", "marked"):
            others = ((JOIN, "joined"), (ROUTE, "routed"), (MEET, "met"), (LARGE, "large"))
            for engine, name in ((ENGINE, mode), *((engine, f"{mode}, {how}") for engine, how in others)):
                if case.only in (None, mode) and (ALL or engine is ENGINE):
                    found.append(pytest.param(case, mode == "marked", engine, id=f"{case.id} [{name}]", marks=marks))
    return found


@pytest.mark.parametrize(("case", "vectors", "engine"), parameters())
def test_case(
    request: pytest.FixtureRequest, spark: SparkSession, tables: Tables, case: Case, vectors: bool, engine: Engine
) -> None:
    if request.config.getoption("--connect") and not in_sample(case, 4):
        pytest.skip("a quarter of the cases runs on Connect; all do with DELTAMERGE_TEST_ALL=1")
    made = tables.copy_of(case.target, vectors)
    jobs = jobs_of(spark)
    outcome = run_at(spark, case, made, engine)
    check(case.expected, outcome)
    if case.expected.error is not None:
        assert issubclass(outcome.raised or object, caught_as(case.expected.error))
        assert jobs_of(spark) == jobs or needs_rows(case.expected.error)
    if (
        outcome.counts == (0, 0, 0)
        and case.expected.result is not None
        and len(case.expected.result.header) == len(case.target.header)
    ):
        assert not outcome.committed
    for word in case.says:
        assert word in outcome.message
    expected = dict(case.vector_metrics or case.metrics if vectors else case.metrics)
    assert {name: int(outcome.metrics.get(name, 0)) for name in expected} == expected


def check(expected: Expected, outcome: Outcome) -> None:
    """The outcome is the expected one, and an error commits nothing."""
    assert outcome.error == expected.error, outcome.message
    if expected.error is not None:
        assert not outcome.committed
        return
    assert expected.result is not None
    assert outcome.content == rendered_table(expected.result)
    assert outcome.counts == expected.counts
    if expected.feed is not None:
        assert outcome.feed == rendered_table(expected.feed)
