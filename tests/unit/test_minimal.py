"""`minimal.txt` has the lowest versions that pyproject.toml allows."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tests.old_arrow import _ARGUMENTS, IS_OLD, is_lacking

ROOT = Path(__file__).parents[2]


def test_each_lowest_version_is_that_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = [*project["dependencies"], *project["optional-dependencies"]["cli"]]
    lowest = {found[1]: found[2] for found in (re.fullmatch(r"([a-z]+)>=([\d.]+).*", text) for text in declared) if found}
    assert len(lowest) == len(declared)
    pinned = dict(line.split("==") for line in (ROOT / "minimal.txt").read_text(encoding="utf-8").split())
    assert pinned.pop("pyspark").startswith("4.0.")
    assert pinned.keys() == lowest.keys()
    for name, version in lowest.items():
        assert re.fullmatch(rf"{re.escape(version)}(\.0)*", pinned[name]), name


def test_only_what_a_test_asks_of_pyarrow_itself_is_left_out() -> None:
    assert not is_lacking(TypeError("unexpected keyword argument 'columns'"))
    assert is_lacking(TypeError(f"unexpected keyword argument '{_ARGUMENTS[0]}'")) is IS_OLD
