"""Grouped rows of DataFrames that know a column which they do not show, and how classes are made of Spark's own.

What functions do with whole groups is refused where these are made by that column: they would be given it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import Column, GroupedData

from deltamerge.errors import AnalysisError
from deltamerge.spark.pyspark.adapter import rebound
from deltamerge.spark.session.frames import Frame

# What hands whole rows of groups to a function, the hidden column among them.
_OF_GROUPS = ("apply", "applyInArrow", "applyInPandas", "applyInPandasWithState", "cogroup", "transformWithState",
              "transformWithStateInPandas")  # fmt: skip

_CLASSES: dict[tuple[type, type], type] = {}


def made_class(kind: type, mixin: type) -> type:
    """A subclass that goes by the name of its base, for those who look at names."""
    shown = {name: getattr(kind, name) for name in ("__doc__", "__module__", "__qualname__")}
    return _CLASSES.setdefault((kind, mixin), type(kind.__name__, (mixin, kind), shown))


def bound(value: Any, frames: tuple[tuple[Frame, Frame], ...]) -> Any:
    """An argument whose Columns are bound to the other ones of some frames."""
    if not frames:
        return value
    if isinstance(value, Column):
        return rebound(value, frames)
    if isinstance(value, list | tuple):
        return [bound(item, frames) for item in value]
    return {key: bound(item, frames) for key, item in value.items()} if isinstance(value, dict) else value


class Grouping:
    """What grouped rows do otherwise whose DataFrame knows a hidden column."""

    deltamerge_grouped: tuple[Any, str, tuple[Any, ...]]

    def agg(self, *exprs: Any) -> Frame:
        frame, name, given = self.deltamerge_grouped
        hidden = frame.deltamerge_hidden

        def plain() -> Frame:
            found: Frame = super(Grouping, self).agg(*bound(exprs, hidden.before))  # type: ignore[misc]
            return found

        def whole() -> Frame:
            regrouped: Any = frame._by_whole(name, given, {})
            return regrouped.agg(*frame._without(bound(exprs, frame._frames())))  # type: ignore[no-any-return]

        return frame._either(whole, plain) if frame._names(exprs) else plain()

    def cogroup(self, other: Any) -> Any:
        if isinstance(other, ByHidden):
            return other.cogroup(self)  # type: ignore[attr-defined]
        return super().cogroup(other)  # type: ignore[misc]


class ByHidden:
    """What grouped rows do otherwise that are grouped by the hidden column: the rows of the frame that shows it."""

    deltamerge_grouped: tuple[Any, str, tuple[Any, ...]]

    def agg(self, *exprs: Any) -> Frame:
        frame, _, _ = self.deltamerge_grouped
        make = frame.deltamerge_hidden.guard(lambda: frame._without(bound(exprs, frame._frames())))
        return super().agg(*make())  # type: ignore[misc,no-any-return]


def _refused(name: str) -> Callable[..., Any]:
    def method(self: ByHidden, *given: Any, **named: Any) -> Any:
        hidden = self.deltamerge_grouped[0].deltamerge_hidden
        field = f"{hidden.name}.file_name"

        def refuse() -> Any:
            raise AnalysisError(
                "DELTAMERGE_UNSUPPORTED_STATEMENT",
                f"{name} of rows that are grouped by the column {hidden.name} of a Delta table is not supported.",
                parameters={"statement": name},
                hint=f"Choose its fields before: df.select('*', '{field}').groupBy('file_name').{name}(..).",
            )

        return hidden.guard(refuse)()

    return method


def grouping(grouped: Any, frame: Any, name: str, given: tuple[Any, ...], mixin: type = Grouping) -> Any:
    """Grouped rows as ones of a frame that knows the column, of which a method has made them of what it was given."""
    grouped.__class__ = made_class(type(grouped), mixin)
    grouped.deltamerge_grouped = frame, name, given
    return grouped


def as_of_spark(mixin: type, base: Any, made: Mapping[str, Callable[..., Any]]) -> None:
    """Give a class those methods that this PySpark has, under the names, signatures and texts of Spark's own."""
    for name, method in {**vars(mixin), **made}.items():
        if name.startswith("_") or not callable(method):
            continue
        if hasattr(base, name):
            setattr(mixin, name, functools.update_wrapper(method, getattr(base, name)))
        elif name in vars(mixin):
            delattr(mixin, name)


as_of_spark(Grouping, GroupedData, {})
as_of_spark(ByHidden, GroupedData, {name: _refused(name) for name in _OF_GROUPS})
