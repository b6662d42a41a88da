"""A break of the code on purpose."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Break:
    """In the file `path` of the package `old`, which it holds once, becomes `new`; the `tests` in tests/unit then fail."""

    name: str
    path: str
    old: str
    new: str
    tests: str
