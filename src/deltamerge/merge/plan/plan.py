"""How a merge will run, as plain data: strategy, join, keys, columns, target predicate. `explain()` prints it.

Nothing here asks Spark anything, and nothing reads a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from sqlglot import exp

from deltamerge.budgets import DEFAULTS, Budgets
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.merge.plan.literals import predicate_of
from deltamerge.merge.resolve.resolve import ResolvedClause, ResolvedMerge
from deltamerge.merge.resolve.scope import Reference, Scope, conjuncts
from deltamerge.merge.statement.clauses import Action, Side
from deltamerge.protocol.schema.types import PrimitiveType
from deltamerge.protocol.table.features import named_features
from deltamerge.protocol.values.predicate import ALWAYS, And, Comparison, Or, Predicate
from deltamerge.spark.expressions.expression import Expression


class Join(Enum):
    """How source and target are joined; the value is Spark's name for `source JOIN target`."""

    INNER = "inner"
    LEFT = "left"
    ANTI = "left_anti"
    RIGHT = "right"
    FULL = "full"


class Strategy(Enum):
    """Where source and target are joined: in Arrow when both sides of the match are small enough to hold; else by the tasks that
    own the files, where each source row can be sent to the file that may have its key; by tasks to which the rows of both
    sides are sent by their keys; else by Spark.
    """

    AUTO = "auto"
    ARROW = "arrow"
    ROUTE = "route"
    MEET = "meet"
    JOIN = "join"


@dataclass(frozen=True)
class KeyPair:
    """`target column = source column`, surely part of every match; `null_safe` for `<=>`."""

    target: str
    source: str
    null_safe: bool = False


@dataclass(frozen=True)
class Range:
    """`target column op source column`, surely part of every match: no match is beyond the source's least or greatest value."""

    target: str
    op: Comparison
    source: str


@dataclass(frozen=True)
class MergePlan:
    """A merge, decided. `target_predicate` is true for every target row that can match.

    `pairs` and `ranges` say which files can hold matches, by the source's values; `by_source` is true for every row that a
    NOT MATCHED BY SOURCE clause can change (None: there is no such clause). `keys` are the pairs if they may filter rows,
    too: where no row without a partner matters; `keys_decide` says that the pairs are the whole search condition.
    `equates` says whether the search condition has an equality of the two sides for Spark to join by, be it of computed
    values; None when that can't be told.
    `folds_duplicates` says that several source rows may hit one target row. Rows are marked in deletion vectors as long as no
    more than `rewrite_share` of a file's rows are; 0 says that touched files are always written again. `feed` says that
    change data files are written.
    """

    resolved: ResolvedMerge
    join: Join
    keys: tuple[KeyPair, ...]
    target_predicate: Predicate
    target_columns: tuple[str, ...]
    source_columns: tuple[str, ...]
    folds_duplicates: bool
    keys_decide: bool = False
    pairs: tuple[KeyPair, ...] = ()
    ranges: tuple[Range, ...] = ()
    by_source: Predicate | None = None
    strategy: Strategy = Strategy.AUTO
    rewrite_share: float = 0.0
    feed: bool = False
    reasons: tuple[str, ...] = ()
    equates: bool | None = None
    budgets: Budgets = DEFAULTS

    @property
    def only_inserts(self) -> bool:
        """Whether no row of the target can change."""
        return all(clause.action is Action.INSERT for clause in self.resolved.clauses)

    def explain(self, files: str = "", kept: Sequence[str] = (), routed: str = "") -> str:
        """The plan in words, a fact a line; `files` says how many can be foreseen to be left of the table.

        The columns `kept` by updates are read with the key, unless there turn out to be too many values. `routed` says where the
        rows of a large source are sent, if they are.
        """
        lines = [
            f"MERGE INTO {self.resolved.snapshot.store.url}, version {self.resolved.snapshot.version}",
            f"  join:              source {self.join.value} target ON {self.resolved.spec.condition.text}",
            f"  keys:              {self._keys()}",
            f"  target predicates: {self.target_predicate if self.target_predicate != ALWAYS else 'none'}",
            f"  file pruning:      {self._pruning()}",
            *([f"  files:             {files}"] if files else []),
            f"  target columns:    {', '.join(self.target_columns) or 'none'}",
            *([f"  kept columns:      {', '.join(kept)}; read with the keys where they fit in memory"] if kept else []),
            *([f"  large source:      {routed}"] if routed else []),
            f"  source columns:    {', '.join(self.source_columns) or 'none'}",
            f"  touched files:     {self._touched_files()}",
        ]
        if self.feed:
            lines.append("  change data:       written")
        for clause in self.resolved.clauses:
            condition = f" AND {clause.condition.text}" if clause.condition else ""
            lines.append(f"  WHEN {clause.side.value}{condition} THEN {clause.action.name}")
        lines += [f"  note:              {reason}" for reason in self.reasons]
        return "\n".join(lines)

    @property
    def bounded(self) -> frozenset[str]:
        """The source columns whose least and greatest values say which files can hold matches."""
        return frozenset(r.source for r in self.ranges)

    def _keys(self) -> str:
        found = ", ".join(f"{pair.target} {'<=>' if pair.null_safe else '='} source.{pair.source}" for pair in self.pairs)
        return f"{found}; rows without a partner are looked at, too" if found and not self.keys else found or "none"

    def _pruning(self) -> str:
        if self.by_source == ALWAYS:
            return "none"
        found = [f"{pair.target} in source.{pair.source}" for pair in self.pairs]
        pairs = {(pair.target, pair.source) for pair in self.pairs}
        found += [f"{r.target} {r.op} source.{r.source}" for r in self.ranges if (r.target, r.source) not in pairs]
        text = " and ".join(found) or "none by the source"
        return text if self.by_source is None else f"{text}, or by source: {self.by_source}"

    def _touched_files(self) -> str:
        if not self.rewrite_share:
            return "rewritten"
        return f"marked by deletion vectors, rewritten when more than {self.rewrite_share:.0%} of their rows are gone"


