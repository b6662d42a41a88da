"""Ratios, bars and pictures from records, and which points a suite has."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from benchmarks.bars import bars_table
from benchmarks.cases import WHOLE_IF
from benchmarks.engines import OURS, OURS_DV, RUST, SPARK, SPARK_DV
from benchmarks.lines import described, geometric_mean, median, ratio
from benchmarks.pictures import bars, lines
from benchmarks.report import report
from benchmarks.suites import SUITES, points

SECONDS = {OURS: [1.0, 2.0, 9.0], SPARK: [10.0, 12.0, 11.0], OURS_DV: [1.0], SPARK_DV: [3.0], RUST: [1.0]}


def record_of(number: int, seconds: dict[str, list[float]] = SECONDS) -> dict[str, Any]:
    engines = {name: {"seconds": s, "cpu": s, "bytes": [1 << 20] * len(s), "jobs": [2] * len(s)} for name, s in seconds.items()}
    point = points("basic", ())[number]
    return {**point.record(), "engines": engines, "floor": 0.5, "cores": 2, "load": 0.1, "at": 1, "took": 1.0, "versions": {}}


def test_ratios_are_of_medians_and_of_engines_of_a_kind() -> None:
    record = record_of(0)
    assert median(record, OURS) == 2.0
    assert ratio(record, SPARK) == 5.5
    assert ratio(record, SPARK_DV) == 3.0
    assert ratio(record, "delta-rs, pruning") is None
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0)


def test_a_bar_that_does_not_hold_says_so() -> None:
    table = bars_table([record_of(0), record_of(1)])
    held = {line.split("|")[1].strip(): line.split("|")[4].strip() for line in table if line.startswith("| ")}
    assert held["each case against delta-spark with deletion vectors"] == "**no**, in 2 of 2"
    assert held["each case against delta-spark copying on write"] == "yes"
    assert held["geometric mean against delta-rs"] == "**no**"
    assert held["peak memory, delta-spark's to ours"] == ""


def test_means_are_of_basic_cases_into_tables_with_ranges() -> None:
    record, mean = record_of(0), "geometric mean against delta-spark copying on write"
    others = [
        {**record_of(1, {OURS: [100.0], SPARK: [1.0]}), "shape": {**record["shape"], "layout": "scattered"}},
        {**record_of(1, {OURS: [100.0], SPARK: [1.0]}), "case": WHOLE_IF.name},
    ]
    table = bars_table([record, *others])
    held = {line.split("|")[1].strip(): line.split("|")[3].strip() for line in table if line.startswith("| ")}
    assert held[mean] == "5.50"
    assert held["each case against delta-spark copying on write"].startswith("0.01 ")
    assert held["a large source, clauses with conditions, against delta-spark"].startswith("0.01 ")


def test_what_a_merge_costs_at_least_is_of_tables_in_which_all_cases_are_measured() -> None:
    record = {**record_of(0, {OURS: [0.2]}), "floor": 0.1}
    large = {**record, "shape": {**record["shape"], "rows": 40_000_000}, "engines": {OURS: {"seconds": [9.0]}}}
    (line,) = [line for line in bars_table([record, large]) if "empty jobs" in line]
    assert "| 0.50 (" in line


def test_a_failed_engine_is_named_with_its_reason() -> None:
    record = record_of(0)
    record["engines"][RUST] = {"error": "no such thing"}
    assert "failed: no such thing" in described(record)


def test_the_report_has_tables_and_pictures(tmp_path: Path) -> None:
    text = "\n".join(report([record_of(number) for number in range(4)], tmp_path))
    assert "| 2.00 (1.00-9.00) | 11.00 (10.00-12.00) | 5.5 (5.5) |" in text
    (picture,) = tmp_path.glob("ratios-4000000-*.svg")
    assert picture.name in text
    ElementTree.parse(picture)


def test_what_is_measured_for_growth_alone_counts_for_no_bar(tmp_path: Path) -> None:
    records = [record_of(number) for number in range(4)]
    wide = record_of(1, {OURS: [100.0], SPARK: [1.0]})
    wide = {**wide, "key": "wide", "shape": {**wide["shape"], "columns": 300}}
    alone = record_of(1, {OURS: [0.1], SPARK: [1.0]})
    alone = {**alone, "key": "alone", "shape": {**alone["shape"], "rows": 1_000_000}}
    bars_of = bars_table(records)
    assert bars_table([*records, wide]) != bars_of
    assert all(line in report([*records, wide, alone], tmp_path) for line in bars_of if line)


def test_pictures_are_well_formed_whatever_the_names() -> None:
    colours = {"a & b": "#000", "c": "#fff"}
    for text in (
        bars("x < y", {"one": {"a & b": 0.2, "c": 30.0}}, colours, "note"),
        lines("x < y", {"a & b": [(1, 0.01), (10, 5.0)], "c": [(1, 1.0)]}, colours, "across", "up", ["c"]),
    ):
        root = ElementTree.fromstring(text)
        assert root.tag.endswith("svg")


@pytest.mark.parametrize("suite", SUITES)
def test_each_point_of_a_suite_is_measured_once(suite: str) -> None:
    found = points(suite, ())
    assert len({point.key for point in found}) == len(found) > 10


def test_the_basic_suite_runs_on_scattered_tables_too() -> None:
    scattered = points("basic", (10_000,), ("scattered",))
    assert {point.shape.layout for point in scattered} == {"scattered", "partitioned", "log"}
    assert [point.case for point in scattered] == [point.case for point in points("basic", (10_000,))]
