"""A merge is decided from its clauses and what can be seen of its condition: join, keys, columns, predicates, reasons."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deltamerge.budgets import Budgets
from deltamerge.merge.plan.choose import Facts, choose
from deltamerge.merge.plan.conditions import KeyPair
from deltamerge.merge.plan.explain import explain
from deltamerge.merge.plan.logical import Join, LogicalPlan, Wishes, logical_plan
from deltamerge.merge.plan.prune import prune
from deltamerge.merge.resolve.resolve import ResolvedClause
from deltamerge.merge.statement.clauses import ClauseKind
from deltamerge.protocol.schema.types import PrimitiveType, StructField, StructType
from deltamerge.protocol.table.actions import Protocol
from deltamerge.protocol.values.predicate import ALWAYS
from deltamerge.spark.source.facts import SourceFacts
from tests.unit.merge.merges import delete, insert, merge_of, snapshot_of, struct, update

TARGET = struct(id="long", day="date", word="string", price="double", n=struct(x="long"))
SOURCE = struct(id="integer", day="date", word="string", price="double", n=struct(x="long"), seen="timestamp")
BY_SOURCE = ClauseKind.BY_SOURCE


def plan_of(condition: str, *clauses: ResolvedClause, target: StructType = TARGET, source: StructType = SOURCE) -> LogicalPlan:
    return logical_plan(merge_of(snapshot_of(target), source, condition, *(clauses or (delete(),))), Wishes())


def explained(logical: LogicalPlan) -> str:
    """The plan in words, when nothing is known of the source."""
    files = prune(logical)
    return explain(logical, choose(logical, Facts(SourceFacts(), files), Budgets()), files)


@pytest.mark.parametrize(
    ("clauses", "join"),
    [
        ([delete()], Join.INNER),
        ([update(word="s.word"), delete("true")], Join.INNER),
        ([insert()], Join.ANTI),
        ([insert("s.id > 1"), insert()], Join.ANTI),
        ([update(), insert()], Join.LEFT),
        ([delete(kind=BY_SOURCE)], Join.RIGHT),
        ([update(), delete(kind=BY_SOURCE)], Join.RIGHT),
        ([insert(), update(kind=BY_SOURCE)], Join.FULL),
        ([update(), insert(), delete(kind=BY_SOURCE)], Join.FULL),
    ],
)
def test_the_join_is_the_narrowest_that_keeps_what_the_clauses_need(clauses: list[ResolvedClause], join: Join) -> None:
    assert plan_of("t.id = s.id", *clauses).join is join


@pytest.mark.parametrize(
    ("condition", "keys", "decide"),
    [
        ("t.id = s.id", [KeyPair("id", "id")], True),
        ("s.id = t.id", [KeyPair("id", "id")], True),
        ("t.id <=> s.id", [KeyPair("id", "id", null_safe=True)], True),
        ("(t.id = s.id) AND (t.word <=> s.word AND t.day = s.day)", None, True),
        ("t.id = s.id AND t.price > s.price", [KeyPair("id", "id")], False),
        ("t.id = s.id AND t.id = s.id", [KeyPair("id", "id")], False),
        ("t.word = s.word AND t.word <=> s.word", [KeyPair("word", "word")], False),
        ("t.price = s.price", [KeyPair("price", "price")], True),
        ("t.day = seen", [], False),
        ("t.id = s.price", [], False),
        ("t.id = s.word", [], False),
        ("t.n = s.n", [], False),
        ("t.n.x = s.n.x", [], False),
        ("t.id = s.id OR t.word = s.word", [], False),
        ("NOT (t.id = s.id)", [], False),
        ("t.id + 0 = s.id", [], False),
        ("t.id = t.price", [], False),
        ("id = id", [], False),
        ("t.id > s.id", [], False),
        ("true", [], False),
    ],
)
def test_keys_are_equalities_of_columns_that_every_match_fulfils(
    condition: str, keys: list[KeyPair] | None, decide: bool
) -> None:
    plan = plan_of(condition)
    every = [KeyPair("id", "id"), KeyPair("word", "word", null_safe=True), KeyPair("day", "day")]
    assert list(plan.keys) == (every if keys is None else keys)
    assert plan.equi_only == decide


@pytest.mark.parametrize(
    ("target", "source", "alike"),
    [
        ("byte", "long", True),
        ("double", "float", True),
        ("float", "double", True),
        ("decimal(10,2)", "decimal(12,4)", True),
        ("decimal(38,18)", "decimal(38,18)", True),
        ("decimal(38,0)", "decimal(38,18)", False),
        ("decimal(20,0)", "decimal(38,19)", False),
        ("decimal(19,0)", "decimal(38,19)", True),
        ("decimal(10,0)", "long", False),
        ("long", "double", False),
        ("string", "string", True),
        ("binary", "binary", True),
        ("boolean", "boolean", True),
        ("timestamp", "timestamp", True),
        ("timestamp_ntz", "timestamp", False),
        ("date", "timestamp", False),
        ("date", "string", False),
        ("void", "void", False),
    ],
)
def test_types_are_keys_when_equal_values_are_equal_numbers_or_bytes(target: str, source: str, alike: bool) -> None:
    plan = plan_of("t.k = s.k", target=struct(k=target), source=struct(k=source))
    assert bool(plan.keys) == alike
    assert any("compared only after a cast" in reason for reason in plan.notes) != alike


@pytest.mark.parametrize("metadata", [{"__COLLATIONS": {"k": "ICU.UNICODE_CI"}}, {"__CHAR_VARCHAR_TYPE_STRING": "char(5)"}])
def test_strings_that_are_not_compared_by_bytes_are_no_keys(metadata: dict[str, object]) -> None:
    special = StructType((StructField("k", PrimitiveType("string"), metadata=metadata),))
    for target, source in ((special, struct(k="string")), (struct(k="string"), special)):
        assert plan_of("t.k = s.k", target=target, source=source).keys == ()


def test_target_predicates_are_the_conjuncts_about_the_target_alone() -> None:
    plan = plan_of(
        "t.id = s.id AND t.day >= '2020-01-01' AND (t.word = 'a' OR s.word = 'b') AND t.price < 5 AND upper(t.word) = 'A'"
    )
    assert str(plan.target_predicate) == "day >= 2020-01-01 AND price < 5.0"


def test_nothing_is_skipped_when_target_rows_without_a_partner_matter() -> None:
    plan = plan_of("t.id = s.id AND t.day = '2020-01-01'", update(), delete(kind=BY_SOURCE))
    assert plan.keys == ()
    assert not plan.equi_only
    assert plan.by_source == ALWAYS
    assert any("NOT MATCHED BY SOURCE" in reason for reason in plan.notes)


def test_a_condition_that_cannot_be_seen_into_skips_nothing() -> None:
    plan = plan_of("this is no expression (")
    assert (plan.keys, plan.equi_only, plan.target_predicate) == ((), False, ALWAYS)
    assert any("can't be seen into" in reason for reason in plan.notes)
    assert plan.target_columns == tuple(TARGET.names)
    assert plan.source_columns == tuple(SOURCE.names)


@pytest.mark.parametrize(
    ("clauses", "ignores"),
    [
        ([delete()], True),
        ([delete(), insert(), update(kind=BY_SOURCE)], True),
        ([delete("t.id > 1")], False),
        ([delete("true")], False),
        ([update()], False),
        ([update("t.id > 1"), delete()], False),
        ([insert()], False),
    ],
)
def test_only_a_single_unconditional_delete_ignores_duplicate_matches(clauses: list[ResolvedClause], ignores: bool) -> None:
    assert plan_of("t.id = s.id", *clauses).ignores_duplicate_matches is ignores


def test_a_delete_needs_no_column_but_the_keys() -> None:
    plan = plan_of("t.id = s.id", delete())
    assert (plan.target_columns, plan.source_columns) == (("id",), ("id",))


def test_target_columns_are_those_that_expressions_use_and_not_those_that_they_set() -> None:
    plan = plan_of("t.id = s.id", update("t.day < s.day", word="s.word", price="t.price + s.price"))
    assert plan.target_columns == ("id", "day", "price")
    assert plan.source_columns == ("id", "day", "word", "price")


def test_inserted_values_need_source_columns_only() -> None:
    plan = plan_of("t.id = s.id", insert("s.price > 0", id="s.id", word="concat(s.word, seen)"))
    assert plan.target_columns == ("id",)
    assert plan.source_columns == ("id", "word", "price", "seen")


def test_values_by_source_need_target_columns_only() -> None:
    plan = plan_of("t.id = s.id", update("day < '2020-01-01'", kind=BY_SOURCE, word="upper(word)"))
    assert plan.target_columns == ("id", "day", "word")
    assert plan.source_columns == ("id",)


def test_the_explanation_says_what_runs() -> None:
    plan = plan_of(
        "t.id = s.id AND t.day = '2020-01-01' AND t.n.x = s.n.x", update("s.price > 1", word="s.word"), insert(id="s.id")
    )
    lines = explained(plan).splitlines()
    assert lines[0].startswith("MERGE INTO ")
    assert lines[0].endswith("version 3")
    text = "\n".join(" ".join(line.split()) for line in lines)
    assert "join: source left target ON t.id = s.id AND" in text
    assert "keys: id = source.id" in text
    assert "target predicates: day = 2020-01-01" in text
    assert "target columns: id, day, n" in text
    assert "WHEN MATCHED AND s.price > 1 THEN UPDATE" in text
    assert "WHEN NOT MATCHED THEN INSERT" in text
    assert "note: t.n.x = s.n.x: a nested field is no key to prune by" in text


def test_the_explanation_says_what_there_is_none_of() -> None:
    text = explained(plan_of("true"))
    assert "keys:              none" in text
    assert "target predicates: none" in text
    assert "no equality between a target and a source column" in text


def test_the_explanation_says_when_keys_leave_no_row_out() -> None:
    by_source = explained(plan_of("t.id = s.id AND t.day <=> s.day", delete(kind=BY_SOURCE)))
    assert "keys:              id = source.id, day <=> source.day; rows without a match are looked at, too" in by_source
    assert "looked at" not in explained(plan_of("t.id = s.id", delete()))


@pytest.mark.parametrize(
    "condition",
    [
        " OR ".join(f"(t.id = {n} AND t.word = 'x')" for n in range(2_000)),
        " AND ".join(f"t.id <> {n}" for n in range(2_000)),
        " + ".join(["t.price"] * 2_000) + " > 0",
    ],
    ids=["alternatives", "conjuncts", "a sum"],
)
def test_machine_made_conditions_may_be_as_long_as_they_like(condition: str) -> None:
    plan = plan_of(f"t.id = s.id AND ({condition})")
    assert plan.keys == (KeyPair("id", "id"),)
    assert "keys:              id = source.id" in explained(plan)


@pytest.mark.parametrize(
    ("features", "property", "share", "expected"),
    [
        (True, "true", 0.5, 0.5),
        (True, "true", 0.0, 0.0),
        (True, "false", 0.5, 0.0),
        (True, None, 0.5, 0.0),
        (False, "true", 0.5, 0.0),
    ],
)
def test_rows_are_marked_only_where_protocol_and_properties_allow_it(
    features: bool, property: str | None, share: float, expected: float
) -> None:
    names = frozenset({"deletionVectors"})
    snapshot = snapshot_of(TARGET)
    snapshot = replace(
        snapshot,
        protocol=Protocol(3, 7, names, names) if features else snapshot.protocol,
        metadata=replace(
            snapshot.metadata, configuration={"delta.enableDeletionVectors": property} if property is not None else {}
        ),
    )
    plan = logical_plan(merge_of(snapshot, SOURCE, "t.id = s.id", delete()), Wishes(rewrite_share=share))
    assert plan.rewrite_share == expected
    assert ("touched files:     rewritten" in explained(plan)) is not bool(expected)
    assert ("rewritten when more than 50% of their rows are gone" in explained(plan)) is bool(expected)
