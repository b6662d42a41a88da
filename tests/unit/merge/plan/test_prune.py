"""Pruning keeps every file that can hold a match, drops what the source's keys rule out, and numbers the keys."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltamerge.budgets import current_budgets
from deltamerge.log.replay.files import FILE_SCHEMA, FileSet, table_of
from deltamerge.merge.plan.conditions import KeyPair
from deltamerge.merge.plan.logical import LogicalPlan, Wishes, logical_plan
from deltamerge.merge.plan.prune import FileFacts, prune, prune_by_source
from deltamerge.merge.statement.clauses import ClauseKind
from deltamerge.protocol.schema.types import PrimitiveType, arrow_type
from deltamerge.protocol.values.partitions import partition_text
from deltamerge.spark.source.facts import Evaluation, Source, SourceFacts
from tests.unit.merge.merges import FRAME, delete, merge_of, snapshot_of, struct, update

Json = dict[str, Any]


def add(path: str, size: int = 10, stats: Json | None = None, partition: Json | None = None) -> Json:
    """An `add` action's value."""
    text = json.dumps(stats) if stats is not None else None
    return {"path": path, "size": size, "partitionValues": partition or {}, "modificationTime": 0, "stats": text}


def spanning(low: Any, high: Any, nulls: int = 0, column: str = "k") -> Json:
    """Statistics of a file with ten rows."""
    return {"numRecords": 10, "minValues": {column: low}, "maxValues": {column: high}, "nullCount": {column: nulls}}


def source_of(table: pa.Table | None, rows: int = 0, bounds: pa.Table | None = None) -> Source:
    if table is not None:
        return Source(lambda: FRAME, SourceFacts(Evaluation.COLLECTED, table.num_rows, table.nbytes), table)
    return Source(lambda: FRAME, SourceFacts(Evaluation.MATERIALIZED, rows, 1 << 40, bounds=bounds))


def pruned_by(logical: LogicalPlan, source: Source) -> FileFacts:
    return prune_by_source(logical, prune(logical), source, current_budgets())


def plan_of(
    files: Sequence[Json],
    condition: str = "t.k = s.k",
    target: str = "long",
    source: str = "long",
    by: Sequence[str] = (),
    **more: str,
) -> LogicalPlan:
    snapshot = snapshot_of(struct(k=target, **more), files, by)
    return logical_plan(merge_of(snapshot, struct(k=source, **more), condition, delete()), Wishes())


def paths(pruned: FileFacts) -> list[str]:
    return list(pruned.table["path"].to_pylist())


THREE = [add("low", 10, spanning(0, 9)), add("high", 30, spanning(10, 19)), add("unknown", 20)]


def test_files_whose_bounds_hold_no_source_key_are_dropped() -> None:
    pruned = pruned_by(plan_of(THREE), source_of(pa.table({"k": [12, 99, None]})))
    assert paths(pruned) == ["high", "unknown"]
    assert [(step.files, step.bytes) for step in pruned.funnel] == [(3, 60), (3, 60), (2, 50)]
    assert pruned.row_filter is not None
    assert pruned.row_filter.mask([pa.array([12, 13, None])]).tolist() == [True, False, False]


def test_target_predicates_drop_files_before_the_source_is_asked() -> None:
    pruned = pruned_by(plan_of(THREE, "t.k = s.k AND t.k < 5"), source_of(pa.table({"k": [1, 12]})))
    assert paths(pruned) == ["unknown", "low"]
    assert [(step.name, step.files) for step in pruned.funnel] == [
        ("in the table", 3),
        ("after target predicates", 2),
        ("after source keys", 2),
    ]


def test_a_source_that_was_not_collected_prunes_by_predicates_only() -> None:
    pruned = pruned_by(plan_of(THREE, "t.k = s.k AND t.k < 5"), source_of(None, rows=9))
    assert (paths(pruned), pruned.row_filter, pruned.key_ids) == (["unknown", "low"], None, None)


def test_a_merge_without_keys_opens_every_file() -> None:
    pruned = pruned_by(plan_of(THREE, "t.k + 1 > s.k"), source_of(pa.table({"k": [1]})))
    assert (paths(pruned), pruned.row_filter, pruned.key_ids) == (["high", "unknown", "low"], None, None)


