"""Every merge case ends as its file says, with touched files rewritten or with rows marked."""

from __future__ import annotations

import zlib
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

import deltamerge
from tests.cases.conditions import caught_as, needs_rows
from tests.cases.format import Case, Expected, case_files, load_cases
from tests.cases.running import Engine, Outcome, large_sources, run_at, spliced
from tests.cases.tables import Tables, rendered_table
from tests.e2e.counting import jobs_of
from tests.effort import ALL

CASES = [case for file in case_files() for case in load_cases(file)]
ENGINE = Engine(deltamerge.sql, deltamerge.DeltaTable)
MODES = ("rewritten", "marked")
FORCED = ("spark_join", "range_exchange", "hash_exchange")
STRATEGIES = (
    (ENGINE, "chosen"),
    *((replace(ENGINE, settings=(("spark.deltamerge.strategy", name),)), name) for name in FORCED),
    (replace(ENGINE, within=large_sources), "large source"),
    (replace(ENGINE, within=spliced), "spliced"),
)


def in_sample(case: Case, parts: int) -> bool:
    """Whether a case is in the fixed share of cases that stands for all."""
    return ALL or zlib.crc32(case.id.encode()) % parts == 0


def modes(case: Case) -> tuple[str, ...]:
    """Without and with deletion vectors; only one of them, which the title decides, if the case says the same of both.

    When everything is tested each case runs in both.
    """
    if case.only is not None:
        return (case.only,)
    if ALL or case.vector_metrics or case.unconfirmed or case.expected.feed is not None:
        return MODES
    return (MODES[zlib.crc32(case.title.encode()) % 2],)


def parameters() -> list[object]:
    """Each case in its modes.

    When everything is tested all of them with every strategy, too, and as if the source were too large to be held.
    """
    found = []
    for case in CASES:
        marks = [pytest.mark.xfail(reason=case.fails, strict=True)] if case.fails else []
        for mode in modes(case):
            for engine, name in STRATEGIES:
                if ALL or engine is ENGINE:
                    how = mode if engine is ENGINE else f"{mode}, {name}"
                    found.append(pytest.param(case, mode == "marked", engine, id=f"{case.id} [{how}]", marks=marks))
    return found


@pytest.mark.parametrize(("case", "vectors", "engine"), parameters())
def test_case(
    request: pytest.FixtureRequest, spark: SparkSession, tables: Tables, case: Case, vectors: bool, engine: Engine
) -> None:
    if request.config.getoption("--connect") and not in_sample(case, 8):
        pytest.skip("an eighth of the cases runs on Connect; all do with DELTAMERGE_TEST_ALL=1")
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
