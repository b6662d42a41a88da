"""DataFrames of Delta tables that know a column which they do not show, as Spark's DataFrames of files know `_metadata`.

PySpark has no way to give a plan such a column. So a DataFrame knows another one of the same rows, which shows the column, and
asks that one where the column is named. It is made only then: who does not name the column has Spark's own DataFrame.
An argument that only looks like naming it, as a text with this word, gets what Spark gives where that other plan fails.

The two are plans of their own. Columns that were taken from the first, as `df["id"]`, are those of the second there.
What chooses rows by chance knows nothing of the column: other plans choose other rows.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, GroupedData
from pyspark.sql import functions as F

from deltamerge.errors import AnalysisError
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.spark.plans.attributes import attribute_parts, quoted
from deltamerge.spark.pyspark.adapter import is_connect, rebound, with_stars
from deltamerge.spark.pyspark.quiet import quietly
from deltamerge.spark.read.metadata import METADATA, hidden_name, metadata_frame
from deltamerge.spark.read.snapshot import Rows
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.sql.hidden.column import expression_without

FrameOf = Callable[[Session, Snapshot, Rows | None], Frame]
Guard = Callable[[Callable[[], Frame]], Callable[[], Frame]]
_STARS = ("Column<'*'>", "Column<'unresolvedstar()'>", "Column<'resolvedstar()'>")
# What gives the same rows, or some of them, in whatever order, with all their columns.
_OF_ROWS = ("coalesce", "filter", "hint", "limit", "offset", "repartition", "repartitionByRange", "sort", "sortWithinPartitions",
            "withColumn", "withColumns", "withMetadata")  # fmt: skip
# What names columns that it makes or takes away: naming the hidden one there is naming another.
_OF_NAMES = ("alias", "drop", "withColumnRenamed", "withColumnsRenamed")
_GROUPING = ("agg", "cube", "groupBy", "rollup")


@dataclass(frozen=True)
class Hidden:
    """A column by its name, and who shows it: the frame of the same rows with it behind all other columns.

    `before` are frames whose columns may be named, too, from which this one was made by naming the column.
    """

    name: str
    make: Callable[[], Frame]
    before: tuple[tuple[Frame, Frame], ...] = ()

    @functools.cached_property
    def whole(self) -> Frame:
        """The frame that shows the column."""
        return self.make()

    @functools.cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(rf"(?<!\w){re.escape(self.name)}(?!\w)", re.IGNORECASE)

    def is_named(self, *values: Any) -> bool:
        """Whether arguments of a DataFrame's method may name the column: names, SQL texts, Columns, and what holds such."""
        return any(self._pattern.search(text) for text in _texts(values))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Column):
        try:
            yield str(value)
        except Exception:  # of what can't be shown nothing is known, and Spark is to say what is wrong with it
            return
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, Mapping):
        yield from _texts([*value, *value.values()])


def knowing_frame(spark: Session, snapshot: Snapshot, frame_of: FrameOf, guard: Guard) -> Frame:
    """A snapshot as one of `newest_frame` and `travelled_frame`, that knows `_metadata`; `guard` has its errors caught."""
    name = hidden_name(snapshot.schema)
    return _knowing(frame_of(spark, snapshot, None), Hidden(name, guard(lambda: frame_of(spark, snapshot, metadata_frame))))


def _knowing(frame: Frame, hidden: Hidden) -> Frame:
    given: Any = frame
    kind = type(frame)
    given.__class__ = kind if issubclass(kind, _Knowing) else _class_of(kind)
    given.deltamerge_hidden = hidden
    return frame


_CLASSES: dict[type, type] = {}


def _class_of(kind: type) -> type:
    return _made_class(kind, _Knowing)


def _made_class(kind: type, mixin: type) -> type:
    """A subclass that goes by the name of its base, for those who look at names."""
    shown = {name: getattr(kind, name) for name in ("__doc__", "__module__", "__qualname__")}
    return _CLASSES.setdefault(kind, type(kind.__name__, (mixin, kind), shown))


