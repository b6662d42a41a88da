"""What the source goes by: its alias, else its table's name, else the aliases of the frames that it is a join of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from deltamerge.merge.statement.clauses import MergeSpec
from deltamerge.spark.expressions.analysis import columns_by
from deltamerge.spark.expressions.binding import is_bound
from deltamerge.spark.expressions.expression import Expression
from deltamerge.spark.pyspark.adapter import name_of
from deltamerge.spark.session.settings import case_sensitive
from deltamerge.spark.source.aliases import with_structs

Name = tuple[str, ...]


def with_qualifiers(spec: MergeSpec, evolves: bool) -> MergeSpec:
    """The specification with the name by which columns of its source may be qualified, if there is one.

    A frame can have one alias only. Of several that the expressions use (`a.id = t.id`, `SET n = b.m`) each becomes a struct
    column of the source, by which `b.m` is its field; so does a single one where the source has other columns of a name that is
    used.
    """
    if spec.source_name:
        return spec
    name, is_whole = name_of(spec.source)
    if name:
        return replace(spec, source_name=name if is_whole else _whole(spec, name))
    aliases = _carried(spec)
    if (len(aliases) > 1 or (aliases and _uses_repeated(spec))) and not (evolves and any(clause.star for clause in spec.clauses)):
        source = with_structs(spec.source, list(aliases))
        if source is not None:
            return replace(spec, source=source)
    if not aliases:
        return spec
    alias, named = next(iter(aliases.items()))
    return replace(spec, source_name=_longest(spec, alias), source_named=named)


def expressions_of(spec: MergeSpec) -> Iterator[Expression]:
    """All expressions of a merge."""
    yield spec.condition
    for clause in spec.clauses:
        if clause.condition is not None:
            yield clause.condition
        yield from (assignment.value for assignment in clause.assignments if assignment.value is not None)
    if spec.latest is not None:
        yield from spec.latest.by


def _whole(spec: MergeSpec, name: Name) -> Name:
    """A table's name with its catalog and database, where expressions may say them: finding them out takes requests."""
    spark = spec.source.sparkSession
    if not any(is_bound(e) or any(len(parts) > 2 for parts in e.names) for e in expressions_of(spec)):
        return name
    whole = (*(spark.catalog.currentCatalog(), spark.catalog.currentDatabase())[: max(0, 3 - len(name))], *name)
    return whole if columns_by(spec.source, whole) else name


def _longest(spec: MergeSpec, alias: str) -> Name:
    """The longest qualifier that expressions use of the columns which go by an alias."""
    said = {parts[:length] for e in expressions_of(spec) for parts in e.names for length in range(2, len(parts))}
    names = sorted((name for name in said if name[-1].lower() == alias.lower()), key=len, reverse=True)
    return next((name for name in names if columns_by(spec.source, name)), (alias,))


def _carried(spec: MergeSpec) -> dict[str, frozenset[str]]:
    """The aliases that are visible in the source frame, of those that the expressions use, with their columns."""
    used = {name.lower(): name for expression in expressions_of(spec) for name in expression.qualifiers}
    if len(spec.target_name) == 1:
        used.pop(spec.target_name[0].lower(), None)
    return {name: frozenset(found) for name in used.values() if (found := columns_by(spec.source, (name,)))}


def _uses_repeated(spec: MergeSpec) -> bool:
    """Whether the expressions may use a name that several columns of the source have."""
    is_same = (lambda name: name) if case_sensitive(spec.source.sparkSession) else str.lower
    counts = Counter(map(is_same, spec.source.columns))
    repeated = {name.lower() for name, count in counts.items() if count > 1}
    words = [expression.words for expression in expressions_of(spec)]
    return any(found is None or not repeated.isdisjoint(found) for found in words) if repeated else False
