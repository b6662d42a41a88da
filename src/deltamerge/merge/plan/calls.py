"""Calls in the text of an expression whose functions are surely Spark's own, and what is known of them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from sqlglot import exp

from deltamerge.merge.resolve.scope import Scope
from deltamerge.protocol.schema.types import PrimitiveType, arrow_type
from deltamerge.spark.plans.calls import called

FIRST = frozenset({"coalesce", "ifnull", "nvl"})
_TIMESTAMPS = frozenset({"current_timestamp", "now"})
_DATES = frozenset({"current_date", "curdate"})


def alternatives(node: exp.Expression, scope: Scope) -> Sequence[exp.Expression]:
    """The arguments of COALESCE and its like, of which the first is taken that is not null; () for all else."""
    found: Sequence[exp.Expression] = node.expressions if _own(node, scope) in FIRST else ()
    return found


def conditional(node: exp.Expression, scope: Scope) -> tuple[exp.Expression, exp.Expression, exp.Expression] | None:
    """The three arguments of IF; None for all else."""
    return tuple(node.expressions) if _own(node, scope) == "if" and len(node.expressions) == 3 else None


def moment(node: exp.Expression, type: PrimitiveType, scope: Scope) -> pa.Scalar | None:
    """The merge's time, where a node asks for it and a value of that type is known."""
    clock, name = scope.clock, _clock_name(node)
    if clock is None or name is None or name not in clock.own:
        return None
    if isinstance(node, exp.Func) and not isinstance(node, exp.Anonymous) and name in clock.columns:
        return None
    if type.name == "timestamp" and name in _TIMESTAMPS:
        return pa.scalar(clock.micros, pa.int64()).cast(arrow_type(type))
    if type.name == "date" and name in _DATES and clock.days is not None:
        return pa.scalar(clock.days, pa.int32()).cast(arrow_type(type))
    return None


def _own(node: exp.Expression, scope: Scope) -> str | None:
    name = called(node.this) if isinstance(node, exp.Anonymous) else None
    return name if name in scope.functions else None


def _clock_name(node: exp.Expression) -> str | None:
    if isinstance(node, exp.Anonymous):
        return None if node.expressions else called(node.this)
    # Without parentheses.
    if isinstance(node, exp.CurrentTimestamp | exp.CurrentDate) and node.this is None:
        return "current_timestamp" if isinstance(node, exp.CurrentTimestamp) else "current_date"
    return None
