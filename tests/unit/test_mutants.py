"""The breaks of tests/mutants fit the code that they break."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutants.base import Break
from tests.mutants.breaks import BREAKS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("item", BREAKS, ids=lambda item: item.name)
def test_a_break_fits_the_code(item: Break) -> None:
    text = (ROOT / "src" / "deltamerge" / item.path).read_text(encoding="utf-8")
    assert text.count(item.old) == 1
    ast.parse(text.replace(item.old, item.new))
    assert all((ROOT / "tests" / "unit" / test).exists() for test in item.tests.split())


def test_there_are_enough_breaks() -> None:
    assert len(BREAKS) >= 60
    assert len({item.name for item in BREAKS}) == len(BREAKS)
