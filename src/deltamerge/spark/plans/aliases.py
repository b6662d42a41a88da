"""Which aliases stand in the plan of a Spark Connect client, as far as the client can tell. Only the adapter asks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_PARTS = ("pyspark.sql.connect.plan", "pyspark.sql.connect.expressions", "pyspark.sql.connect.column")
# These have all that they read below them; others may name a table or view, of which only the server knows the plan.
_WHOLE = frozenset(
    (
        *("LocalRelation", "CachedLocalRelation", "ChunkedCachedLocalRelation", "CachedRemoteRelation", "Range", "DataSource"),
        *("Parse", "Project", "WithColumns", "WithColumnsRenamed", "WithWatermark", "Drop", "ToDF", "ToSchema", "Transpose"),
        *("Filter", "Limit", "Tail", "Offset", "Deduplicate", "Sort", "Sample", "Aggregate", "Unpivot", "Hint"),
        *("Join", "AsOfJoin", "LateralJoin", "SetOperation", "Repartition", "RepartitionByExpression", "SubqueryAlias"),
        *("CollectMetrics", "NAFill", "NADrop", "NAReplace", "MapPartitions", "GroupMap", "CoGroupMap", "WithRelations"),
    )
)
_NAMES_TABLE = re.compile(r"\b(from|table)\b", re.IGNORECASE)


def plan_aliases(plan: Any) -> tuple[list[str], bool]:
    """The aliases within a plan, and whether there are no others: whether the client knows all of it."""
    found: list[str] = []
    is_whole = True
    for part in _parts_of(plan):
        kind = type(part).__name__
        if kind == "SubqueryAlias":
            found.append(str(part._alias))
        elif kind == "SQLExpression":
            is_whole = is_whole and not _NAMES_TABLE.search(str(part._expr))
        elif type(part).__module__ == _PARTS[0]:
            is_whole = is_whole and kind in _WHOLE
    return found, is_whole


def _parts_of(plan: Any) -> Iterator[Any]:
    """A plan, those below it, and the expressions in them, each once."""
    seen: dict[int, Any] = {}
    left = [plan]
    while left:
        part = left.pop()
        if isinstance(part, Mapping):
            left += part.values()
        elif isinstance(part, list | tuple | set):
            left += part
        elif type(part).__module__ in _PARTS and id(part) not in seen:
            seen[id(part)] = part
            yield part
            left += _inner(part)


def _inner(part: Any) -> Iterable[Any]:
    return vars(part).values() if hasattr(part, "__dict__") else ()
