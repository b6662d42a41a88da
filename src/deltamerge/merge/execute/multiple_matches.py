"""Several source rows for one target row: found where they would be written, and shown with their values."""

from __future__ import annotations

import contextlib
from typing import Any

import pyarrow as pa

from deltamerge.errors import MultipleMatchError
from deltamerge.merge.execute.work import Work
from deltamerge.merge.statement.clauses import ClauseKind
from deltamerge.spark.session.schema import nullable_schema, to_spark
from deltamerge.spark.session.settings import pads_chars
from deltamerge.spark.stages.changes import ChangeQuery
from deltamerge.spark.stages.collisions import collision_count, collision_rows
from deltamerge.spark.stages.scan import scan_frame
from deltamerge.spark.stages.target import scan_spec

_SHOWN = 5


def change_query(work: Work) -> ChangeQuery:
    """The merge as one query over its files; nothing runs yet."""
    logical, files, program = work.logical, work.files, work.logical.program
    scope = logical.resolved.scope
    schema = scope.target.select(list(logical.target_columns))
    spec = scan_spec(files.snapshot, schema, files.row_filter, padded=pads_chars(work.spark, schema))
    # Without an equality to join by all rows of one side are broadcast, and the table's keys are the smaller one; told of many
    # Spark would read the table again for each part of the source.
    rows = 0 if logical.has_equi_condition is False else files.rows
    sizes = files.sizes.tolist()
    target = scan_frame(work.spark, spec, nullable_schema(schema), work.tasks, sizes, rows, work.budgets)
    return ChangeQuery(
        source=work.source.frame.alias(scope.source_alias),
        target=target.alias(scope.target_alias),
        source_alias=scope.source_alias,
        target_alias=scope.target_alias,
        condition=logical.resolved.spec.condition,
        join=logical.join.value,
        matched=[compiled.whole_query for compiled in program.of(ClauseKind.MATCHED)],
        not_matched=[compiled.whole_query for compiled in program.of(ClauseKind.NOT_MATCHED)],
        by_source=[compiled.whole_query for compiled in program.of(ClauseKind.BY_SOURCE)],
        schema=to_spark(program.written),
    )


def check_original_clauses(work: Work) -> None:
    """Raise MultipleMatchError where the clauses as they were given apply to a target row for several source rows.

    They are refused even where `skipUnchanged()` leaves out what one of them would do. One job more, unless the source's keys
    are known to be unique.
    """
    original = work.with_original_clauses
    if original is None or _has_unique_keys(original):
        return
    count = collision_count(change_query(original))
    if count:
        raise multiple_matches(original, count)


def _has_unique_keys(work: Work) -> bool:
    """Whether no two rows of a collected source can match the same target row, by columns whose equal values are equal bytes."""
    source = work.source.collected
    if source is None:
        return False
    names = [pair.source for pair in work.logical.pairs if not pa.types.is_floating(source.schema.field(pair.source).type)]
    return bool(names) and source.group_by(names).aggregate([]).num_rows == source.num_rows


def multiple_matches(work: Work, count: int) -> MultipleMatchError:
    """The error for `count` target rows with several source rows; up to five of them are looked up."""
    logical = work.logical
    columns = [pair.target for pair in logical.keys] or list(logical.target_columns)
    found: list[dict[str, Any]] = []
    with contextlib.suppress(Exception):  # whatever the look-up meets, the error to tell is the one that led here
        found = collision_rows(change_query(work), columns, logical.source_columns, _SHOWN)
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


def _values(row: dict[str, Any]) -> str:
    return "(" + ", ".join(f"{name}={value!r}" for name, value in row.items()) + ")"