@pytest.mark.parametrize(
    ("condition", "values", "kept"),
    [
        ("t.k > s.k", [9, 30], ["high", "unknown"]),
        ("t.k > s.k", [8, 30], ["high", "unknown", "low"]),
        ("t.k >= s.k", [10, None], ["high", "unknown"]),
        ("s.k >= t.k", [9, 1], ["unknown", "low"]),
        ("t.k < s.k", [10], ["unknown", "low"]),
        ("t.k < s.k", [11], ["high", "unknown", "low"]),
        ("t.k BETWEEN s.k AND s.k + 1", [12], ["high", "unknown"]),
        ("t.k BETWEEN s.k AND s.k", [30], ["unknown"]),
        ("t.k NOT BETWEEN s.k AND s.k", [12], ["high", "unknown", "low"]),
        ("t.k BETWEEN SYMMETRIC s.k AND s.k", [12], ["high", "unknown", "low"]),
        ("t.k > s.k OR t.k < 0", [12], ["high", "unknown", "low"]),
        ("t.k > s.k", [None], ["high", "unknown", "low"]),
    ],
)
def test_a_range_drops_files_beyond_the_sources_values(condition: str, values: list[Any], kept: list[str]) -> None:
    assert paths(pruned_by(plan_of(THREE, condition), source_of(pa.table({"k": pa.array(values, pa.int64())})))) == kept


def test_the_limits_of_a_source_that_was_not_collected_drop_files() -> None:
    bounds = pa.table({"k": pa.array([12, 15, None, None, 11, 13], pa.int64())})
    pruned = pruned_by(plan_of(THREE), source_of(None, 9, bounds))
    assert (paths(pruned), pruned.row_filter) == (["high", "unknown"], None)
    assert plan_of(THREE).bounded == {"k"}
    assert plan_of(THREE, "t.k <=> s.k").bounded == set()
    assert plan_of(THREE, target="double", source="double").bounded == set()


def test_limits_that_the_targets_type_cannot_hold_drop_nothing() -> None:
    files = [add("low", 10, spanning(0, 9)), add("high", 30, spanning(100, 119))]
    wide = pa.table({"k": [5, 2**40]})
    assert paths(pruned_by(plan_of(files, "t.k <= s.k", target="integer"), source_of(wide))) == ["high", "low"]
    assert paths(pruned_by(plan_of(files, "t.k >= s.k", target="integer"), source_of(wide))) == ["high", "low"]


def by_source(condition: str | None, keys: list[int]) -> list[str]:
    merge = merge_of(
        snapshot_of(struct(k="long"), THREE),
        struct(k="long"),
        "t.k = s.k",
        update(k="s.k"),
        delete(condition, ClauseKind.BY_SOURCE),
    )
    return paths(pruned_by(logical_plan(merge, Wishes()), source_of(pa.table({"k": keys}))))


def test_by_source_prunes_files_that_neither_match_nor_meet_its_conditions() -> None:
    assert by_source("t.k < 5", [99]) == ["unknown", "low"]
    assert by_source("t.k < 5", [12]) == ["high", "unknown", "low"]
    assert by_source("t.k > 50", [3]) == ["unknown", "low"]
    assert by_source("k > 50", [3]) == ["unknown", "low"]
    assert by_source("t.k % 2 = 0", [3]) == ["high", "unknown", "low"]
    assert by_source(None, [3]) == ["high", "unknown", "low"]


def test_an_empty_source_matches_nothing() -> None:
    pruned = pruned_by(plan_of(THREE), source_of(pa.table({"k": pa.array([], pa.int64())})))
    assert paths(pruned) == []


def test_a_table_without_files_is_pruned_to_none() -> None:
    pruned = pruned_by(plan_of([]), source_of(pa.table({"k": [1]})))
    assert (paths(pruned), pruned.funnel[0].files) == ([], 0)


def test_keys_by_source_keep_every_file() -> None:
    merge = merge_of(snapshot_of(struct(k="long"), THREE), struct(k="long"), "t.k = s.k", delete(kind=ClauseKind.BY_SOURCE))
    assert len(paths(pruned_by(logical_plan(merge, Wishes()), source_of(pa.table({"k": [12]}))))) == 3


def test_partitions_without_a_source_row_are_dropped() -> None:
    files = [add("a", partition={"p": "a"}), add("b", partition={"p": "b"}), add("null", partition={"p": None})]
    table = pa.table({"k": [1, 2], "p": ["b", None]})
    for op, expected in (("=", {"b"}), ("<=>", {"b", "null"})):
        plan = plan_of(files, f"t.k = s.k AND t.p {op} s.p", by=["p"], p="string")
        assert set(paths(pruned_by(plan, source_of(table)))) == expected


