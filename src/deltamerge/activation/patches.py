"""Methods and properties of PySpark's classes replaced, so that the classes' own remain to be called and to be put back."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from deltamerge.spark.pyspark.plain import forget_own, keep_own

Make = Callable[[Any], Callable[..., Any]]
"""Makes a method from the class's own; for a property both are its getters."""


def replace_attribute(kind: type, name: str, make: Make) -> None:
    """Put another method or property in the place of the one that a class has or inherits. Twice is once.

    It is also once where somebody has wrapped ours: one in another's place would answer what the other has passed on.
    """
    found = (_REPLACED.get((owner, name)) for owner in kind.__mro__)
    known = next((replacement for replacement in found if replacement is not None), None)
    if known is None or not known.stand(make):
        owner = next(owner for owner in kind.__mro__ if name in vars(owner))
        _REPLACED[owner, name] = replacement = _Replacement(owner, name)
        replacement.stand(make)


def put_back() -> None:
    """Put back the classes' own methods and properties; ours below what somebody has put over it only passes calls on."""
    for replacement in _REPLACED.values():
        replacement.leave()


class _Replacement:
    """A method or property of ours in the place of a class's own.

    It is kept after it has left: whoever holds a method of ours has the one that answers when it stands again.
    """

    def __init__(self, owner: type, name: str) -> None:
        self._owner, self._name, self._own = owner, name, vars(owner)[name]
        self._answers, self._has_left = False, True
        is_property = isinstance(self._own, property)
        self._call = call = self._own.fget if is_property else self._own
        self._ours: Callable[..., Any] = call

        @functools.wraps(call)
        def other(*given: Any, **named: Any) -> Any:
            return (self._ours if self._answers else call)(*given, **named)

        self._other: Any = property(other, doc=self._own.__doc__) if is_property else other

    def stand(self, make: Make) -> bool:
        """Answer from now on; False where somebody has put another one over the class's own since ours has left."""
        now = vars(self._owner).get(self._name)
        if now is self._own:
            setattr(self._owner, self._name, self._other)
        elif now is not self._other and self._has_left:
            return False
        keep_own(self._owner, self._name, self._own)
        if self._has_left:
            self._ours = make(self._call)
        self._answers, self._has_left = True, False
        return True

    def leave(self) -> None:
        """Pass all calls on, and put back the class's own but where somebody else has put another one over ours."""
        self._answers = False
        now = vars(self._owner).get(self._name)
        if now is self._other:
            setattr(self._owner, self._name, self._own)
        if now is self._other or now is self._own:
            forget_own(self._owner, self._name)
            self._has_left = True


_REPLACED: dict[tuple[type, str], _Replacement] = {}
