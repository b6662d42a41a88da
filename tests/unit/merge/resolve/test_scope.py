"""Names resolve to columns as in Spark, or to nothing when there is any doubt."""

from __future__ import annotations

import pytest

from deltamerge.merge.resolve.scope import Reference, conjuncts
from deltamerge.protocol.schema.types import StructType
from tests.unit.merge.merges import expression, scope_of, struct, tree

TARGET = struct(Id="long", name="string", person=struct(age="integer"), s=struct(only="long"), **{"a.b": "long", "o`o": "long"})
SOURCE = struct(id="long", price="double", u=struct(name="string"), NAME="string", extra=struct(x=struct(y="long")))


@pytest.mark.parametrize(
    ("text", "side", "path"),
    [
        ("t.id", "target", ("Id",)),
        ("T.ID", "target", ("Id",)),
        ("s.id", "source", ("id",)),
        ("price", "source", ("price",)),
        ("person.age", "target", ("person", "age")),
        ("t.person.age", "target", ("person", "age")),
        ("s.extra.x.y", "source", ("extra", "x", "y")),
        ("extra.x.y", "source", ("extra", "x", "y")),
        ("(price)", "source", ("price",)),
        ("t.`a.b`", "target", ("a.b",)),
        ("`o``o`", "target", ("o`o",)),
        ("s.only", "target", ("s", "only")),
        ("s.u.name", "source", ("u", "name")),
    ],
)
def test_a_name_is_found_on_its_side(text: str, side: str, path: tuple[str, ...]) -> None:
    assert scope_of(TARGET, SOURCE).reference(tree(text)) == Reference(side, path)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text", ["id", "name", "nothing", "t.nothing", "x.id", "1", "'id'", "t.id + 1", "upper(price)", "a.b", "t.a.b"]
)
def test_a_name_that_is_not_surely_one_column_is_none(text: str) -> None:
    assert scope_of(TARGET, SOURCE).reference(tree(text)) is None


def test_a_qualifier_is_an_alias_before_it_is_a_column() -> None:
    scope = scope_of(struct(id="long"), struct(t=struct(id="string", x="long")))
    assert scope.reference(tree("t.id")) == Reference("target", ("id",))
    assert scope.reference(tree("t.x")) == Reference("source", ("t", "x"))


def test_case_tells_names_apart_when_it_is_asked_for() -> None:
    scope = scope_of(TARGET, SOURCE, case_sensitive=True)
    assert scope.reference(tree("Id")) == Reference("target", ("Id",))
    assert scope.reference(tree("NAME")) == Reference("source", ("NAME",))
    assert scope.reference(tree("T.Id")) is None
    assert scope.reference(tree("t.id")) is None


def test_columns_that_differ_by_case_only_are_not_told_apart() -> None:
    twins = StructType((*struct(a="long"), *struct(A="long")))
    assert scope_of(twins).reference(tree("t.a")) is None
    assert scope_of(twins, case_sensitive=True).reference(tree("t.A")) == Reference("target", ("A",))


@pytest.mark.parametrize(
    ("text", "target", "source"),
    [
        ("t.id = s.id AND price > 1", ["Id"], ["id", "price"]),
        ("person.age > 3", ["person"], []),
        ("coalesce(t.name, s.name, upper(s.u.name))", ["name"], ["u", "NAME"]),
        ("current_date() > date'2020-01-01'", [], []),
        ("'price' = 'id'", [], []),
        ("id = 1", ["Id"], ["id"]),
        ("transform(extra.x, name -> name)", ["name"], ["NAME", "extra"]),
        ("exists(select 1 from other where price > 1)", [], ["price"]),
        ("struct(*)", ["Id", "name", "person", "s", "a.b", "o`o"], ["id", "price", "u", "NAME", "extra"]),
        ("this is no expression (", ["Id", "name", "person", "s", "a.b", "o`o"], ["id", "price", "u", "NAME", "extra"]),
    ],
)
def test_used_columns_are_all_that_an_expression_may_use(text: str, target: list[str], source: list[str]) -> None:
    scope = scope_of(TARGET, SOURCE)
    assert scope.used([expression(text)], "target") == target
    assert scope.used([expression(text)], "source") == source


def test_used_columns_of_several_expressions_are_in_the_schemas_order() -> None:
    expressions = [expression("t.name"), expression("person.age"), expression("t.id")]
    assert scope_of(TARGET, SOURCE).used(expressions, "target") == ["Id", "name", "person"]


def test_names_that_several_columns_have_are_used_by_no_expression() -> None:
    twice = StructType((*struct(id="long", x="long"), *struct(X="long", s="long")))
    for text in ("transform(array(s.id, x), e -> e)", "struct(*)", "this is no expression (x, id, s"):
        used = scope_of(TARGET, twice).used([expression(text)], "source")
        assert "id" in used
        assert not {"x", "X"} & set(used)
    assert scope_of(TARGET, twice, case_sensitive=True).used([expression("struct(*)")], "source") == ["id", "x", "X", "s"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a = 1", ["a = 1"]),
        ("a = 1 AND (b = 2 AND (c OR d)) AND e", ["a = 1", "b = 2", "c OR d", "e"]),
        ("a OR b", ["a OR b"]),
        ("NOT (a AND b)", ["NOT (a AND b)"]),
    ],
)
def test_conjuncts_are_the_parts_that_must_all_hold(text: str, parts: list[str]) -> None:
    assert [part.sql() for part in conjuncts(tree(text))] == [tree(part).sql() for part in parts]


def test_an_unknown_condition_has_no_conjuncts() -> None:
    assert conjuncts(None) == []
