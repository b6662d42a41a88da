"""What an unresolved name's error says: the name, and what its user probably meant."""

from __future__ import annotations

import pytest

from deltamerge.spark.expressions.refused.unresolved import Sight, unresolved

ALIASED = Sight(["s.id", "s.name", "s.n", "t.id", "t.name", "t.n"], ["t", "s"])
UNNAMED = Sight(["id", "name", "score", "id", "name", "score"], [], has_unnamed=True)
SOURCE = Sight(["s.id", "s.name"], ["t", "s"])


@pytest.mark.parametrize(
    ("name", "sight", "hint"),
    [
        ("`s`.`nam`", ALIASED, "Did you mean s.name?"),
        ("s.amount", ALIASED, None),
        ("`t`.`id`", UNNAMED, 'Nothing is called t here. Give the table or the source this alias: .alias("t"), in SQL AS t.'),
        ("x.id", ALIASED, "Nothing is called x here. The names are t and s."),
        ("t.name", SOURCE, "Did you mean s.name? This clause does not see t."),
        ("t.other", SOURCE, "This clause does not see t."),
        ("name.first", UNNAMED, None),
        ("`active`", ALIASED, "A text stands in quotes of its own: 'active'."),
        ("nam", ALIASED, "Did you mean t.name? A text stands in quotes of its own: 'nam'."),
        ("`a b`", ALIASED, None),
    ],
)
def test_the_hint_in_an_expression(name: str, sight: Sight, hint: str | None) -> None:
    assert unresolved(name, "search condition", sight, "text").hint == hint


def test_the_hint_says_all_of_a_text() -> None:
    assert unresolved("`New`", "UPDATE clause", ALIASED, "New York").hint == "A text stands in quotes of its own: 'New York'."


def test_the_hint_for_a_column_to_set_speaks_of_no_text() -> None:
    assert unresolved("active", "UPDATE clause", ALIASED).hint is None
    assert unresolved("active", "UPDATE clause", ALIASED, hint="given").hint == "given"


def test_the_name_is_said_as_users_write_it_and_each_column_once() -> None:
    error = unresolved("`s`.`amount`", "search condition", UNNAMED, "t.id = s.id AND t.n > s.amount")
    assert error.detail == "Cannot resolve s.amount in search condition given columns id, name, score."
    assert error.parameters["sqlExpr"] == "s.amount"
    assert "`a b`" in unresolved("`s`.`a b`", "search condition", ALIASED, "s.`a b`").detail
