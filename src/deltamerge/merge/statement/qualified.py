"""What the source goes by: its alias, or those of the frames that it is a join of (`a.id = t.id`, `SET n = b.m`)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from deltamerge.merge.statement.clauses import MergeSpec
from deltamerge.spark.expressions.aliases import with_structs
from deltamerge.spark.expressions.analysis import has_qualifier
from deltamerge.spark.expressions.expression import Expression
from deltamerge.spark.session.adapter import alias_of
from deltamerge.spark.session.settings import case_sensitive


def with_alias(spec: MergeSpec, evolves: bool) -> MergeSpec:
    """The specification with the source's alias, where it has one.

    A frame can have one alias only. Of several that the expressions use each becomes a struct column of the source, by which
    `b.m` is its field; so does a single one where the source has other columns of a name that is used.
    """
    alias = spec.source_alias or alias_of(spec.source)
    if alias is not None:
        return replace(spec, source_alias=alias)
    aliases = _carried(spec)
    if (len(aliases) > 1 or (aliases and _uses_repeated(spec))) and not (evolves and any(clause.star for clause in spec.clauses)):
        source = with_structs(spec.source, aliases)
        if source is not None:
            return replace(spec, source=source)
    return replace(spec, source_alias=next(iter(aliases), None))


def _carried(spec: MergeSpec) -> list[str]:
    """The aliases that are visible in the source frame, of those that the expressions use."""
    used = {name.lower(): name for expression in _expressions(spec) for name in expression.qualifiers}
    used.pop((spec.target_alias or "").lower(), None)
    return [name for name in used.values() if has_qualifier(spec.source, name)]


def _uses_repeated(spec: MergeSpec) -> bool:
    """Whether the expressions may use a name that several columns of the source have."""
    is_same = (lambda name: name) if case_sensitive(spec.source.sparkSession) else str.lower
    counts = Counter(map(is_same, spec.source.columns))
    repeated = {name.lower() for name, count in counts.items() if count > 1}
    words = [expression.words for expression in _expressions(spec)]
    return any(found is None or not repeated.isdisjoint(found) for found in words) if repeated else False


def _expressions(spec: MergeSpec) -> list[Expression]:
    expressions = [spec.condition]
    for clause in spec.clauses:
        expressions += [clause.condition] if clause.condition is not None else []
        expressions += [assignment.value for assignment in clause.assignments if assignment.value is not None]
    return expressions
