"""How a merge will run, as plain data: strategy, join, keys, columns, target predicate. `explain()` prints it.

Nothing here asks Spark anything, and nothing reads a file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from sqlglot import exp

from deltamerge.log.snapshot import Snapshot
from deltamerge.merge.clauses import Action, Side
from deltamerge.merge.literals import predicate_of
from deltamerge.merge.resolve import ResolvedClause, ResolvedMerge
from deltamerge.merge.scope import Reference, Scope, conjuncts
from deltamerge.protocol.features import named_features
from deltamerge.protocol.predicate import ALWAYS, And, Predicate
from deltamerge.protocol.schema import PrimitiveType
from deltamerge.spark.expression import Expression


class Join(Enum):
    """How source and target are joined; the value is Spark's name for `source JOIN target`."""

    INNER = "inner"
    LEFT = "left"
    ANTI = "left_anti"
    RIGHT = "right"
    FULL = "full"


class Strategy(Enum):
    """Where source and target are joined: in Arrow when both sides of the match are small enough to hold, else by Spark."""

    AUTO = "auto"
    ARROW = "arrow"
    JOIN = "join"


@dataclass(frozen=True)
class KeyPair:
    """`target column = source column`, surely part of every match; `null_safe` for `<=>`."""

    target: str
    source: str
    null_safe: bool = False


@dataclass(frozen=True)
class MergePlan:
    """A merge, decided. `target_predicate` is true for every target row that can be touched.

    `keys` filter the target by the source's keys; they are empty when nothing can be said, or when target rows without
    a partner matter too; `keys_decide` says that they are the whole search condition. `folds_duplicates` says that several
    source rows may hit one target row. Rows are marked in deletion vectors as long as no more than `rewrite_share` of a
    file's rows are; 0 says that touched files are always written again.
    """

    resolved: ResolvedMerge
    join: Join
    keys: tuple[KeyPair, ...]
    target_predicate: Predicate
    target_columns: tuple[str, ...]
    source_columns: tuple[str, ...]
    folds_duplicates: bool
    keys_decide: bool = False
    strategy: Strategy = Strategy.AUTO
    rewrite_share: float = 0.0
    reasons: tuple[str, ...] = ()

    def explain(self) -> str:
        """The plan in words, a fact a line."""
        keys = ", ".join(f"{k.target} {'<=>' if k.null_safe else '='} source.{k.source}" for k in self.keys)
        lines = [
            f"MERGE INTO {self.resolved.snapshot.store.url}, version {self.resolved.snapshot.version}",
            f"  join:              source {self.join.value} target ON {self.resolved.spec.condition.text}",
            f"  keys:              {keys or 'none'}",
            f"  target predicates: {self.target_predicate if self.target_predicate != ALWAYS else 'none'}",
            f"  target columns:    {', '.join(self.target_columns) or 'none'}",
            f"  source columns:    {', '.join(self.source_columns) or 'none'}",
            f"  touched files:     {self._touched_files()}",
        ]
        for clause in self.resolved.clauses:
            condition = f" AND {clause.condition.text}" if clause.condition else ""
            lines.append(f"  WHEN {clause.side.value}{condition} THEN {clause.action.name}")
        lines += [f"  note:              {reason}" for reason in self.reasons]
        return "\n".join(lines)

    def _touched_files(self) -> str:
        if not self.rewrite_share:
            return "rewritten"
        return f"marked by deletion vectors, rewritten when more than {self.rewrite_share:.0%} of their rows are gone"


REWRITE_SHARE = 0.5


def plan_merge(resolved: ResolvedMerge, strategy: Strategy = Strategy.AUTO, rewrite_share: float = REWRITE_SHARE) -> MergePlan:
    """Decide how a resolved merge runs; `strategy` forces a choice that is otherwise made by size.

    `rewrite_share` is the share of a file's rows that may be gone before it is rewritten, for tables with deletion vectors.
    """
    reasons: list[str] = []
    needs_all = bool(resolved.of(Side.BY_SOURCE))
    parts = conjuncts(resolved.spec.condition.tree)
    keys = () if needs_all else _key_pairs(parts, resolved.scope, reasons)
    predicate = ALWAYS if needs_all else _target_predicate(parts, resolved.scope)
    if needs_all:
        reasons.append("NOT MATCHED BY SOURCE looks at every target row: no file can be skipped")
    elif resolved.spec.condition.tree is None:
        reasons.append("the search condition can't be seen into: no file can be skipped")
    if resolved.demands:
        strategy = Strategy.JOIN
        reasons.append("constraints or generated columns are evaluated over whole rows: Spark joins")
    return MergePlan(
        resolved,
        _join(resolved),
        keys,
        predicate,
        _target_columns(resolved, keys),
        _source_columns(resolved),
        _folds_duplicates(resolved),
        bool(keys) and len(keys) == len(parts),
        strategy,
        rewrite_share if _writes_vectors(resolved.snapshot) else 0.0,
        tuple(reasons),
    )