def test_a_null_key_matches_nulls_only_where_it_is_safe() -> None:
    files = [add("without", stats=spanning(0, 9)), add("with", stats=spanning(0, 9, nulls=1))]
    for op, expected in (("=", []), ("<=>", ["with"])):
        assert paths(pruned_by(plan_of(files, f"t.k {op} s.k"), source_of(pa.table({"k": [None, 77]})))) == expected


@pytest.mark.parametrize(
    ("target", "source", "values", "kept"),
    [
        ("byte", "long", [5, 300, -129], [5, None, None]),
        ("integer", "long", [2**31, -(2**31)], [None, -(2**31)]),
        ("float", "double", [0.5, 0.1, 1e300, math.inf], [0.5, None, None, math.inf]),
        ("double", "float", [0.5, None], [0.5, None]),
        (
            "decimal(5,2)",
            "decimal(9,4)",
            [Decimal("1.5000"), Decimal("1.5001"), Decimal("99999.0000")],
            [Decimal("1.50"), None, None],
        ),
        ("decimal(9,4)", "decimal(5,2)", [Decimal("1.50")], [Decimal("1.5000")]),
    ],
)
def test_source_keys_that_the_targets_type_cannot_hold_match_nothing(
    target: str, source: str, values: list[Any], kept: list[Any]
) -> None:
    table = pa.table({"k": pa.array(values, arrow_type(PrimitiveType(source)))})
    pruned = pruned_by(plan_of([], target=target, source=source), source_of(table))
    assert pruned.row_filter is not None
    assert pruned.key_ids is not None
    assert pruned.row_filter.values[0].type == arrow_type(PrimitiveType(target))
    assert [value for value in pruned.row_filter.values[0].to_pylist()] == [value for value in kept if value is not None]  # noqa: C416
    assert [rank is None for rank in pruned.key_ids.to_pylist()] == [value is None for value in kept]


def test_nan_matches_nan_of_another_width() -> None:
    pruned = pruned_by(plan_of([], target="float", source="double"), source_of(pa.table({"k": [math.nan]})))
    assert pruned.row_filter is not None
    assert pruned.row_filter.mask([pa.array([math.nan, 0.0], pa.float32())]).tolist() == [True, False]


def test_key_ids_are_not_trusted_when_a_lost_value_could_pass_for_null() -> None:
    plan = plan_of([], "t.k <=> s.k", target="byte", source="long")
    lost = pruned_by(plan, source_of(pa.table({"k": [1, 300]})))
    assert lost.row_filter is not None
    assert lost.key_ids is None
    null = pruned_by(plan, source_of(pa.table({"k": [1, None]})))
    assert null.key_ids is not None
    assert null.key_ids.to_pylist() == [0, 1]


def test_other_files_are_judged_by_the_same_keys() -> None:
    pruned = pruned_by(plan_of([]), source_of(pa.table({"k": [12]})))
    others = FileSet.of(table_of(THREE, FILE_SCHEMA))
    assert pruned.would_read(others).tolist() == [False, True, True]


KEY_TYPES = {
    ("long", "integer"): st.integers(-4, 4),
    ("byte", "long"): st.integers(-4, 4) | st.sampled_from([127, -128, 128, -129]),
    ("double", "double"): st.sampled_from([0.0, -0.0, 1.5, -2.5, math.nan, math.inf, -math.inf]),
    ("float", "double"): st.sampled_from([0.0, -0.0, 1.5, 0.1, math.nan, math.inf]),
    ("decimal(5,2)", "decimal(7,3)"): st.sampled_from([Decimal(0), Decimal("1.5"), Decimal("1.505"), Decimal("-7.25")]),
    ("string", "string"): st.sampled_from(["", "a", "b", "é", "a" * 40, "a" * 40 + "b", "\U0010ffff" * 33, "\uffff"]),
    ("date", "date"): st.dates(),
    ("timestamp", "timestamp"): st.integers(-3_000, 3_000),
    ("boolean", "boolean"): st.booleans(),
    ("binary", "binary"): st.sampled_from([b"", b"a", b"b"]),
}


