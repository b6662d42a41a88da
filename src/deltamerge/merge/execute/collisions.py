"""Several source rows for one target row: which, told with their values."""

from __future__ import annotations

import contextlib
from typing import Any

from deltamerge.errors import MultipleMatchError
from deltamerge.merge.plan.plan import MergePlan
from deltamerge.spark.stages.changes import ChangeQuery
from deltamerge.spark.stages.collisions import collision_rows

_SHOWN = 5


def multiple_matches(query: ChangeQuery, plan: MergePlan, count: int) -> MultipleMatchError:
    """The error for `count` target rows with several source rows; up to five of them are looked up."""
    found: list[dict[str, Any]] = []
    with contextlib.suppress(Exception):  # whatever the look-up meets, the error to tell is the one that led here
        found = collision_rows(query, _shown_columns(plan), plan.source_columns, _SHOWN)
    lines = [f"  {_values(c['key'])} <- " + " | ".join(_values(row) for row in c["rows"]) for c in found]
    shown = "\n" + "\n".join(lines) if lines else ""
    return MultipleMatchError(
        "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE",
        "Cannot perform Merge as multiple source rows matched and attempted to modify the same target row in the Delta table "
        f"in possibly conflicting ways: {count} target row{'s' if count > 1 else ''}"
        f"{', among them' if count > len(found) else ''}:{shown}",
        parameters={"count": count},
        hint="Keep one source row per key before the merge, for example the latest, or make the clauses' conditions pick one.",
        collisions=found,
    )


def _shown_columns(plan: MergePlan) -> list[str]:
    """The target's key columns, or all that the scan reads when the condition has no keys."""
    return [pair.target for pair in plan.keys] or list(plan.target_columns)


def _values(row: dict[str, Any]) -> str:
    return "(" + ", ".join(f"{name}={value!r}" for name, value in row.items()) + ")"
