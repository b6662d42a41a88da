"""Finds the tests that take longer than others in what pytest prints with `--durations=0`, as `make slow` does."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

_LINE = re.compile(r"^([\d.]+)s (setup|call|teardown)\s+tests/(?:\S+/)?(\w+/\w+\.py)(?:::\w+)*::(\w+)")
_SECONDS = 0.8
_ALL_SECONDS = 20.0
# What any change may break.
_ALWAYS = (
    "faults/test_histories.py",
    "install/test_install.py::test_classic",
    "install/test_notebook.py",
    "plan/test_choose.py",
    "unit/test_docs.py",
    "unit/test_import.py",
    "cases/test_cases.py",
)


def slow(lines: list[str]) -> list[str]:
    """The tests whose variants take longer than that each in the mean, or very long all together: folder, file and name."""
    seconds, calls = Counter[str](), Counter[str]()
    for taken, step, file, name in (found.groups() for found in map(_LINE.match, lines) if found):
        test = f"{file}::{name}"
        seconds[test] += float(taken)  # type: ignore[assignment]
        calls[test] += step == "call"
    found = (test for test, total in seconds.items() if total > min(_SECONDS * max(calls[test], 1), _ALL_SECONDS))
    return sorted(test for test in found if not test.startswith(_ALWAYS))


if __name__ == "__main__":
    Path(__file__).with_suffix(".txt").write_text("\n".join(slow(sys.stdin.read().splitlines())) + "\n", encoding="utf-8")
