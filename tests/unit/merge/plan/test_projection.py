"""Which expressions Spark may compute as columns of the source, and what the clauses make of these."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deltamerge.merge.plan.logical import LogicalPlan, Wishes, logical_plan, with_projections
from deltamerge.merge.plan.projection import may_be_projected
from deltamerge.merge.resolve.resolve import ColumnValue, ResolvedClause
from deltamerge.merge.statement.clauses import Action, ClauseKind
from deltamerge.spark.session.schema import spark_type
from deltamerge.worker.join.clauses import Origin
from tests.unit.merge.merges import expression, merge_of, scope_of, snapshot_of, struct

TARGET, SOURCE = struct(k="long", v="integer", w="string"), struct(k="long", v="integer", w="string", more="string")
SCOPE = scope_of(TARGET, SOURCE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("upper(s.w)", True),
        ("length(s.w) > 1 AND s.v < 3", True),
        ("concat(more, s.w)", True),
        ("CAST(s.v AS STRING)", True),
        ("upper(t.w)", False),
        ("concat(s.w, t.w)", False),
        ("upper(w)", False),
        ("upper(s.missing)", False),
        ("upper('x')", False),
        ("my_function(s.w)", False),
        ("rand() + s.v", False),
        ("s.v > unix_timestamp(current_timestamp())", False),
        ("s.v > unix_timestamp()", False),
        ("java_method('java.lang.System', 'exit', s.v)", False),
        ("s.v IN (SELECT 1)", False),
        ("transform(array(s.v), x -> x + 1)", False),
        ("s.*", False),
        ("upper(s.w", False),
    ],
)
def test_what_is_surely_about_the_source_alone(text: str, expected: bool) -> None:
    assert may_be_projected(expression(text), SCOPE) is expected


def test_nothing_is_where_the_target_may_have_a_column_that_is_not_seen() -> None:
    text = "upper(s.w) = 'x'"
    assert may_be_projected(expression(text), SCOPE)
    hidden = replace(expression(text), unseen=frozenset({"upper", "v"}))
    assert not may_be_projected(hidden, SCOPE)


def merge(*clauses: ResolvedClause) -> LogicalPlan:
    return logical_plan(merge_of(snapshot_of(TARGET), SOURCE, "t.k = s.k", *clauses), Wishes())


def value(column: str, text: str, type: str) -> ColumnValue:
    return ColumnValue(column, expression(text), spark_type(struct(x=type).fields[0].type))


def update(number: int, condition: str | None, *values: ColumnValue) -> ResolvedClause:
    found = None if condition is None else expression(condition)
    return ResolvedClause(number, ClauseKind.MATCHED, Action.UPDATE, found, values)


def test_conditions_and_values_become_columns_of_the_source() -> None:
    clauses = update(0, "length(s.w) > 1", value("v", "abs(s.v)", "integer"), value("w", "t.w", "string")), update(1, "s.v > 1")
    plain = merge(*clauses)
    assert [compiled.left for compiled in plain.program.clauses] == ["the condition length(s.w) > 1", None]
    projected = with_projections(plain)
    assert projected is not None
    names = [(projection.name, projection.value.text) for projection in projected.program.projections]
    assert names == [("__deltamerge_0_", "length(s.w) > 1"), ("__deltamerge_0_v", "abs(s.v)")]
    program = projected.program.clauses[0].program
    assert program.values == {"v": Origin("source", "__deltamerge_0_v"), "w": Origin("target", "w")}
    assert program.asked("source") == ["__deltamerge_0_"]
    assert program.needed("source") == ["__deltamerge_0_", "__deltamerge_0_v"]
    assert projected.program.clauses[1].program == plain.program.clauses[1].program


@pytest.mark.parametrize(
    "clauses",
    [
        (update(0, "abs(s.v - t.v) > 1"),),
        (update(0, "length(s.w) > 1", value("v", "greatest(s.v, t.v)", "integer")),),
        (update(0, "length(s.w) > 1"), update(1, "abs(t.v) > 1")),
    ],
    ids=["condition", "value", "another clause"],
)
def test_none_do_where_something_else_is_left_to_spark(clauses: tuple[ResolvedClause, ...]) -> None:
    assert with_projections(merge(*clauses)) is None


def test_values_that_arrow_makes_stay_in_the_tasks() -> None:
    projected = with_projections(merge(update(0, "length(s.w) > 1", value("v", "t.v + 1", "integer"))))
    assert projected is not None
    program = projected.program.clauses[0].program
    assert (program.values, list(program.computed)) == ({"v": Origin("evaluated", "__deltamerge_0_v")}, ["__deltamerge_0_v"])
    assert [projection.name for projection in projected.program.projections] == ["__deltamerge_0_"]
