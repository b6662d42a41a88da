"""What the source goes by: its alias, or those of the frames that it is a join of (`a.id = t.id`, `SET n = b.m`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import functions as F

from deltamerge.merge.clauses import MergeSpec
from deltamerge.spark.adapter import alias_of
from deltamerge.spark.analysis import has_qualifier
from deltamerge.spark.expression import quoted


def with_alias(spec: MergeSpec, evolves: bool) -> MergeSpec:
    """The specification with the source's alias, where it has one.

    A frame can have one alias only: of several that the expressions use each becomes a struct column of the source, by which
    `b.m` is its field.
    """
    alias = spec.source_alias or alias_of(spec.source)
    if alias is not None:
        return replace(spec, source_alias=alias)
    aliases = _carried(spec)
    if len(aliases) < 2 or (evolves and any(clause.star for clause in spec.clauses)):
        return replace(spec, source_alias=next(iter(aliases), None))
    return _with_structs(spec, aliases)


def _carried(spec: MergeSpec) -> list[str]:
    """The aliases that are visible in the source frame, of those that the expressions use."""
    expressions = [spec.condition]
    for clause in spec.clauses:
        expressions += [clause.condition] if clause.condition is not None else []
        expressions += [assignment.value for assignment in clause.assignments if assignment.value is not None]
    used = {name.lower(): name for expression in expressions for name in expression.qualifiers}
    used.pop((spec.target_alias or "").lower(), None)
    return [name for name in used.values() if has_qualifier(spec.source, name)]


def _with_structs(spec: MergeSpec, aliases: Sequence[str]) -> MergeSpec:
    """The specification with a struct column for each alias; names that several columns have need one of them."""
    names = Counter(name.lower() for name in spec.source.columns)
    if any(alias.lower() in names for alias in aliases):
        return replace(spec, source_alias=aliases[0])
    columns = [F.col(quoted(name)) for name in spec.source.columns if names[name.lower()] == 1]
    structs = [F.struct(F.col(f"{quoted(alias)}.*")).alias(alias) for alias in aliases]
    return replace(spec, source=spec.source.select(*columns, *structs))
