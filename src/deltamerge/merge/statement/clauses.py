"""What the user said, verified for shape only: a `MergeSpec` of clauses in order.

Both front ends, builder and SQL text, make the same specification.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from deltamerge.errors import AnalysisError
from deltamerge.log.commit.conflict import FrameRead
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.protocol.schema.types import StructType
from deltamerge.spark.expressions.expression import Expression
from deltamerge.spark.session.frames import Frame


class ClauseKind(Enum):
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

    kind: ClauseKind
    action: Action
    condition: Expression | None = None
    assignments: tuple[Assignment, ...] = ()
    star: bool = False
    excluded: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The clause as SQL says it."""
        condition = f" AND {self.condition.text}" if self.condition is not None else ""
        pairs = [f"{a.column} = {'DEFAULT' if a.value is None else a.value.text}" for a in self.assignments]
        what = "*" if self.star else ", ".join(pairs)
        done = {Action.UPDATE: f"UPDATE SET {what}", Action.INSERT: f"INSERT {what}", Action.DELETE: "DELETE"}[self.action]
        return f"WHEN {self.kind.value}{condition} THEN {done}"


@dataclass(frozen=True)
class TxnId:
    """The id that an application gives a merge: one with this version or an older one is not merged again."""

    application: str
    version: int


@dataclass(frozen=True)
class Latest:
    """Of the source rows with equal keys only those that come last in the order of `by` are merged.

    `keys` are source columns; without any they are those that the search condition compares with target columns.
    """

    by: tuple[Expression, ...]
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class MergeSpec:
    """A whole MERGE statement about one target; the target itself is known to whoever runs it.

    `target_name` and `source_name` qualify columns: an alias, or all parts of a table's name; () where a side has neither, or
    only its frame knows. `source_named` are the columns that `source_name` qualifies, None for all.
    `with_schema_evolution` is None where the session's setting decides; `known_schema` is the target's when the user's object
    for it was made, None where it is looked up anew.
    `retries` says how often the merge is run again, with the same source, when another transaction conflicts.
    `derives_deletes` leaves it to the readers of the change data feed to derive deletes from removed files and deletion
    vectors, where these tell them. `skips_unchanged` leaves rows alone that an UPDATE would leave as they are.
    `source_at` makes the rows to merge, with the columns of `source`, from the snapshot that they are merged into, once for each
    run; without it `source` has them, whatever the snapshot. `source_read` is what the source or values have read of the target,
    if they have: nothing that was committed since may be lost. `statement` is what the user said, to which settings may apply.
    """

    source: Frame
    condition: Expression
    clauses: tuple[Clause, ...]
    target_name: tuple[str, ...] = ()
    source_name: tuple[str, ...] = ()
    with_schema_evolution: bool | None = None
    user_metadata: str | None = None
    txn_id: TxnId | None = None
    latest: Latest | None = None
    retries: int | None = None
    derives_deletes: bool = False
    known_schema: StructType | None = None
    skips_unchanged: bool = False
    source_at: Callable[[Snapshot], Frame] | None = None
    source_named: frozenset[str] | None = None
    source_read: FrameRead | None = None
    statement: str = "MERGE"

    def of(self, kind: ClauseKind) -> tuple[Clause, ...]:
        """The clauses about one kind of rows, in order."""
        return tuple(clause for clause in self.clauses if clause.kind is kind)


def verify(spec: MergeSpec) -> MergeSpec:
    """The specification itself, when its shape is right. Raises AnalysisError."""
    if not spec.clauses:
        raise AnalysisError(
            "DELTA_MERGE_MISSING_WHEN",
            "There must be at least one WHEN clause in a MERGE statement.",
            hint="Say what to do with matched or unmatched rows, for example whenMatchedUpdateAll().",
        )
    for kind in ClauseKind:
        for clause in spec.of(kind)[:-1]:
            if clause.condition is None:
                words = kind.value.replace(" ", "_")
                raise AnalysisError(
                    f"DELTA_NON_LAST_{words}_CLAUSE_OMIT_CONDITION",
                    f"When there are more than one {kind.value} clauses in a MERGE statement, only the last {kind.value} "
                    "clause can omit the condition.",
                    hint="Give the earlier clause a condition, or move it to the end; otherwise the later ones never apply.",
                )
    return spec