REWRITE_SHARE = 0.5


def plan_merge(
    resolved: ResolvedMerge,
    strategy: Strategy = Strategy.AUTO,
    rewrite_share: float = REWRITE_SHARE,
    budgets: Budgets = DEFAULTS,
) -> MergePlan:
    """Decide how a resolved merge runs; `strategy` forces a choice that is otherwise made by size.

    `rewrite_share` is the share of a file's rows that may be gone before it is rewritten, for tables with deletion vectors.
    """
    reasons: list[str] = []
    parts = conjuncts(resolved.spec.condition.tree)
    by_source = _by_source(resolved)
    pairs = _key_pairs(parts, resolved.scope, reasons)
    keys = pairs if by_source is None else ()
    if by_source == ALWAYS:
        reasons.append("NOT MATCHED BY SOURCE looks at every target row: no file can be skipped")
    elif resolved.spec.condition.tree is None:
        reasons.append("the search condition can't be seen into: no file can be skipped")
    if resolved.demands:
        strategy = Strategy.JOIN
        reasons.append("constraints or generated columns are evaluated over whole rows: Spark joins")
    share = rewrite_share if _writes_vectors(resolved.snapshot) else 0.0
    feed = _has_feed(resolved)
    if feed and resolved.spec.derives_deletes and (share or _deletes_files(resolved)):
        # A file that is only marked or removed tells which rows are deleted.
        share, feed = (1.0 if share else 0.0), False
    return MergePlan(
        resolved,
        _join(resolved),
        keys,
        _target_predicate(parts, resolved.scope),
        _target_columns(resolved, keys),
        _source_columns(resolved),
        _folds_duplicates(resolved),
        bool(pairs) and len(pairs) == len(parts),
        pairs,
        _ranges(parts, resolved.scope),
        by_source,
        strategy,
        share,
        feed,
        tuple(reasons),
        _equate(parts, resolved.scope),
        budgets,
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


def equal_columns(resolved: ResolvedMerge) -> tuple[KeyPair, ...]:
    """The pairs of a target and a source column that the search condition wants to be equal, whatever their types."""
    found = _equalities(conjuncts(resolved.spec.condition.tree), resolved.scope)
    return tuple(_pair(part, target, source) for part, target, source in found if len(target.path) + len(source.path) == 2)


def _equalities(parts: Iterable[exp.Expression], scope: Scope) -> Iterator[tuple[exp.Expression, Reference, Reference]]:
    """The conjuncts that want a name of the target and one of the source to be equal, each with the two."""
    for part in parts:
        if isinstance(part, exp.EQ | exp.NullSafeEQ):
            sides = {r.side: r for r in map(scope.reference, (part.this, part.expression)) if r is not None}
            if len(sides) == 2:
                yield part, sides["target"], sides["source"]


def _pair(part: exp.Expression, target: Reference, source: Reference) -> KeyPair:
    return KeyPair(target.path[0], source.path[0], isinstance(part, exp.NullSafeEQ))


_UNEQUAL = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NEQ, exp.Between, exp.Boolean)


