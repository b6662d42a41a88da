"""Which column a name means, as Spark resolves it: the target's, the source's, or not surely either.

Only used to see into expressions; Spark itself resolves what it evaluates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from sqlglot import exp

from deltamerge.protocol.schema.types import StructType
from deltamerge.spark.expressions.expression import Expression
from deltamerge.spark.sql.text import name_parts


@dataclass(frozen=True)
class Reference:
    """A column, by side and path; the path's first name is spelled as the schema spells it."""

    side: Literal["target", "source"]
    path: tuple[str, ...]


@dataclass(frozen=True)
class Scope:
    """The names that an expression over both sides can see."""

    target: StructType
    source: StructType
    target_alias: str
    source_alias: str
    case_sensitive: bool = False

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

    def side_of(self, node: exp.Expression) -> str | None:
        """The side that all columns of an expression are of; None when it has none, or that can't be said for sure."""
        sides = {reference.side for reference in self._references(node) or ()}
        return sides.pop() if len(sides) == 1 else None

    @property
    def target_alone(self) -> Scope:
        """What NOT MATCHED BY SOURCE clauses see."""
        return replace(self, source=StructType(()))

    @property
    def source_alone(self) -> Scope:
        """What NOT MATCHED clauses see."""
        return replace(self, target=StructType(()))

    def same(self, a: str, b: str) -> bool:
        """Whether two names are the same one."""
        return self._key(a) == self._key(b)

    def is_repeated(self, side: str, name: str) -> bool:
        """Whether several columns of a side go by this name."""
        schema = self.target if side == "target" else self.source
        return sum(self.same(field.name, name) for field in schema) > 1

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
                names.update(name for name in schema.names if expression.overlooks(name))
        counts = Counter(map(self._key, schema.names))
        return [name for name in schema.names if name in names and counts[self._key(name)] == 1]

    def _key(self, name: str) -> str:
        """What names have in common that are the same one."""
        return name if self.case_sensitive else name.lower()

    def _references(self, node: exp.Expression | None) -> list[Reference] | None:
        """Every column that a tree uses; None when that can't be said for sure."""
        if node is None or node.find(exp.Placeholder, exp.Star, exp.Subquery, exp.Select, exp.Lambda) is not None:
            return None
        found = [self.reference(name) for name in _outermost_names(node)]
        return None if None in found else [reference for reference in found if reference is not None]


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
