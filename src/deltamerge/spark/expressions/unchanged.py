"""A condition that holds where a clause applies and, for an update, changes a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F

from deltamerge.spark.expressions.casts import assigned
from deltamerge.spark.expressions.expression import Expression
from deltamerge.spark.session.frames import SparkType


@dataclass(frozen=True)
class Assignment:
    """A value, its type and the type of the column `name` it is assigned to, and the column's value `before`.

    `before` is None where the two are not compared: the assignment counts as a change then. The column is CHAR of `blanks`
    characters when that is not 0.
    """

    name: str
    value: Expression
    given: SparkType
    wanted: SparkType
    before: Expression | None
    blanks: int = 0

    @property
    def changes(self) -> Column:
        """Whether the value changes, as Spark's `<=>` tells values apart."""
        if self.before is None:
            return F.lit(True)
        value = assigned(self.value.column, self.given, self.wanted, self.name)
        if self.blanks:
            value = F.when(F.length(value) < self.blanks, F.rpad(value, self.blanks, " ")).otherwise(value)
        return ~value.eqNullSafe(self.before.column)


def narrowed(given: Expression | None, decided: Sequence[Expression], update: Sequence[Assignment] | None) -> Expression:
    """The condition of a clause: `given` where none of `decided` holds and, for an `update`, one of its values changes."""

    def build() -> Column:
        applies = F.lit(True) if given is None else F.coalesce(given.column, F.lit(False))
        for condition in decided:
            applies = applies & ~F.coalesce(condition.column, F.lit(False))
        if update is None:
            return applies
        return F.when(applies, reduce(or_, [assignment.changes for assignment in update], F.lit(False)))

    used = [*decided, *([given] if given else [])]
    for assignment in update or ():
        used += [assignment.value, *([assignment.before] if assignment.before else [])]
    words = [expression.words for expression in used]
    known = None if None in words else frozenset[str]().union(*(word for word in words if word is not None))
    text = [*([given.text] if given else []), *(["a value changes"] if update else [])]
    return Expression(build, " AND ".join(text) or "true", None, known)
