"""Whether sqlglot's tree of an expression is surely Spark's: they read the same tokens, but not by the same grammar."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from sqlglot import exp

# What each operator is in a tree.
_OPERATORS: tuple[tuple[tuple[str, ...], tuple[type[exp.Expression], ...]], ...] = (
    (("=", "=="), (exp.EQ,)),
    (("IS", "<=>"), (exp.Is, exp.NullSafeEQ, exp.NullSafeNEQ)),
    (("AND",), (exp.And, exp.Between)),
    (("OR",), (exp.Or,)),
    (("+",), (exp.Add,)),
    (("-",), (exp.Sub, exp.Neg)),
    (("*",), (exp.Mul, exp.Star)),
    (("->",), (exp.Lambda,)),
)
_PREDICATES = (exp.Predicate, exp.RegexpLike, exp.RegexpILike, exp.Escape, exp.Not)


def agrees(tree: exp.Expression, keywords: Sequence[str]) -> bool:
    """Whether a tree has the operators that are among a text's keywords and signs, and no operand that depends on precedence.

    sqlglot reads `a ISNULL` as an operator, Spark as an alias; it leaves out the plus of `+a`, which casts; and in
    `a = b IS NULL` or `a = b < c` the two begin with another operator.
    """
    found: Counter[type[exp.Expression]] = Counter()
    for node in tree.walk():
        found[type(node)] += 1
        if isinstance(node, exp.Predicate) and any(map(_depends, _operands(node))):
            return False
    written = Counter(keywords)
    return all(sum(written[word] for word in words) == sum(found[kind] for kind in kinds) for words, kinds in _OPERATORS)


def _operands(node: exp.Expression) -> Iterable[exp.Expression]:
    """A predicate's operands as they are written: sqlglot puts those of `<=>` in parentheses."""
    adds_parentheses = isinstance(node, exp.NullSafeEQ | exp.NullSafeNEQ)
    return (operand.unnest() if adds_parentheses else operand for operand in node.iter_expressions())


def _depends(operand: exp.Expression) -> bool:
    return isinstance(operand, _PREDICATES) and not isinstance(operand, exp.SubqueryPredicate)


def unseen(tree: exp.Expression, names: Sequence[str]) -> frozenset[str]:
    """Those of a text's names, in lower case, that stand in it more often than in the columns of its tree."""
    columns = (name for name in tree.find_all(exp.Identifier) if isinstance(name.parent, exp.Column | exp.Dot))
    missing = Counter(names) - Counter(name.name.lower() for name in columns)
    return frozenset(missing)
