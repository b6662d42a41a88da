"""What the search condition says of the columns of both sides: which must be equal, and which compare.

Only what is understood with certainty is taken; the rest says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from deltamerge.merge.plan.literals import predicate_of
from deltamerge.merge.resolve.resolve import ResolvedMerge
from deltamerge.merge.resolve.scope import Reference, Scope, conjuncts
from deltamerge.merge.statement.clauses import ClauseKind
from deltamerge.protocol.schema.types import PrimitiveType
from deltamerge.protocol.values.predicate import ALWAYS, And, Comparison, Or, Predicate


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


def has_equality(parts: Sequence[exp.Expression], scope: Scope) -> bool | None:
    """Whether some conjunct wants something of the target to equal something of the source; None where that can't be seen."""
    equalities = [part for part in parts if isinstance(part, exp.EQ | exp.NullSafeEQ)]
    sides = [(scope.side_of(part.this), scope.side_of(part.expression)) for part in equalities]
    if any({*pair} == {"target", "source"} for pair in sides):
        return True
    return False if parts and all(isinstance(part, _UNEQUAL) for part in parts) else None


def key_pairs(parts: list[exp.Expression], scope: Scope, notes: list[str]) -> tuple[KeyPair, ...]:
    """The pairs of a target and a source column that the condition wants to be equal, and that a set of values can be looked up
    by; `notes` take why others are not.
    """
    pairs = []
    for part, target, source in _equalities(parts, scope):
        if len(target.path) > 1 or len(source.path) > 1:
            notes.append(f"{part.sql()}: a nested field is no key to prune by")
        elif not _comparable(scope, target, source):
            notes.append(f"{part.sql()}: the two types are compared only after a cast, which can't be foreseen")
        else:
            pairs.append(_pair(part, target, source))
    if not pairs:
        notes.append("the search condition has no equality between a target and a source column to prune by")
    return tuple({pair.target: pair for pair in reversed(pairs)}.values())[::-1]


_COMPARISONS: dict[type[exp.Expression], Comparison] = {exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.EQ: "="}
_FLIPPED: dict[Comparison, Comparison] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def column_ranges(parts: list[exp.Expression], scope: Scope) -> tuple[Range, ...]:
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


def touched_by_source(resolved: ResolvedMerge) -> Predicate | None:
    """True for every row that some NOT MATCHED BY SOURCE clause can change; None when there is no such clause."""
    clauses = resolved.original_of(ClauseKind.BY_SOURCE)  # which apply to no fewer rows
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


def target_predicate(parts: Iterable[exp.Expression], scope: Scope) -> Predicate:
    """True for every target row that can match, as far as comparisons with literals tell."""
    found = [predicate for part in parts if (predicate := predicate_of(part, scope)) is not None]
    return And(tuple(found))
