"""Every reader of bytes, fuzzed for a moment; `make fuzz` does so for longer."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.effort import ALL
from tests.fuzz.__main__ import shares
from tests.fuzz.corpus import kept
from tests.fuzz.guided import fuzzed
from tests.fuzz.targets import GROUPS, TARGETS, Target

SEED = int(os.environ.get("DELTAMERGE_SEED", "1"))


@pytest.fixture(autouse=True)
def silent() -> Iterator[None]:
    """No word about what is passed over in thousands of damaged logs."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_targets_of_a_group_share_its_minutes() -> None:
    assert shares(6, ["footers", "checkpoint"]) == {"footer": 2, "chunks": 2, "data file": 2, "checkpoint": 6}
    assert list(shares(1, list(GROUPS))) == list(TARGETS)


@pytest.mark.parametrize("name", TARGETS)
def test_bytes_are_read_or_refused_by_name(name: str) -> None:
    found = fuzzed(TARGETS[name](), 10 if ALL else 0.4, SEED, kept(name))
    assert found.wrong == []
    assert found.inputs > len(TARGETS[name]().seeds)


def test_an_error_behind_three_conditions_is_found() -> None:
    """Only by going on from inputs that went further than others: by chance alone it would take millions of tries."""
    found = fuzzed(Target(hidden(), [b"aaaaaaaa"]), 20, 3)
    assert any("ZeroDivisionError" in error for error, _ in found.wrong)


def hidden() -> Callable[[bytes], Any]:
    """A function with an error, in a file that counts as the code's."""
    lines = ["def run(data):", " if data[:1] == b'{':", "  if data[1:2] == b'(':", "   if data[2:3] == b'0':", "    1 / 0"]
    names: dict[str, Any] = {}
    exec(compile("\n".join(lines), "/deltamerge/hidden.py", "exec"), names)
    found: Callable[[bytes], Any] = names["run"]
    return found
