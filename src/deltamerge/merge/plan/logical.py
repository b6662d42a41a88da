"""A merge's logical plan: join, keys, columns, predicates and the clause programme, as plain data. It is the same whatever the
table and the source hold; how it runs is chosen by facts about these.

Nothing here asks Spark anything, and nothing reads a file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum

from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.merge.plan.conditions import (
    KeyPair,
    Range,
    column_ranges,
    has_equality,
    key_pairs,
    target_predicate,
    touched_by_source,
)
from deltamerge.merge.plan.exact import exact_condition
from deltamerge.merge.plan.program import Program, compile_clauses
from deltamerge.merge.resolve.resolve import ResolvedClause, ResolvedMerge
from deltamerge.merge.resolve.scope import conjuncts
from deltamerge.merge.statement.clauses import Action, ClauseKind
from deltamerge.protocol.schema.types import PrimitiveType, arrow_type
from deltamerge.protocol.table.features import named_features
from deltamerge.protocol.values.condition import Condition, names_in
from deltamerge.protocol.values.predicate import ALWAYS, Predicate
from deltamerge.spark.expressions.expression import Expression
from deltamerge.worker.skipping.bloom import hashable

REWRITE_SHARE = 0.5


class Join(Enum):
    """How source and target are joined; the value is Spark's name for `source JOIN target`."""

    INNER = "inner"
    LEFT = "left"
    ANTI = "left_anti"
    RIGHT = "right"
    FULL = "full"


class Strategy(Enum):
    """How source rows reach the target rows that they match. `AUTO` leaves the choice to what is known of source and files."""

    AUTO = "auto"
    BROADCAST = "broadcast"
    RANGE_EXCHANGE = "range_exchange"
    HASH_EXCHANGE = "hash_exchange"
    SPARK_JOIN = "spark_join"

    @property
    def text(self) -> str:
        """The strategy in words."""
        return self.value.replace("_", " ").replace("spark", "Spark")


@dataclass(frozen=True)
class Wishes:
    """What the user's settings ask for: a strategy; and the share of a file's rows that may be gone before it is written again,
    for tables with deletion vectors. `may_run_again` says that the merge is run again after a conflict.
    """

    strategy: Strategy = Strategy.AUTO
    rewrite_share: float = REWRITE_SHARE
    may_run_again: bool = False


@dataclass(frozen=True)
class LogicalPlan:
    """A merge, understood. `target_predicate` is true for every target row that can match.

    `pairs` and `ranges` say which files can hold matches, by the source's values; `by_source` is true for every row that a
    NOT MATCHED BY SOURCE clause can change (None: there is no such clause). `keys` are the pairs if they may filter rows,
    too: where no row without a match matters; `equi_only` says that the pairs are the whole search condition. `condition` is
    the search condition where Arrow evaluates it as Spark does.
    `ignores_duplicate_matches` says that several source rows may match one target row. Rows are marked in deletion vectors as
    long as no more than `rewrite_share` of a file's rows are; 0 says that touched files are always written again. `feed` says
    that change data files are written. `rereads` says why the source's rows are looked at more than once; None where once is
    enough.
    """

    resolved: ResolvedMerge
    program: Program = field(repr=False)
    join: Join
    strategy: Strategy
    pairs: tuple[KeyPair, ...]
    keys: tuple[KeyPair, ...]
    ranges: tuple[Range, ...]
    equi_only: bool
    condition: Condition | None
    has_equi_condition: bool | None
    target_predicate: Predicate
    by_source: Predicate | None
    target_columns: tuple[str, ...]
    source_columns: tuple[str, ...]
    ignores_duplicate_matches: bool
    rewrite_share: float
    feed: bool
    rereads: str | None
    notes: tuple[str, ...]

    @property
    def only_inserts(self) -> bool:
        """Whether no row of the target can change."""
        return all(clause.action is Action.INSERT for clause in self.resolved.clauses)

    @property
    def matched_in_arrow(self) -> bool:
        """Whether the rows that match are found without Spark."""
        return self.equi_only or self.target_condition is not None

    @property
    def target_condition(self) -> Condition | None:
        """The search condition where it is about the target alone, and Arrow evaluates it."""
        return None if self.condition is None or names_in(self.condition, "source") else self.condition

    @property
    def removes_files(self) -> bool:
        """Whether this is a DELETE of all rows of each file that it touches, by the partition alone."""
        return self.resolved.spec.derives_deletes and self.target_condition is not None and _deletes_files(self.resolved)

    @property
    def bounded(self) -> frozenset[str]:
        """The source columns whose least and greatest values say which files can hold matches."""
        return frozenset(r.source for r in self.ranges)


