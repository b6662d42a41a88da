"""What the source goes by: its alias, or those of the frames that it is a join of (`a.id = t.id`, `SET n = b.m`)."""

from __future__ import annotations

from dataclasses import replace

from deltamerge.merge.statement.clauses import MergeSpec
from deltamerge.spark.expressions.aliases import with_structs
from deltamerge.spark.expressions.analysis import has_qualifier
from deltamerge.spark.session.adapter import alias_of


def with_alias(spec: MergeSpec, evolves: bool) -> MergeSpec:
    """The specification with the source's alias, where it has one.

    A frame can have one alias only: of several that the expressions use each becomes a struct column of the source, by which
    `b.m` is its field.
    """
    alias = spec.source_alias or alias_of(spec.source)
    if alias is not None:
        return replace(spec, source_alias=alias)
    aliases = _carried(spec)
    if len(aliases) > 1 and not (evolves and any(clause.star for clause in spec.clauses)):
        source = with_structs(spec.source, aliases)
        if source is not None:
            return replace(spec, source=source)
    return replace(spec, source_alias=next(iter(aliases), None))


def _carried(spec: MergeSpec) -> list[str]:
    """The aliases that are visible in the source frame, of those that the expressions use."""
    expressions = [spec.condition]
    for clause in spec.clauses:
        expressions += [clause.condition] if clause.condition is not None else []
        expressions += [assignment.value for assignment in clause.assignments if assignment.value is not None]
    used = {name.lower(): name for expression in expressions for name in expression.qualifiers}
    used.pop((spec.target_alias or "").lower(), None)
    return [name for name in used.values() if has_qualifier(spec.source, name)]