def _equate(parts: Sequence[exp.Expression], scope: Scope) -> bool | None:
    """Whether some conjunct wants something of the target to equal something of the source; None where that can't be seen."""
    equalities = [part for part in parts if isinstance(part, exp.EQ | exp.NullSafeEQ)]
    sides = [(scope.side_of(part.this), scope.side_of(part.expression)) for part in equalities]
    if any({*pair} == {"target", "source"} for pair in sides):
        return True
    return False if parts and all(isinstance(part, _UNEQUAL) for part in parts) else None


def _key_pairs(parts: list[exp.Expression], scope: Scope, reasons: list[str]) -> tuple[KeyPair, ...]:
    pairs = []
    for part, target, source in _equalities(parts, scope):
        if len(target.path) > 1 or len(source.path) > 1:
            reasons.append(f"{part.sql()}: a nested field is no key to prune by")
        elif not _comparable(scope, target, source):
            reasons.append(f"{part.sql()}: the two types are compared only after a cast, which can't be foreseen")
        else:
            pairs.append(_pair(part, target, source))
    if not pairs:
        reasons.append("the search condition has no equality between a target and a source column to prune by")
    return tuple({pair.target: pair for pair in reversed(pairs)}.values())[::-1]


_COMPARISONS: dict[type[exp.Expression], Comparison] = {exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.EQ: "="}
_FLIPPED: dict[Comparison, Comparison] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def _ranges(parts: list[exp.Expression], scope: Scope) -> tuple[Range, ...]:
    """The comparisons of a target column with a source column of which the source's least and greatest values tell files."""
    found = []
    for part in parts:
        if isinstance(part, exp.Between) and not part.args.get("symmetric") and not part.args.get("negate"):
            sides = [(part.this, ">=", part.args["low"]), (part.this, "<=", part.args["high"])]
        elif type(part) in _COMPARISONS:
            sides = [(part.this, _COMPARISONS[type(part)], part.expression)]
        else:
            continue
        found += [known for left, op, right in sides if (known := _range(left, op, right, scope)) is not None]  # type: ignore[arg-type]
    return tuple(found)


def _range(left: exp.Expression, op: Comparison, right: exp.Expression, scope: Scope) -> Range | None:
    one, other = scope.reference(left), scope.reference(right)
    if one is None or other is None or {one.side, other.side} != {"target", "source"} or len(one.path) + len(other.path) > 2:
        return None
    target, source, op = (one, other, op) if one.side == "target" else (other, one, _FLIPPED[op])
    field = scope.target.find(target.path[0], case_sensitive=True)
    ordered = field is not None and isinstance(field.type, PrimitiveType) and (field.type.decimal or field.type.name in _ORDERED)
    return Range(target.path[0], op, source.path[0]) if ordered and _comparable(scope, target, source) else None


def _by_source(resolved: ResolvedMerge) -> Predicate | None:
    """True for every row that some NOT MATCHED BY SOURCE clause can change; None when there is no such clause."""
    clauses = resolved.asked_of(Side.BY_SOURCE)  # which apply to no fewer rows
    if not clauses:
        return None
    alone = resolved.scope.target_alone
    trees = [None if clause.condition is None else clause.condition.tree for clause in clauses]
    known = [None if tree is None else predicate_of(tree, alone) for tree in trees]
    return ALWAYS if None in known else Or(tuple(predicate for predicate in known if predicate is not None))


# Floats are left out: NaN is greater than all, and no statistics say whether there is one.
_ORDERED = ("byte", "short", "integer", "long", "date", "timestamp", "timestamp_ntz", "string")
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
    scope = resolved.scope
    names = {pair.target for pair in keys}
    names.update(scope.used([resolved.spec.condition, *_expressions(resolved, resolved.of(Side.MATCHED))], "target"))
    names.update(scope.target_alone.used(_expressions(resolved, resolved.of(Side.BY_SOURCE)), "target"))
    return tuple(name for name in resolved.scope.target.names if name in names)


def _source_columns(resolved: ResolvedMerge) -> tuple[str, ...]:
    scope = resolved.scope
    names = set(scope.used([resolved.spec.condition, *_expressions(resolved, resolved.of(Side.MATCHED))], "source"))
    names.update(scope.source_alone.used(_expressions(resolved, resolved.of(Side.NOT_MATCHED)), "source"))
    return tuple(name for name in scope.source.names if name in names)