def _writes_vectors(snapshot: Snapshot) -> bool:
    """Whether the table's protocol knows deletion vectors, and its properties ask for them."""
    return snapshot.properties.deletion_vectors and "deletionVectors" in named_features(snapshot.protocol)


def _join(resolved: ResolvedMerge) -> Join:
    matched, inserts, by_source = (bool(resolved.of(side)) for side in Side)
    if by_source:
        return Join.FULL if inserts else Join.RIGHT
    if inserts:
        return Join.LEFT if matched else Join.ANTI
    return Join.INNER


def _folds_duplicates(resolved: ResolvedMerge) -> bool:
    """A single unconditional DELETE is the one MATCHED clause for which it does not matter which source row applies."""
    matched = resolved.of(Side.MATCHED)
    return len(matched) == 1 and matched[0].action is Action.DELETE and matched[0].condition is None


def _key_pairs(parts: list[exp.Expression], scope: Scope, reasons: list[str]) -> tuple[KeyPair, ...]:
    pairs = []
    for part in parts:
        if not isinstance(part, exp.EQ | exp.NullSafeEQ):
            continue
        sides = {r.side: r for r in map(scope.reference, (part.this, part.expression)) if r is not None}
        if len(sides) != 2:
            continue
        target, source = sides["target"], sides["source"]
        if len(target.path) > 1 or len(source.path) > 1:
            reasons.append(f"{part.sql()}: a nested field is no key to prune by")
        elif not _comparable(scope, target, source):
            reasons.append(f"{part.sql()}: the two types are compared only after a cast, which can't be foreseen")
        else:
            pairs.append(KeyPair(target.path[0], source.path[0], isinstance(part, exp.NullSafeEQ)))
    if not pairs:
        reasons.append("the search condition has no equality between a target and a source column to prune by")
    return tuple({pair.target: pair for pair in reversed(pairs)}.values())[::-1]


_INTEGERS = ("byte", "short", "integer", "long")
_FLOATS = ("float", "double")
_EXACT = ("string", "date", "timestamp", "timestamp_ntz", "boolean", "binary")


def _comparable(scope: Scope, target: Reference, source: Reference) -> bool:
    """Whether equal values of the two columns are equal numbers or bytes, so that a set of them can be looked up."""
    kinds = []
    decimals = []
    for schema, path in ((scope.target, target.path), (scope.source, source.path)):
        field = schema.find(path[0], case_sensitive=True)
        if field is None or not isinstance(field.type, PrimitiveType):
            return False
        if any("COLLATION" in key or "CHAR_VARCHAR" in key for key in field.metadata):
            return False
        name = field.type.name
        groups = {"integer": _INTEGERS, "float": _FLOATS}
        kind = next((group for group, names in groups.items() if name in names), name)
        kinds.append("decimal" if field.type.decimal else kind)
        decimals += [field.type.decimal] if field.type.decimal else []
    if len(decimals) == 2 and not _exact_together(*decimals):
        return False
    return kinds[0] == kinds[1] and kinds[0] in ("integer", "float", "decimal", *_EXACT)


def _exact_together(a: tuple[int, int], b: tuple[int, int]) -> bool:
    """Whether a decimal type holds all values of both; else Spark compares them rounded."""
    return max(a[0] - a[1], b[0] - b[1]) + max(a[1], b[1]) <= 38


def _target_predicate(parts: Iterable[exp.Expression], scope: Scope) -> Predicate:
    found = [predicate for part in parts if (predicate := predicate_of(part, scope)) is not None]
    return And(tuple(found))


def _expressions(resolved: ResolvedMerge, clauses: Iterable[ResolvedClause]) -> list[Expression]:
    found = []
    for clause in clauses:
        found += [clause.condition] if clause.condition is not None else []
        found += [value.value for value in clause.values]
    return found


def _target_columns(resolved: ResolvedMerge, keys: Iterable[KeyPair]) -> tuple[str, ...]:
    """The target's columns that an expression may use; an update's other columns come from the file itself."""
    used = [resolved.spec.condition, *_expressions(resolved, [*resolved.of(Side.MATCHED), *resolved.of(Side.BY_SOURCE)])]
    names = {pair.target for pair in keys} | set(resolved.scope.used(used, "target"))
    return tuple(name for name in resolved.scope.target.names if name in names)


def _source_columns(resolved: ResolvedMerge) -> tuple[str, ...]:
    used = [resolved.spec.condition, *_expressions(resolved, [*resolved.of(Side.MATCHED), *resolved.of(Side.NOT_MATCHED)])]
    return tuple(resolved.scope.used(used, "source"))