def logical_plan(resolved: ResolvedMerge, wishes: Wishes) -> LogicalPlan:
    """The logical plan of a resolved merge."""
    notes: list[str] = []
    parts = conjuncts(resolved.spec.condition.tree)
    by_source = touched_by_source(resolved)
    pairs = key_pairs(parts, resolved.scope, notes)
    keys = pairs if by_source is None else ()
    if by_source == ALWAYS:
        notes.append("NOT MATCHED BY SOURCE looks at every target row: no file can be skipped")
    elif resolved.spec.condition.tree is None:
        notes.append("the search condition can't be seen into: no file can be skipped")
    share = wishes.rewrite_share if _writes_vectors(resolved.snapshot) else 0.0
    feed = _has_feed(resolved)
    if feed and resolved.spec.derives_deletes and (share or _deletes_files(resolved)):
        # A file that is only marked or removed tells which rows are deleted.
        share, feed = (1.0 if share else 0.0), False
    equality, program = has_equality(parts, resolved.scope), compile_clauses(resolved)
    return LogicalPlan(
        resolved,
        program,
        _join(resolved),
        wishes.strategy,
        pairs,
        keys,
        column_ranges(parts, resolved.scope),
        bool(pairs) and len(pairs) == len(parts),
        exact_condition(resolved.spec.condition.tree, resolved.scope),
        equality,
        target_predicate(parts, resolved.scope),
        by_source,
        _target_columns(resolved, keys),
        _source_columns(resolved),
        _ignores_duplicate_matches(resolved),
        share,
        feed,
        _rereads(resolved, equality, wishes),
        tuple(notes),
    )


def with_projections(logical: LogicalPlan) -> LogicalPlan | None:
    """The merge with columns that Spark computes of the source, by which tasks carry out each clause; None where they can't."""
    resolved = replace(logical.resolved, projects=True)
    program = compile_clauses(resolved)
    return None if program.is_left_to_spark else replace(logical, resolved=resolved, program=program)


def _rereads(resolved: ResolvedMerge, has_equality: bool | None, wishes: Wishes) -> str | None:
    """Why the source's rows are looked at more than once; None where once is enough."""
    if wishes.may_run_again:
        return "the merge may run again after a conflict"
    if resolved.original_clauses is not None:
        return "skipUnchanged() looks for several matches of a row first"
    return (
        None
        if has_equality
        else "the search condition has no equality, and Spark may read the source once for each part of the table"
    )


def _writes_vectors(snapshot: Snapshot) -> bool:
    """Whether the table's protocol knows deletion vectors, and its properties ask for them."""
    return snapshot.properties.deletion_vectors and "deletionVectors" in named_features(snapshot.protocol)


def _has_feed(resolved: ResolvedMerge) -> bool:
    """Whether change data files are written: inserts alone are told by the files that they add."""
    snapshot = resolved.snapshot
    enabled = snapshot.properties.change_data_feed and "changeDataFeed" in named_features(snapshot.protocol)
    return enabled and any(clause.action is not Action.INSERT for clause in resolved.clauses)


def _deletes_files(resolved: ResolvedMerge) -> bool:
    """Whether all rows of each touched file are deleted: the condition is about nothing but the file's partition."""
    used = resolved.scope.used([resolved.spec.condition], "target")
    return set(used) <= set(resolved.snapshot.partition_columns) and all(c.condition is None for c in resolved.clauses)


def _join(resolved: ResolvedMerge) -> Join:
    matched, inserts, by_source = (bool(resolved.of(kind)) for kind in ClauseKind)
    if by_source:
        return Join.FULL if inserts else Join.RIGHT
    if inserts:
        return Join.LEFT if matched else Join.ANTI
    return Join.INNER


def _ignores_duplicate_matches(resolved: ResolvedMerge) -> bool:
    """A single unconditional DELETE is the one MATCHED clause for which it does not matter which source row applies."""
    matched = resolved.of(ClauseKind.MATCHED)
    return len(matched) == 1 and matched[0].action is Action.DELETE and matched[0].condition is None


def _expressions(resolved: ResolvedMerge, clauses: Iterable[ResolvedClause]) -> list[Expression]:
    found = []
    for clause in clauses:
        found += [clause.condition] if clause.condition is not None else []
        found += [value.value for value in clause.values]
    return found


def _target_columns(resolved: ResolvedMerge, keys: Iterable[KeyPair]) -> tuple[str, ...]:
    """The target's columns that an expression may use; an update's other columns come from the file itself."""
    scope = resolved.scope
    names = {pair.target for pair in keys}
    names.update(scope.used([resolved.spec.condition, *_expressions(resolved, resolved.of(ClauseKind.MATCHED))], "target"))
    names.update(scope.target_alone.used(_expressions(resolved, resolved.of(ClauseKind.BY_SOURCE)), "target"))
    return tuple(name for name in resolved.scope.target.names if name in names)


def _source_columns(resolved: ResolvedMerge) -> tuple[str, ...]:
    scope = resolved.scope
    names = set(scope.used([resolved.spec.condition, *_expressions(resolved, resolved.of(ClauseKind.MATCHED))], "source"))
    names.update(scope.source_alone.used(_expressions(resolved, resolved.of(ClauseKind.NOT_MATCHED)), "source"))
    return tuple(name for name in scope.source.names if name in names)


def hashed_keys(logical: LogicalPlan) -> Iterable[bool]:
    """Which of the keys can be in a Bloom filter: those whose equal values are equal integers."""
    types = (logical.resolved.scope.target.find(pair.target, case_sensitive=True) for pair in logical.keys)
    return [found is not None and isinstance(found.type, PrimitiveType) and hashable(arrow_type(found.type)) for found in types]
