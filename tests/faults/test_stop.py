"""Ctrl-C in the middle of a merge: its jobs are cancelled, the table is as it was, the session goes on."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.faults.processes import Child


@pytest.mark.parametrize(
    ("kind", "steps"), [("classic", ["reading the source", "joining and writing"]), ("connect", ["joining and writing"])]
)
def test_a_merge_is_stopped(tmp_path: Path, kind: str, steps: list[str]) -> None:
    folder, environment = tmp_path / "child", {"TEST_MASTER": "local[2]"}
    with Child("tests.faults.stopping", tmp_path / "t", kind, folder=folder, environment=environment) as child:
        for step in steps:
            assert child.hear() == step
            asked = time.monotonic()
            child.interrupt()
            assert child.hear() == "stopped: stopped before anything was committed"
            assert time.monotonic() - asked < 5
        assert child.hear() == "1 0"
        assert child.hear() == "1 40 60"
        assert len([name for name in os.listdir(tmp_path / "t" / "_delta_log") if name.endswith("1.json")]) == 1
