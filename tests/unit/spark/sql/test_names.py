"""Names of columns in SQL text, and the text with others in their place."""

from __future__ import annotations

import pytest

from deltamerge.spark.sql.names import dotted_names, with_aliases


def test_names_of_several_parts_are_found_once_outside_of_queries() -> None:
    text = "db.t.id = `s x`.id AND f(t.a.b, 1.5) AND g.h(c) AND 'd.e' = (SELECT u.n FROM db.u) AND db.t.id > x.y"
    assert dotted_names(text) == (("db", "t", "id"), ("s x", "id"), ("t", "a", "b"), ("x", "y"))


def test_the_variable_of_a_lambda_function_is_no_name() -> None:
    text = "exists(t.a, x -> x.n = db.t.n) AND aggregate(t.b, 0, (acc, t) -> t.n) > s.n"
    assert dotted_names(text) == (("db", "t", "n"), ("s", "n"))


def test_what_is_no_sql_has_no_names() -> None:
    assert dotted_names("'open a.b") == ()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("db.t.id = s.id", "`T`.id = s.id"),
        ("DB.T.`Id`.a+db.t.id", "`T`.`Id`.a+`T`.id"),
        ("cat.db.t.id", "cat.db.t.id"),
        ("(SELECT db.t.id) + db.t.id", "(SELECT db.t.id) + `T`.id"),
        ("f(x).db.t.id + m['k'].db.t.id", "f(x).db.t.id + m['k'].db.t.id"),
        ("db.t.id(1)", "db.t.id(1)"),
        ("transform(a, db -> db.t.id)", "transform(a, db -> db.t.id)"),
        ("db.t.id -- db.t.id", "`T`.id -- db.t.id"),
    ],
)
def test_names_are_said_otherwise(text: str, found: str) -> None:
    def explicit(parts: tuple[str, ...]) -> tuple[str, ...] | None:
        return ("T", *parts[2:]) if [part.lower() for part in parts[:2]] == ["db", "t"] else None

    assert with_aliases(text, explicit) == found
