"""The preview of every merge case tells what the merge then does: its counts, its touched files, its strategy, its error."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from deltamerge.commands.rows import merge_text
from deltamerge.commands.rows.merge_rows import merge_rows
from deltamerge.merge.preview import MergePreview
from deltamerge.merge.report import MergeReport
from deltamerge.merge.run import previewed
from deltamerge.tables import merge_builder
from tests.cases.format import Case
from tests.cases.running import Engine, condition_of, run_at
from tests.cases.tables import Tables
from tests.cases.test_cases import CASES, MODES, STRATEGIES, in_sample
from tests.effort import ALL

_SAMPLE = 100


@dataclass
class Both:
    """What each preview of a merge into the table at `place` told, and what the merge then did: a report, or an error's name."""

    place: Path
    told: list[MergePreview | str] = field(default_factory=list)
    done: list[MergeReport | str] = field(default_factory=list)

    def merge(self, spark: SparkSession, table: Any, spec: Any, *others: Any) -> MergeReport:
        """A merge whose preview comes first."""
        files = sorted(self.place.rglob("*"))
        try:
            self.told.append(previewed(spark, table, spec))
        except Exception as error:
            self.told.append(condition_of(error))
        assert sorted(self.place.rglob("*")) == files
        try:
            self.done.append(merge_rows(spark, table, spec, *others))
        except Exception as error:
            self.done.append(condition_of(error))
            raise
        return self.done[-1]

    @contextmanager
    def used(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        with monkeypatch.context() as patch:
            for module in (merge_builder, merge_text):
                patch.setattr(module, "merge_rows", self.merge)
            yield


def parameters() -> list[object]:
    """Each case in each mode with each strategy, and a share of them where not everything is tested."""
    found = []
    for case in CASES:
        for mode in MODES:
            for engine, name in STRATEGIES:
                id = f"{case.id} [{mode}, {name}]"
                if case.only in (None, mode) and not case.fails and (ALL or zlib.crc32(id.encode()) % _SAMPLE == 0):
                    found.append(pytest.param(case, mode == "marked", engine, id=id))
    return found


@pytest.mark.parametrize(("case", "vectors", "engine"), parameters())
def test_the_preview_equals_the_report(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    tables: Tables,
    monkeypatch: pytest.MonkeyPatch,
    case: Case,
    vectors: bool,
    engine: Engine,
) -> None:
    if request.config.getoption("--connect") and not in_sample(case, 8):
        pytest.skip("an eighth of the cases runs on Connect; all do with DELTAMERGE_TEST_ALL=1")
    both = Both(tables.copy_of(case.target, vectors))
    with both.used(monkeypatch):
        run_at(spark, case, both.place, engine)
    assert list(map(figures, both.told)) == list(map(figures, both.done))


def figures(found: MergePreview | MergeReport | str) -> Any:
    """What a preview and a report have in common."""
    if isinstance(found, str):
        return found
    return found.updated, found.deleted, found.inserted, found.touched_files, found.strategy
