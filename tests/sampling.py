"""Which of the tests run unless all are asked for: each once, in one setting, on classic Spark or on Spark Connect.

Of those with other variants half or a third of them, on the next days the others. Of slow tests' variants a sixth.
"""

from __future__ import annotations

import os
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

# The tests that take longer than others, as tests/slow.py finds them: folder, file and name.
SLOW = frozenset(Path(__file__).with_name("slow.txt").read_text(encoding="utf-8").split())

# On how many days all of their variants run once.
SLOW_DAYS = 6

# Parameters that repeat a test in another setting; the others make a test of their own.
SETTINGS = frozenset(
    {"strategy", "vectors", "properties", "table", "tasks", "mode", "form", "large", "small", "partition_by", "escaped"}
)

# The same of tests/oracle.
ORACLE_SETTINGS = frozenset({"vectors", "partition_by"})


def single(items: Sequence[pytest.Item], settings: frozenset[str] = SETTINGS) -> list[pytest.Item]:
    """Of each test one variant, which the test's name and other parameters decide, in the order given."""
    groups: dict[tuple[str, ...], list[pytest.Item]] = defaultdict(list)
    for item in items:
        groups[_test(item, settings)].append(item)
    kept = {id(group[zlib.crc32("".join(test).encode()) % len(group)]) for test, group in groups.items()}
    return [item for item in items if id(item) in kept]


def quarter(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """A fixed quarter of the tests, each with all of its variants, in the order given."""
    return [item for item in items if zlib.crc32(f"quarter of {_name(item)}".encode()) % 4 == 0]


def todays(items: Sequence[pytest.Item], day: int, slow: frozenset[str] = frozenset()) -> list[pytest.Item]:
    """Of each test with more than four variants every third one, of one with three or four every other one, those left out on the
    days after, in the order given. Of those that are `slow` every sixth one.
    """

    def days(name: str, variants: int) -> int:
        if name in slow:
            return SLOW_DAYS
        return 3 if variants > 4 else 2 if variants > 2 else 1

    return _rotated(items, day, days)


def due(items: Sequence[pytest.Item], day: int, slow: frozenset[str] = frozenset()) -> list[pytest.Item]:
    """All tests; where some are `slow` a sixth of their variants, and every other case, in the order given."""

    def days(name: str, variants: int) -> int:
        if name in slow:
            return SLOW_DAYS
        return 2 if slow and name.startswith("cases/") and variants > 4 else 1

    return _rotated(items, day, days)


def half(items: Sequence[pytest.Item], day: int) -> list[pytest.Item]:
    """Half of the tests, on the next day the others, in the order given."""
    return [item for item in items if (day + zlib.crc32(item.name.encode())) % 2 == 0]


def _rotated(items: Sequence[pytest.Item], day: int, days: Callable[[str, int], int]) -> list[pytest.Item]:
    """Of each test the variants of a day, where all of them take so many days as `days` says of its name and their number."""
    groups: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        groups[place(item)].append(item)
    kept = set[int]()
    for name, group in groups.items():
        ordered = sorted(group, key=lambda item: (zlib.crc32(item.name.encode()), item.name))
        count = days(name, len(group))
        kept |= {id(item) for item in ordered[(day + zlib.crc32(name.encode())) % count :: count]}
    return [item for item in items if id(item) in kept]


def place(item: pytest.Item) -> str:
    """A test's folder, file and name, without its parameters."""
    return f"{item.path.parent.name}/{_name(item)}"


def today() -> int:
    """The number of this day, or of the one for which DELTAMERGE_TEST_DAY asks."""
    return int(os.environ.get("DELTAMERGE_TEST_DAY", datetime.now(UTC).toordinal()))


def _test(item: pytest.Item, settings: frozenset[str]) -> tuple[str, ...]:
    """What the variants of a test share: its name and the values of its other parameters."""
    others = sorted(f"{key}={value!r}" for key, value in _parameters(item) if key not in settings)
    return (_name(item), *others)


def _name(item: pytest.Item) -> str:
    return f"{item.path.name}::{item.name.partition('[')[0]}"


def _parameters(item: pytest.Item) -> Iterable[tuple[str, object]]:
    return item.callspec.params.items() if hasattr(item, "callspec") else ()
