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
from dataclasses import dataclass, replace
from typing import Any, cast

from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from deltamerge.errors import AnalysisError
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.spark.plans.attributes import attribute_parts, quoted
from deltamerge.spark.pyspark.adapter import is_connect, with_stars
from deltamerge.spark.pyspark.quiet import quietly
from deltamerge.spark.read.hidden_groups import ByHidden, as_of_spark, bound, grouping, made_class
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

    `before` are frames whose columns may be named, too, from which this one was made by naming the column. `guard` has errors
    caught. `of` is the column of the frame of which this one was made.
    """

    name: str
    make: Callable[[], Frame]
    guard: Guard
    before: tuple[tuple[Frame, Frame], ...] = ()
    of: Hidden | None = None

    @functools.cached_property
    def whole(self) -> Frame:
        """The frame that shows the column: the ones of which it is made come first, however many they are."""
        above, hidden = [], self.of
        while hidden is not None and "whole" not in vars(hidden):
            above.append(hidden)
            hidden = hidden.of
        for hidden in reversed(above):
            hidden.whole  # noqa: B018
        return self.make()

    def next(self, make: Callable[[], Frame], before: tuple[tuple[Frame, Frame], ...]) -> Hidden:
        """The column of a frame that is made of this one's."""
        return replace(self, make=make, before=before, of=self)

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
    make = guard(lambda: frame_of(spark, snapshot, metadata_frame))
    return _knowing(frame_of(spark, snapshot, None), Hidden(name, make, guard))


def _knowing(frame: Frame, hidden: Hidden) -> Frame:
    given: Any = frame
    kind = type(frame)
    given.__class__ = kind if issubclass(kind, _Knowing) else made_class(kind, _Knowing)
    given.deltamerge_hidden = hidden
    return frame


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
            found: Frame = super(_Knowing, self).join(other, bound(on, hidden.before), how)  # type: ignore[misc]
            return found if knows else self._next(found, "join", (other, on, how), {})

        def whole() -> Frame:
            frames, joined = self._frames(), hidden.whole
            if isinstance(other, _Knowing):
                also = other.deltamerge_hidden
                result = joined.join(also.whole, bound(on, (*frames, *other._frames())), how)
                if hidden.name == also.name:  # where a frame is joined with itself, only the name tells of both
                    return result.drop(hidden.name)
                return result.drop(joined[hidden.name]).drop(also.whole[also.name])
            result = joined.join(other, bound(on, frames), how)
            return _knowing(result.drop(joined[hidden.name]), hidden.next(lambda: result, frames))

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
                return _analyzed(this, self.deltamerge_hidden.guard(whole)())
            except (AnalysisException, IllegalArgumentException) as error:
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

        return _knowing(frame, hidden.next(hidden.guard(lambda: self._by_whole(name, given, named)), hidden.before))

    def _by_whole(self, name: str, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """What a method makes of the frame that shows the column, with arguments that mean what they mean of this one."""
        frames = self._frames()
        values, options = self._without(bound(given, frames)), self._without(bound(named, frames))
        if name == "filter":
            values, options = [*map(self._filtered, values)], {key: self._filtered(value) for key, value in options.items()}
        return getattr(self.deltamerge_hidden.whole, name)(*values, **options)

    def _kept(self, name: str, given: tuple[Any, ...], named: dict[str, Any]) -> Frame:
        """What a method of rows or names makes."""
        hidden = self.deltamerge_hidden
        is_named = self._names(given, named)

        def plain() -> Frame:
            before = hidden.before
            found: Frame = getattr(super(_Knowing, self), name)(*bound(given, before), **bound(named, before))
            return found if is_named else self._next(found, name, given, named)

        def whole() -> Frame:
            found: Frame = self._by_whole(name, given, named)
            if _makes(name, hidden.name, given, named):
                return found
            return _knowing(found.drop(hidden.name), hidden.next(lambda: found, self._frames()))

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
        this: Any = self
        hidden = self.deltamerge_hidden

        def plain() -> Any:
            found = getattr(super(_Knowing, self), name)(*bound(given, hidden.before), **bound(named, hidden.before))
            return found if name == "agg" else grouping(found, self, name, given)

        if not self._names(given, named):
            return plain()
        if name == "agg":
            return self._either(lambda: self._by_whole(name, given, named), plain)
        try:
            with quietly():
                _analyzed(this, hidden.whole)
        except AnalysisException:  # there is no such column here: a text says the word, or Spark is to tell
            return plain()
        return grouping(hidden.guard(lambda: self._by_whole(name, given, named))(), self, name, given, ByHidden)

    def _chosen(self, name: str, chosen: list[Any]) -> Frame:
        """What choosing columns makes."""
        hidden = self.deltamerge_hidden

        def shown(*more: Column) -> Frame:
            frames, columns = self._frames(), []
            for column in chosen:
                columns += self._expanded(column, name == "selectExpr", frames)
            return hidden.whole.select(*columns, *more)

        def known(frame: Frame, before: tuple[tuple[Frame, Frame], ...]) -> Frame:
            return _knowing(frame, hidden.next(hidden.guard(lambda: shown(F.col(quoted(hidden.name)))), before))

        def plain() -> Frame:
            found: Frame = getattr(super(_Knowing, self), name)(*bound(chosen, hidden.before))
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
            names = self.columns
            if len({name.lower() for name in names}) == len(names):
                return [hidden.whole[quoted(name)] for name in names]
            return [F.expr(expression_without("*", hidden.name))]  # several have one name, as behind a join
        if isinstance(column, str) and (is_text or column.endswith(".*")):
            return [F.expr(expression_without(column, hidden.name))]
        return [self._without(bound(column, frames))]


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


as_of_spark(
    _Knowing,
    DataFrame,
    {name: _method(name, _Knowing._kept) for name in (*_OF_ROWS, *_OF_NAMES)}
    | {name: _method(name, _Knowing._grouped) for name in _GROUPING},
)
