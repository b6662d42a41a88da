"""Names resolve to columns as in Spark, or to nothing when there is any doubt."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deltamerge.errors import AnalysisError
from deltamerge.merge.resolve.scope import Reference, Scope, conjuncts
from deltamerge.merge.statement.clauses import ClauseKind
from deltamerge.protocol.schema.types import PrimitiveType, StructField, StructType
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


def named(target: StructType, source: StructType, *names: tuple[str, ...]) -> Scope:
    """The scope of a target and a source that go by these names; frames of one name go by TT and SS."""
    found = Scope(target, source, "TT", "SS", False, *names)
    return found if found.shares_a_name else replace(found, target_alias=names[0][-1], source_alias=names[1][-1])


WHOLE = ("cat", "db", "target"), ("cat", "db", "source")
PLAIN, DEEP = struct(a="long"), struct(target=struct(a="long", b="long"), source=struct(a="long"))


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("target.id", None),  # the frames' aliases are these names, so that Spark finds it
        ("db.target.id", "target.id"),
        ("Cat.DB.Target.ID", "target.ID"),
        ("db.source.id", "source.id"),
        ("cat.db.source.st.x", "source.st.x"),
        ("cat.target.id", None),
        ("other.db.target.id", None),
        ("db.target.nothing", None),
        ("db.target.st", None),  # the source's
        ("id", None),
    ],
)
def test_a_whole_name_is_said_by_its_last_part(name: str, found: str | None) -> None:
    scope = named(struct(id="long"), struct(id="long", st=PLAIN), *WHOLE)
    explicit = scope.explicit(tuple(name.split(".")))
    assert explicit == (None if found is None else tuple(found.split(".")))


def test_a_name_that_qualifies_no_column_is_a_columns() -> None:
    """delta-spark does so: with a column `default` of the source `default.target.a` may be a field in it."""
    scope = named(struct(id="long"), struct(id="long", db=DEEP), *WHOLE)
    assert scope.explicit(("db", "target", "a")) is None
    assert scope.explicit(("db", "target", "id")) == ("target", "id")
    assert scope.target_alone.explicit(("db", "source", "id")) is None


def test_an_alias_takes_the_place_of_a_name() -> None:
    scope = named(struct(id="long"), struct(id="long"), ("t",), ("cat", "db", "source"))
    assert scope.explicit(("db", "target", "id")) is None
    assert scope.explicit(("db", "t", "id")) is None
    assert scope.explicit(("db", "source", "id")) == ("source", "id")


def test_tables_of_one_name_are_told_apart_by_their_databases() -> None:
    scope = named(struct(id="long", n="long"), struct(id="long", m="long"), ("cat", "one", "t"), ("cat", "two", "t"))
    assert scope.explicit(("one", "t", "id")) == ("TT", "id")
    assert scope.explicit(("cat", "two", "t", "id")) == ("SS", "id")
    assert (scope.explicit(("t", "n")), scope.explicit(("t", "m"))) == (("TT", "n"), ("SS", "m"))
    with pytest.raises(AnalysisError, match=r"AMBIGUOUS_REFERENCE.*`t`.`id`"):
        scope.explicit(("t", "id"))
    assert scope.source_alone.explicit(("t", "id")) == ("SS", "id")


def test_of_a_join_only_the_columns_of_the_table_go_by_its_name() -> None:
    target, source = struct(id="long", news=struct(k="long", id="long")), struct(id="long", k="long")
    scope = replace(named(target, source, ("t",), ("cat", "db", "news")), source_named=frozenset({"id"}))
    assert not scope.may_go_by_names
    scope = replace(scope, target_alias="TT", source_alias="SS")
    assert scope.explicit(("news", "id")) == ("SS", "id")
    assert scope.explicit(("db", "news", "id")) == ("SS", "id")
    assert scope.explicit(("news", "k")) is None
    assert scope.reference(tree("news.k")) == Reference("target", ("news", "k"))
    assert scope.explicit(("t", "id")) == ("TT", "id")
    assert list(scope.source_path(["news", "k"])) == ["news", "k"]
    assert replace(scope, target=struct(id="long")).may_go_by_names


def test_a_table_and_itself_are_not_told_apart() -> None:
    scope = named(struct(id="long"), struct(id="long"), ("cat", "db", "t"), ("cat", "db", "t"))
    for name in (("t", "id"), ("db", "t", "id")):
        with pytest.raises(AnalysisError, match="AMBIGUOUS_REFERENCE"):
            scope.explicit(name)


@pytest.mark.parametrize(
    ("target", "name", "path"),
    [
        (struct(id="long", target=struct(a="long", id="long")), "target.a", "target.a"),
        (struct(id="long", target=struct(a="long", id="long")), "target.id", "id"),
        (struct(id="long", target=struct(a="long", id="long")), "target.target.id", "target.id"),
        (struct(id="long", a="long", target=struct(a="long")), "target.a", "a"),
        (struct(id="long", a="long", target=struct(a="long")), "target.target.a", "target.a"),
        (struct(id="long", a="long", target=struct(a="long")), "db.target.target.a", "target.a"),
        (struct(id="long", a="long", target=struct(a="long")), "cat.db.target.a", "a"),
        (struct(target=struct(target=struct(target="long"))), "target.target.target", "target.target"),
        (struct(id="long"), "db.id", "db.id"),
        (struct(id="long"), "target.nothing", "target.nothing"),
    ],
)
def test_what_an_assignment_sets(target: StructType, name: str, path: str) -> None:
    """Confirmed by delta-spark: see `named.py` in tests/e2e."""
    assert named(target, struct(id="long"), *WHOLE).target_path(name.split(".")) == path.split(".")
    assert named(struct(id="long"), target, *reversed(WHOLE)).source_path(name.split(".")) == path.split(".")


def test_each_kind_of_clause_sees_its_own_rows() -> None:
    scope = scope_of(TARGET, SOURCE)
    seen = [(of.target.names, of.source.names) for of in map(scope.of, ClauseKind)]
    assert seen == [(TARGET.names, SOURCE.names), ([], SOURCE.names), (TARGET.names, [])]


@pytest.mark.parametrize(
    ("side", "name", "type"),
    [
        ("source", "price", "double"),
        ("target", "Id", "long"),
        ("target", "id", None),
        ("source", "u", None),
        ("source", "nothing", None),
        ("source", "empty", None),
        ("source", "said", None),
        ("source", "Twice", None),
    ],
)
def test_the_type_of_a_column_is_known_where_spark_would_say_nothing_else(side: str, name: str, type: str | None) -> None:
    said = StructField("said", PrimitiveType("string"), True, {"__COLLATIONS": {"said": "icu.UNICODE_CI"}})
    fields = (*SOURCE.fields, *struct(empty="void", Twice="long", twice="long").fields, said)
    found = scope_of(TARGET, StructType(fields)).plain_type(side, name)  # type: ignore[arg-type]
    assert found == (None if type is None else PrimitiveType(type))
