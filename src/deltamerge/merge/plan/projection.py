"""What Spark computes of the source's rows before they are sent: conditions and values of clauses that are about the source
alone, and that Arrow does not evaluate as Spark does. To tasks they are columns of the source.

Spark then computes them for all rows of the source, also for those of which the merge would not ask. Where that is an error the
merge runs again without.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from deltamerge.merge.resolve.scope import Scope
from deltamerge.spark.expressions.casts import assigned
from deltamerge.spark.expressions.expression import Expression, tells_time
from deltamerge.spark.session.frames import Column, SparkType
from deltamerge.spark.sql.allowed.functions import OF_ROWS, forbidden


@dataclass(frozen=True)
class Projection:
    """A column `name` that the source gets: a condition, or a value of a `type`, cast to what the target's `column` has."""

    name: str
    value: Expression
    type: SparkType | None = field(default=None, compare=False)
    column: str = ""
    column_type: SparkType | None = field(default=None, compare=False)

    @property
    def computed(self) -> Column:
        """The column as Spark computes it."""
        if self.type is None or self.column_type is None:
            return self.value.column
        return assigned(self.value.column, self.type, self.column_type, self.column)


def may_be_projected(expression: Expression, scope: Scope) -> bool:
    """Whether an expression is surely about columns of the source alone, and its value follows from these."""
    if expression.tree is None or scope.side_of(expression.tree) != "source" or tells_time(expression):
        return False
    if any(map(expression.overlooks, scope.target.names)):
        return False
    return forbidden(expression.text, OF_ROWS) is None