def _bound(value: Any, frames: tuple[tuple[Frame, Frame], ...]) -> Any:
    """An argument whose Columns are bound to the other ones of some frames."""
    if not frames:
        return value
    if isinstance(value, Column):
        return rebound(value, frames)
    if isinstance(value, list | tuple):
        return [_bound(item, frames) for item in value]
    return {key: _bound(item, frames) for key, item in value.items()} if isinstance(value, dict) else value


class _Knowing:
    """What a DataFrame does otherwise that knows a hidden column."""

    deltamerge_hidden: Hidden
    columns: list[str]

    def select(self, *cols: Any) -> Frame:
        return self._chosen("select", [*cols[0]] if len(cols) == 1 and isinstance(cols[0], list) else [*cols])

    def selectExpr(self, *expr: Any) -> Frame:
        texts = [*expr[0]] if len(expr) == 1 and isinstance(expr[0], list) else [*expr]
        return self._chosen("selectExpr", texts)

    def where(self, condition: Any) -> Frame:
        return self.filter(condition)  # type: ignore[attr-defined,no-any-return]

    def orderBy(self, *cols: Any, **named: Any) -> Frame:
        return self.sort(*cols, **named)  # type: ignore[attr-defined,no-any-return]

    def groupby(self, *cols: Any) -> Any:
        return self.groupBy(*cols)  # type: ignore[attr-defined]

    def metadataColumn(self, colName: str) -> Column:
        hidden = self.deltamerge_hidden
        if colName.lower() == METADATA:
            return hidden.whole[hidden.name]
        return super().metadataColumn(colName)  # type: ignore[misc,no-any-return]

    def join(self, other: Frame, on: Any = None, how: str | None = None) -> Frame:
        hidden, knows = self.deltamerge_hidden, isinstance(other, _Knowing)

        def plain() -> Frame:
            found: Frame = super(_Knowing, self).join(other, _bound(on, hidden.before), how)  # type: ignore[misc]
            return found if knows else self._next(found, "join", (other, on, how), {})

        def whole() -> Frame:
            frames, joined = self._frames(), hidden.whole
            if isinstance(other, _Knowing):
                also = other.deltamerge_hidden
                result = joined.join(also.whole, _bound(on, (*frames, *other._frames())), how)
                if hidden.name == also.name:  # where a frame is joined with itself, only the name tells of both
                    return result.drop(hidden.name)
                return result.drop(joined[hidden.name]).drop(also.whole[also.name])
            result = joined.join(other, _bound(on, frames), how)
            return _knowing(result.drop(joined[hidden.name]), Hidden(hidden.name, lambda: result, frames))

        return self._either(whole, plain) if self._names(on) else plain()

    def __getitem__(self, item: Any) -> Any:
        if isinstance(item, list | tuple):
            return self.select(*item)
        if isinstance(item, Column):
            return self.filter(item)  # type: ignore[attr-defined]
        is_hidden = isinstance(item, str) and self.deltamerge_hidden.is_named(item) and self._is_hidden(item)
        return self.deltamerge_hidden.whole[item] if is_hidden else super().__getitem__(item)  # type: ignore[misc]

    def _is_hidden(self, name: str) -> bool:
        """Whether a dotted name is that of the hidden column or of a part of it, and none of what this frame shows."""
        try:
            parts = [part.lower() for part in attribute_parts(name)]
        except AnalysisError:
            return False
        hidden, shown = self.deltamerge_hidden.name.lower(), {column.lower() for column in self.columns}
        return hidden in parts and not shown & {*parts[: parts.index(hidden) + 1]}

    def _names(self, *values: Any) -> bool:
        """Whether arguments may name the hidden column: a frame that shows one of its name has that one named."""
        hidden = self.deltamerge_hidden
        return hidden.is_named(*values) and hidden.name.lower() not in (column.lower() for column in self.columns)

    def _either(self, whole: Callable[[], Frame], plain: Callable[[], Frame]) -> Frame:
        """What is made where the column may be named: of the frame that shows it, else as Spark makes it.

        The plan that fails may be that of someone who means no column.
        """
        this: Any = self
        with quietly():
            try:
                return _analyzed(this, whole())
            except AnalysisException as error:
                if error.getCondition() == "FIELD_NOT_FOUND":
                    raise
                try:
                    return _analyzed(this, plain())
                except AnalysisException:
                    raise error from None

    def _frames(self) -> tuple[tuple[Frame, Frame], ...]:
        """Frames whose columns are named of this one, and those of which they are meant where the column is shown."""
        this: Any = self
        return (*self.deltamerge_hidden.before, (this, self.deltamerge_hidden.whole))

    def _next(self, frame: Frame, name: str, given: tuple[Any, ...], named: dict[str, Any]) -> Frame:
        """What a method has made without naming the column, which knows it, too."""
        hidden = self.deltamerge_hidden
        if frame is cast("Frame", self):
            return frame

        def make() -> Frame:
            frames = self._frames()
            found: Frame = getattr(hidden.whole, name)(*_bound(given, frames), **_bound(named, frames))
            return found

        return _knowing(frame, Hidden(hidden.name, make, hidden.before))

    def _kept(self, name: str, given: tuple[Any, ...], named: dict[str, Any]) -> Frame:
        """What a method of rows or names makes."""
        hidden = self.deltamerge_hidden
        is_named = self._names(given, named)

        def plain() -> Frame:
            before = hidden.before
            found: Frame = getattr(super(_Knowing, self), name)(*_bound(given, before), **_bound(named, before))
            return found if is_named else self._next(found, name, given, named)

        def whole() -> Frame:
            frames = self._frames()
            values, options = self._without(_bound(given, frames)), self._without(_bound(named, frames))
            if name == "filter":
                values = [self._filtered(value) for value in values]
                options = {key: self._filtered(value) for key, value in options.items()}
            found: Frame = getattr(hidden.whole, name)(*values, **options)
            if _makes(name, hidden.name, given, named):
                return found
            return _knowing(found.drop(hidden.name), Hidden(hidden.name, lambda: found, frames))

        return self._either(whole, plain) if is_named and name not in _OF_NAMES else plain()

    def _filtered(self, condition: Any) -> Any:
        return expression_without(condition, self.deltamerge_hidden.name) if isinstance(condition, str) else condition

    def _without(self, value: Any) -> Any:
        """An argument the stars in whose Columns leave the hidden column out."""
        if isinstance(value, Column):
            return with_stars(value, self.deltamerge_hidden.whole.sparkSession, self.deltamerge_hidden.name, expression_without)
        if isinstance(value, list | tuple):
            return [self._without(item) for item in value]
        return {key: self._without(item) for key, item in value.items()} if isinstance(value, dict) else value

    def _grouped(self, name: str, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """What a method makes that groups rows: no column of theirs is known behind it."""
        hidden = self.deltamerge_hidden

        def plain() -> Any:
            found = getattr(super(_Knowing, self), name)(*_bound(given, hidden.before), **_bound(named, hidden.before))
            return found if name == "agg" else _grouping(found, self, name, given)

        def whole() -> Any:
            frames = self._frames()
            return getattr(hidden.whole, name)(*self._without(_bound(given, frames)), **self._without(_bound(named, frames)))

        if not self._names(given, named):
            return plain()
        return self._either(whole, plain) if name == "agg" else whole()

    def _chosen(self, name: str, chosen: list[Any]) -> Frame:
        """What choosing columns makes."""
        hidden = self.deltamerge_hidden

        def shown(*more: Column) -> Frame:
            frames, columns = self._frames(), []
            for column in chosen:
                columns += self._expanded(column, name == "selectExpr", frames)
            return hidden.whole.select(*columns, *more)

        def known(frame: Frame, before: tuple[tuple[Frame, Frame], ...]) -> Frame:
            return _knowing(frame, Hidden(hidden.name, lambda: shown(F.col(quoted(hidden.name))), before))

        def plain() -> Frame:
            found: Frame = getattr(super(_Knowing, self), name)(*_bound(chosen, hidden.before))
            return known(found, hidden.before)

        def whole() -> Frame:
            result = shown()
            if hidden.name.lower() in (column.lower() for column in result.columns):
                return result
            return known(result, self._frames())

        return self._either(whole, plain) if self._names(chosen) else plain()

    def _expanded(self, column: Any, is_text: bool, frames: tuple[tuple[Frame, Frame], ...]) -> list[Any]:
        """A chosen column, or all columns in place of a star, as the frame that shows the column has them."""
        hidden = self.deltamerge_hidden
        if (isinstance(column, str) and column.strip() == "*") or (isinstance(column, Column) and str(column) in _STARS):
            return [hidden.whole[quoted(name)] for name in self.columns]
        if isinstance(column, str) and (is_text or column.endswith(".*")):
            return [F.expr(expression_without(column, hidden.name))]
        return [self._without(_bound(column, frames))]


class _Grouping:
    """What grouped rows do otherwise whose DataFrame knows a hidden column."""

    deltamerge_grouped: tuple[_Knowing, str, tuple[Any, ...]]

    def agg(self, *exprs: Any) -> Frame:
        frame, name, given = self.deltamerge_grouped
        hidden = frame.deltamerge_hidden

        def plain() -> Frame:
            found: Frame = super(_Grouping, self).agg(*_bound(exprs, hidden.before))  # type: ignore[misc]
            return found

        def whole() -> Frame:
            frames = frame._frames()
            regrouped: Any = getattr(hidden.whole, name)(*frame._without(_bound(given, frames)))
            return regrouped.agg(*frame._without(_bound(exprs, frames)))  # type: ignore[no-any-return]

        return frame._either(whole, plain) if frame._names(exprs) else plain()


def _grouping(grouped: Any, frame: _Knowing, name: str, given: tuple[Any, ...]) -> Any:
    grouped.__class__ = _made_class(type(grouped), _Grouping)
    grouped.deltamerge_grouped = frame, name, given
    return grouped


def _analyzed(frame: Frame, made: Frame) -> Frame:
    """What was made of a frame, of which Spark knows by now that it can be: a Connect client asks only when rows are wanted."""
    if is_connect(frame.sparkSession):
        made.schema  # noqa: B018
    return made


def _makes(method: str, name: str, given: tuple[Any, ...], named: dict[str, Any]) -> bool:
    """Whether a method makes a column of this name, which hides the hidden one for good."""
    made: list[Any] = []
    if method == "withColumn":
        made = [given[0] if given else named.get("colName")]
    elif method == "withColumns":
        made = [*given[0]]
    return name.lower() in (str(column).lower() for column in made)


def _method(name: str, makes: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: _Knowing, *given: Any, **named: Any) -> Any:
        return makes(self, name, given, named)

    return method


def _as_of_spark(mixin: type, base: Any, made: Mapping[str, Callable[..., Any]]) -> None:
    """Give a class those methods that this PySpark has, under the names, signatures and texts of Spark's own."""
    for name, method in {**vars(mixin), **made}.items():
        if name.startswith("_") or not callable(method):
            continue
        if hasattr(base, name):
            setattr(mixin, name, functools.update_wrapper(method, getattr(base, name)))
        else:
            delattr(mixin, name)


_as_of_spark(
    _Knowing,
    DataFrame,
    {name: _method(name, _Knowing._kept) for name in (*_OF_ROWS, *_OF_NAMES)}
    | {name: _method(name, _Knowing._grouped) for name in _GROUPING},
)
_as_of_spark(_Grouping, GroupedData, {})
