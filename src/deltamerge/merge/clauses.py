"""What the user said, verified for shape only: a `MergeSpec` of clauses in order.

Both front ends, builder and SQL text, make the same specification.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from deltamerge.errors import AnalysisError
from deltamerge.spark.expression import Expression
from deltamerge.spark.frames import Frame


class Side(Enum):
    """Which rows a clause is about; the value is how SQL says it."""

    MATCHED = "MATCHED"
    NOT_MATCHED = "NOT MATCHED"
    BY_SOURCE = "NOT MATCHED BY SOURCE"


class Action(Enum):
    """What a clause does with a row."""

    UPDATE = "update"
    DELETE = "delete"
    INSERT = "insert"


@dataclass(frozen=True)
class Assignment:
    """`column = value`; the column as the user wrote it; without a value it is `column = DEFAULT`."""

    column: str
    value: Expression | None


@dataclass(frozen=True)
class Clause:
    """One WHEN clause. `star` stands for `SET *` or `INSERT *`, less the columns in `excluded`."""

    side: Side
    action: Action
    condition: Expression | None = None
    assignments: tuple[Assignment, ...] = ()
    star: bool = False
    excluded: tuple[str, ...] = ()


@dataclass(frozen=True)
class MergeSpec:
    """A whole MERGE statement about one target; the target itself is known to whoever runs it."""

    source: Frame
    condition: Expression
    clauses: tuple[Clause, ...]
    target_alias: str | None = None
    source_alias: str | None = None
    with_schema_evolution: bool = False
    user_metadata: str | None = None

    def of(self, side: Side) -> tuple[Clause, ...]:
        """The clauses about one kind of rows, in order."""
        return tuple(clause for clause in self.clauses if clause.side is side)


def verify(spec: MergeSpec) -> MergeSpec:
    """The specification itself, when its shape is right. Raises AnalysisError."""
    if not spec.clauses:
        raise AnalysisError(
            "DELTA_MERGE_MISSING_WHEN",
            "There must be at least one WHEN clause in a MERGE statement.",
            hint="Say what to do with matched or unmatched rows, for example whenMatchedUpdateAll().",
        )
    for side in Side:
        for clause in spec.of(side)[:-1]:
            if clause.condition is None:
                words = side.value.replace(" ", "_")
                raise AnalysisError(
                    f"DELTA_NON_LAST_{words}_CLAUSE_OMIT_CONDITION",
                    f"When there are more than one {side.value} clauses in a MERGE statement, only the last {side.value} "
                    "clause can omit the condition.",
                    hint="Give the earlier clause a condition, or move it to the end; otherwise the later ones never apply.",
                )
    return spec
