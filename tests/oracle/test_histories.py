"""What three engines write into one table is what some serial order gives; DELTAMERGE_SOAK is in seconds."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.faults import serial
from tests.faults.exploring import counting, explore, finds_conflicts_that_nobody_checks
from tests.oracle.histories import ENGINES, EveryWriter, rust_append, rust_update

STEPS = 25
SECONDS = float(os.environ.get("DELTAMERGE_SOAK", "15"))


@pytest.fixture(autouse=True)
def counts(spark: SparkSession) -> Iterator[Counter[str]]:
    """How statements have ended."""
    with counting(EveryWriter, spark) as counts:
        yield counts


@pytest.mark.timeout(0)
def test_histories_of_three_engines_are_serial(counts: Counter[str]) -> None:
    # For soaks: in a run of seconds an engine may have no commit. That each one can commit, the next test holds.
    if explore(EveryWriter, SECONDS, STEPS) > 20:
        assert {*ENGINES} <= {name.split()[0] for name in counts if name.endswith(" commits")}


@pytest.mark.parametrize("vectors", [True, False])
def test_each_engine_commits_between_others(counts: Counter[str], vectors: bool) -> None:
    machine = EveryWriter()
    machine.create(vectors, "WriteSerializable")
    machine.begin(serial.merge({0: 5}, 0))
    machine.delta_spark_merges(serial.merge({1: 5, 7: 2}, 1))
    machine.delta_rs_writes(rust_update(1, 3))
    machine.delta_spark_writes(serial.append(8, 0, 1))
    machine.delta_rs_writes(rust_append(9, 0, 1))
    machine.end(0)
    machine.end(0)
    machine.versions_are_those_of_the_model()
    machine.teardown()
    assert counts == {
        "MERGE commits": 3,
        "delta-rs UPDATE commits": 1,
        "delta-spark INSERT commits": 1,
        "delta-rs INSERT commits": 1,
        "delta-spark MERGE conflicts": 1,
    }


def test_a_conflict_that_is_not_seen_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    finds_conflicts_that_nobody_checks(EveryWriter, STEPS, monkeypatch)
