"""Methods and properties of PySpark's classes replaced, so that the classes' own remain to be called and to be put back."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from deltamerge.spark.session.plain import PLAIN

_REPLACED: list[tuple[type, str, Any]] = []

Make = Callable[[Any], Callable[..., Any]]
"""Makes a method from the class's own; for a property both are its getters."""


def replace_attribute(kind: type, name: str, make: Make) -> None:
    """Put another method or property in the place of the one that a class has or inherits. Twice is once."""
    owner = next(found for found in kind.__mro__ if name in vars(found))
    own = vars(owner)[name]
    if hasattr(own, PLAIN):
        return
    other: Any
    if isinstance(own, property):
        assert own.fget is not None
        other = _Property(functools.wraps(own.fget)(make(own.fget)))
        other.__doc__ = own.__doc__
    else:
        other = functools.wraps(own)(make(own))
    setattr(other, PLAIN, own)
    setattr(owner, name, other)
    _REPLACED.append((owner, name, other))


def put_back() -> None:
    """Put back the classes' own methods and properties, but where somebody else has put another one over ours."""
    while _REPLACED:
        owner, name, other = _REPLACED.pop()
        if vars(owner).get(name) is other:
            setattr(owner, name, getattr(other, PLAIN))


class _Property(property):
    """A property that takes attributes."""
