"""Which column a name means, as Spark resolves it: the target's, the source's, or not surely either; which functions are Spark's.

Used to see into expressions, and for names that Spark can't resolve over the merge's own frames, which have one alias each.
Source: Spark's `AttributeSeq.resolve`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from sqlglot import exp

from deltamerge.errors import AnalysisError
from deltamerge.merge.statement.clauses import ClauseKind
from deltamerge.protocol.schema.types import PrimitiveType, StructType, is_void
from deltamerge.spark.expressions.analysis import NAMES_WANTED
from deltamerge.spark.expressions.expression import Expression
from deltamerge.spark.expressions.time import Clock
from deltamerge.spark.plans.attributes import quoted
from deltamerge.spark.sql.text import name_parts


@dataclass(frozen=True)
class Reference:
    """A column, by side and path; the path's first name is spelled as the schema spells it."""

    side: Literal["target", "source"]
    path: tuple[str, ...]


@dataclass(frozen=True)
class Scope:
    """The names that an expression over both sides can see.

    The merge's frames go by the aliases. What the user writes are the names: an alias, or all parts of a table's name, by the
    last of which or by more a column may be qualified; () is no name. Of a join only the columns `source_named` go by its name.
    `functions` are those that the expressions call which are surely Spark's own; `clock` is the time that all expressions have.
    """

    target: StructType
    source: StructType
    target_alias: str
    source_alias: str
    case_sensitive: bool = False
    target_name: tuple[str, ...] = ()
    source_name: tuple[str, ...] = ()
    source_named: frozenset[str] | None = None
    functions: frozenset[str] = frozenset()
    clock: Clock | None = None

    def reference(self, node: exp.Expression | None) -> Reference | None:
        """The column that a node is, None when it is none or not surely one."""
        parts = name_parts(node)
        if not parts:
            return None
        sides = (("target", self.target_alias, self.target), ("source", self.source_alias, self.source))
        qualified = [
            (side, parts[1:], field)
            for side, alias, schema in sides
            if len(parts) > 1 and self.same(parts[0], alias) and (field := schema.find(parts[1], self.case_sensitive))
        ]
        plain = [
            (side, parts, field) for side, _, schema in sides if (field := schema.find(parts[0], self.case_sensitive)) is not None
        ]
        found = qualified or plain
        if len(found) != 1 or self.is_repeated(found[0][0], found[0][2].name):
            return None
        side, path, field = found[0]
        return Reference("target" if side == "target" else "source", (field.name, *path[1:]))

    def explicit(self, parts: tuple[str, ...]) -> tuple[str, ...] | None:
        """A name that Spark would not find by the frames' aliases, by these; None for others. Raises AnalysisError for one that
        is ambiguous.

        The longest qualifier that leads to a column counts; a name without one is a column's with its fields.
        """
        for length in range(len(parts) - 1, 0, -1):
            found = [
                alias
                for alias, qualifier, names in self._sides
                if self._ends(qualifier, parts[:length])
                for name in names
                if self.same(name, parts[length])
            ]
            if not found or (length == 1 and self.same(found[0], parts[0])):
                continue
            if len(found) > 1:
                raise _ambiguous(parts)
            return (found[0], *parts[length:])
        return None

    def target_path(self, parts: Sequence[str]) -> Sequence[str]:
        """A name that an assignment sets, from the column on; the parts as they are where no qualifier leads to a column."""
        return self._path_on(self.target_name, self.target.names, parts)

    def source_path(self, parts: Sequence[str]) -> Sequence[str]:
        """A column of the source by name, as `target_path`."""
        return self._path_on(self.source_name, self._source_names, parts)

    def _path_on(self, qualifier: tuple[str, ...], names: Sequence[str], parts: Sequence[str]) -> Sequence[str]:
        lengths = [n for n in range(len(parts) - 1, 0, -1) if self._ends(qualifier, parts[:n])]
        return next((parts[n:] for n in lengths if any(self.same(name, parts[n]) for name in names)), parts)

    def _ends(self, name: Sequence[str], parts: Sequence[str]) -> bool:
        return len(parts) <= len(name) and all(map(self.same, name[-len(parts) :], parts))

    @property
    def shares_a_name(self) -> bool:
        """Whether source and target are both called by one word."""
        return bool(self.target_name and self.source_name) and self.same(self.target_name[-1], self.source_name[-1])

    @property
    def may_go_by_names(self) -> bool:
        """Whether the last parts of the names may be the frames' aliases: each column is then found by it, or by no name."""
        columns = (*self.target.names, *self.source.names)
        named = self.source_named is None or not any(self.same(name, self.source_name[-1]) for name in columns)
        return named and not self.shares_a_name

    @property
    def _source_names(self) -> list[str]:
        return [name for name in self.source.names if self.source_named is None or name in self.source_named]

    @property
    def _sides(self) -> tuple[tuple[str, tuple[str, ...], list[str]], ...]:
        return (self.target_alias, self.target_name, self.target.names), (self.source_alias, self.source_name, self._source_names)

    def side_of(self, node: exp.Expression) -> str | None:
        """The side that all columns of an expression are of; None when it has none, or that can't be said for sure."""
        sides = {reference.side for reference in self._references(node) or ()}
        return sides.pop() if len(sides) == 1 else None

    @property
    def target_alone(self) -> Scope:
        """What NOT MATCHED BY SOURCE clauses see."""
        return replace(self, source=StructType(()))

    def of(self, kind: ClauseKind) -> Scope:
        """What the clauses about a kind of rows see."""
        if kind is ClauseKind.MATCHED:
            return self
        return self.source_alone if kind is ClauseKind.NOT_MATCHED else self.target_alone

    @property
    def source_alone(self) -> Scope:
        """What NOT MATCHED clauses see."""
        return replace(self, target=StructType(()))

    def same(self, a: str, b: str) -> bool:
        """Whether two names are the same one."""
        return self._key(a) == self._key(b)

    def is_repeated(self, side: str, name: str) -> bool:
        """Whether several columns of a side go by this name."""
        return self._counts[side][self._key(name)] > 1

    def plain_type(self, side: Literal["target", "source"], name: str) -> PrimitiveType | None:
        """The type of the one column of a side that has exactly this name, where it has neither fields nor a collation."""
        field = (self.target if side == "target" else self.source).find(name, case_sensitive=True)
        if field is None or not isinstance(field.type, PrimitiveType) or is_void(field.type) or self.is_repeated(side, name):
            return None
        return None if "__COLLATIONS" in field.metadata else field.type

    @cached_property
    def _counts(self) -> dict[str, Counter[str]]:
        """How many columns of each side go by a name."""
        return {
            side: Counter(map(self._key, schema.names)) for side, schema in (("target", self.target), ("source", self.source))
        }

    def used(self, expressions: Iterable[Expression], side: Literal["target", "source"]) -> list[str]:
        """Names of the columns of one side that expressions use, in the schema's order; more than they use when in doubt.

        None that several columns have: to Spark's analyzer, which let the expressions pass, it would be ambiguous.
        """
        schema = self.target if side == "target" else self.source
        names: set[str] = set()
        for expression in expressions:
            references = self._references(expression.tree)
            if references is None:
                names.update(name for name in schema.names if expression.mentions(name))
            else:
                names.update(reference.path[0] for reference in references if reference.side == side)
                if expression.unseen:
                    names.update(name for name in schema.names if expression.overlooks(name))
        return [name for name in schema.names if name in names and not self.is_repeated(side, name)]

    def _key(self, name: str) -> str:
        """What names have in common that are the same one."""
        return name if self.case_sensitive else name.lower()

    def _references(self, node: exp.Expression | None) -> list[Reference] | None:
        """Every column that a tree uses; None when that can't be said for sure."""
        if isinstance(node, exp.Column):
            column = self.reference(node)
            return None if column is None else [column]
        if node is None or node.find(exp.Placeholder, exp.Star, exp.Subquery, exp.Select, exp.Lambda) is not None:
            return None
        found = [self.reference(name) for name in _outermost_names(node)]
        return None if None in found else [reference for reference in found if reference is not None]


def _ambiguous(parts: Sequence[str]) -> AnalysisError:
    name = ".".join(map(quoted, parts))
    return AnalysisError(
        "AMBIGUOUS_REFERENCE",
        f"Reference {name} is ambiguous: several columns of source and target go by it.",
        parameters={"name": name},
        hint=NAMES_WANTED,
    )


def _outermost_names(node: exp.Expression) -> list[exp.Expression]:
    """The names in a tree that are no parts of other names. Without recursion: machine-made conditions are deep."""
    found, waiting = [], [node]
    while waiting:
        node = waiting.pop()
        if isinstance(node, exp.Column | exp.Dot):
            found.append(node)
        else:
            waiting += node.iter_expressions()
    return found


def conjuncts(node: exp.Expression | None) -> list[exp.Expression]:
    """The parts of a condition that must all be true."""
    if isinstance(node, exp.Paren):
        return conjuncts(node.this)
    if isinstance(node, exp.And):
        return [found for part in node.flatten() for found in conjuncts(part)]
    return [] if node is None else [node]
