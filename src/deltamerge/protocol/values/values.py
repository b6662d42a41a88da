"""Values of JSON actions, each of the kind that the protocol gives it. Must not know which action they are of."""

from __future__ import annotations

import json
from typing import Any


def text(value: Any) -> str:
    """A text. Raises TypeError, and ValueError for one that has no bytes."""
    if not isinstance(value, str):
        raise TypeError(f"a text is expected, found {str(value)[:80]!r}")
    value.encode()  # a lone surrogate is no text for Arrow, nor for a file
    return value


def text_or_none(value: Any) -> str | None:
    """A text or null. Raises TypeError, ValueError."""
    return None if value is None else text(value)


def long(value: Any) -> int:
    """A whole number of 64 bits. Raises TypeError, ValueError."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"a whole number is expected, found {str(value)[:80]!r}")
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"{str(value)[:80]} is no long")
    return value


def long_or_none(value: Any) -> int | None:
    """A whole number of 64 bits or null. Raises TypeError, ValueError."""
    return None if value is None else long(value)


def texts(values: Any) -> tuple[str, ...]:
    """A list of texts; null is an empty one. Raises TypeError, ValueError."""
    if values is not None and not isinstance(values, list | tuple):
        raise TypeError(f"a list is expected, found {str(values)[:80]!r}")
    return tuple(text(value) for value in values or ())


def text_map(values: Any) -> dict[str, str]:
    """A map of texts; numbers and booleans count as their JSON text, as they do for delta-spark, and null as absent."""
    found = {}
    for name, value in (values or {}).items():
        if value is not None:
            found[text(name)] = json.dumps(value) if isinstance(value, bool | int | float) else text(value)
    return found