def values_of(type: str, values: list[Any]) -> pa.Array:
    """An Arrow array of a Delta type; null for what it can't hold."""
    found = arrow_type(PrimitiveType(type))
    if pa.types.is_timestamp(found):
        return pa.array(values, pa.int64()).cast(found)
    fits = []
    for value in values:
        try:
            pa.scalar(value, found)
            fits.append(value)
        except (pa.ArrowInvalid, OverflowError):
            fits.append(None)
    return pa.array(fits, found)


def same(value: Any) -> Any:
    """Equal for equal keys: NaN equals NaN."""
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def stats_of(values: pa.Array) -> Json | None:
    """Bounds as the writers of the field make them: whole, cut or left out."""
    type, known = values.type, values.drop_null().to_pylist()
    found: Json = {"numRecords": len(values), "minValues": {}, "maxValues": {}, "nullCount": {"k": values.null_count}}
    if not known or pa.types.is_boolean(type) or pa.types.is_binary(type):
        return found
    if pa.types.is_floating(type):
        known = [value for value in known if not math.isnan(value)]
        nan = len(known) < len(values.drop_null())
        low, high = (min(known), max(known)) if known else (None, None)
        limits = [low, "NaN" if nan else high]
        limits = [repr(limit).replace("inf", "Infinity") if limit in (math.inf, -math.inf) else limit for limit in limits]
    elif pa.types.is_string(type):
        low, high = min(known), max(known)
        limits = [low[:32], high if len(high) <= 32 else high[:32] + "\U0010ffff" * 2]
    elif pa.types.is_timestamp(type):
        limits = [f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z" for moment in (min(known), max(known))]
    elif pa.types.is_decimal(type):
        limits = [float(min(known)), float(max(known))]
    else:
        limits = [str(limit) if pa.types.is_date(type) else limit for limit in (min(known), max(known))]
    return {**found, "minValues": {"k": limits[0]}, "maxValues": {"k": limits[1]}}


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(list(KEY_TYPES)), st.booleans(), st.booleans(), st.data())
def test_a_file_that_holds_a_match_is_never_dropped(
    types: tuple[str, str], null_safe: bool, partitioned: bool, data: st.DataObject
) -> None:
    target, source = types
    pool = st.none() | KEY_TYPES[types]
    keys = values_of(source, data.draw(st.lists(pool, max_size=4)))
    columns = [values_of(target, column) for column in data.draw(st.lists(st.lists(pool, min_size=1, max_size=4), max_size=4))]
    if partitioned:
        columns = [column.slice(0, 1) for column in columns]
        files = [add(str(n), partition={"k": partition_text(column[0])}) for n, column in enumerate(columns)]
    else:
        files = [add(str(n), stats=stats_of(column)) for n, column in enumerate(columns)]
    plan = plan_of(files, f"t.k {'<=>' if null_safe else '='} s.k", target, source, ["k"] if partitioned else [])
    assert plan.keys == (KeyPair("k", "k", null_safe),)
    pruned = pruned_by(plan, source_of(pa.table({"k": keys})))
    wanted = {same(key) for key in keys.to_pylist() if null_safe or key is not None}
    held = {str(n) for n, column in enumerate(columns) if wanted & {same(value) for value in column.to_pylist()}}
    if partitioned and target in ("string", "binary"):
        held -= {str(n) for n, column in enumerate(columns) if column[0].as_py() in ("", b"")}
    assert held <= set(paths(pruned))


def test_rows_are_counted_by_bytes_where_statistics_say_nothing_or_too_much() -> None:
    damaged = {**spanning(0, 9), "numRecords": 10**15}
    plan = plan_of([add("known", 640, spanning(0, 9)), add("unknown", 640), add("damaged", 6_400, damaged)])
    assert pruned_by(plan, source_of(None)).rows == 10 + 20 + 200
    assert pruned_by(plan_of([]), source_of(None)).rows == 0


@pytest.mark.parametrize(
    ("condition", "has_equality"),
    [
        ("t.k = s.k", True),
        ("t.k > 1 AND t.k + 1 <=> s.k * 2", True),
        ("t.k < s.k AND t.k > s.k - 10", False),
        ("t.k = 1", None),
        ("t.k + s.k = 3", None),
        ("t.k IN (s.k)", None),
        ("t.k = s.k OR t.k < s.k", None),
    ],
)
def test_an_equality_of_the_two_sides_is_seen(condition: str, has_equality: bool | None) -> None:
    assert plan_of(THREE, condition).has_equi_condition is has_equality
