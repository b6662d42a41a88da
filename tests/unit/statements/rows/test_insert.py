"""INSERT as text: what its parts are, and where an error is."""

from __future__ import annotations

import pytest

from deltamerge.errors import ParseError
from deltamerge.spark.sql.reader import Reader
from deltamerge.spark.sql.text import tokens_of
from deltamerge.statements.rows.insert import Insert, parse_insert


def parsed(text: str) -> Insert | None:
    reader = Reader(text, tokens_of(text) or ())
    reader.expect("INSERT")
    return parse_insert(reader)


T = ("db", "t")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("INSERT INTO db.t VALUES (1, 'a;)'), (2, (3));", Insert(T, "VALUES (1, 'a;)'), (2, (3))")),
        ("INSERT INTO TABLE db.t (SELECT 1)", Insert(T, "(SELECT 1)")),
        ("insert into db.t ((select 1) union select 2)", Insert(T, "((select 1) union select 2)")),
        ("INSERT INTO db.t (a, `b c`) TABLE s", Insert(T, "TABLE s", columns=("a", "b c"))),
        ("INSERT INTO db.t (`select`) SELECT 1", Insert(T, "SELECT 1", columns=("select",))),
        ("INSERT WITH SCHEMA EVOLUTION INTO db.t BY NAME FROM s", Insert(T, "FROM s", by_name=True, evolves=True)),
        (
            "INSERT INTO db.t REPLACE WHERE a > (SELECT 1) AND b IN (1) WITH c AS (SELECT 1) TABLE c",
            Insert(T, "WITH c AS (SELECT 1) TABLE c", replace_where="a > (SELECT 1) AND b IN (1)"),
        ),
        (
            "INSERT OVERWRITE db.t PARTITION (p = 'x', q) (a) SELECT 1",
            Insert(T, "SELECT 1", columns=("a",), overwrites=True, partition=(("p", "'x'"), ("q", None))),
        ),
        ("INSERT INTO db.t VALUES (DEFAULT, f(1, 2)), (3, 4)", Insert(T, rows=((None, "f(1, 2)"), ("3", "4")))),
        ("INSERT INTO db.t VALUES DEFAULT", Insert(T, rows=((None,),))),
        ("INSERT INTO db.t VALUES (1, default + 1) AS v(a, b)", Insert(T, "VALUES (1, default + 1) AS v(a, b)")),
        ("INSERT OVERWRITE LOCAL DIRECTORY 'x' SELECT 1", None),
    ],
)
def test_the_parts_of_an_insert(text: str, expected: Insert | None) -> None:
    assert parsed(text) == expected


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("INSERT db.t SELECT 1", 7),
        ("INSERT INTO db.t REPLACE ON a = 1 SELECT 1", 25),
        ("INSERT INTO db.t PARTITION (p = 1) IF NOT EXISTS SELECT 1", 35),
        ("INSERT OVERWRITE db.t PARTITION (p = v) SELECT 1", 37),
        ("INSERT OVERWRITE db.t PARTITION (p = DEFAULT) SELECT 1", 37),
        ("INSERT INTO db.t", 16),
        ("INSERT INTO db.t SELECT 1) x", 25),
        ("INSERT INTO db.t BY SELECT 1", 20),
    ],
)
def test_an_error_shows_its_place(text: str, place: int) -> None:
    try:
        found = parsed(text)
        refused = found and found.refused
    except ParseError as error:
        refused = error
    assert refused is not None
    assert f"position {place})" in refused.detail
