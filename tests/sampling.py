"""Which variants of a test run unless all are asked for: so many that each strategy and each kind of table comes up."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import pytest

# Parameters that repeat a test in another setting; the others make a test of their own.
SETTINGS = frozenset(
    {"strategy", "vectors", "properties", "table", "tasks", "mode", "form", "large", "small", "partition_by", "escaped"}
)


def covering(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Of each test the fewest variants that have every value of every setting, in the order given."""
    return _kept(items, _covering)


def single(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Of each test the first of these variants, in the order given."""
    return _kept(items, lambda variants: _covering(variants)[:1])


def others(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Of each test the other ones of these variants, or the only one, in the order given."""
    return _kept(items, lambda variants: _covering(variants)[1:] or _covering(variants))


def half(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """A fixed half of the tests and those marked `connect`, each with all of its variants, in the order given."""
    return [item for item in items if zlib.crc32(f"half of {_name(item)}".encode()) % 2 or item.get_closest_marker("connect")]


def _kept(items: Sequence[pytest.Item], choose: Callable[[list[pytest.Item]], list[pytest.Item]]) -> list[pytest.Item]:
    groups: dict[tuple[str, ...], list[pytest.Item]] = defaultdict(list)
    for item in items:
        groups[_test(item)].append(item)
    kept = {id(item) for (name, *_), group in groups.items() for item in choose(_turned(name, group))}
    return [item for item in items if id(item) in kept]


def _turned(name: str, group: list[pytest.Item]) -> list[pytest.Item]:
    """A test's variants, beginning with one that depends on its name."""
    start = zlib.crc32(name.encode()) % len(group)
    return group[start:] + group[:start]


def _covering(group: list[pytest.Item]) -> list[pytest.Item]:
    left, missing = group[:], set().union(*map(_values, group))
    chosen = []
    while missing:
        best = max(left, key=lambda item: len(_values(item) & missing))
        chosen.append(best)
        missing -= _values(best)
    return chosen or group


def _test(item: pytest.Item) -> tuple[str, ...]:
    """What the variants of a test share: its name and the values of its other parameters."""
    others = sorted(f"{key}={value!r}" for key, value in _parameters(item) if key not in SETTINGS)
    return (_name(item), *others)


def _name(item: pytest.Item) -> str:
    return f"{item.path.name}::{item.name.partition('[')[0]}"


def _values(item: pytest.Item) -> set[str]:
    return {f"{key}={value!r}" for key, value in _parameters(item) if key in SETTINGS}


def _parameters(item: pytest.Item) -> Iterable[tuple[str, object]]:
    return item.callspec.params.items() if hasattr(item, "callspec") else ()
