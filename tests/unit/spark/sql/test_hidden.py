"""Which tables of a query show a hidden column, and where stars leave it out."""

from __future__ import annotations

import pytest

from deltamerge.errors import AnalysisError, InvalidArgumentError
from deltamerge.spark.pyspark import older
from deltamerge.spark.sql.hidden.column import HiddenColumn, expression_without
from deltamerge.spark.sql.hidden.queries import queries_of
from deltamerge.spark.sql.tables import StandIn, tables_in, with_stand_ins
from deltamerge.spark.sql.text import tokens_of

T, U = "delta.`/t`", "delta.`/u`"


def rewritten(text: str, own: str = "/own", none: str = "/none") -> str:
    """The text with m(x) for each table that shows the column and x for others; one has a column of its own, another none."""
    tables = tables_in(text, plain=True)
    shown = HiddenColumn(text, "_metadata", tables).shown(
        lambda table: table.parts[-1] not in (own, none), lambda table: table.parts[-1] == own
    )
    views = [StandIn(table, table.parts, f"m({table.parts[-1]})" if table in shown.tables else "x") for table in tables]
    return with_stand_ins(text, views, shown.edits)


CASES = {
    f"SELECT id FROM {T}": "SELECT id FROM x AS `/t`",
    f"SELECT _metadata FROM {T}": "SELECT _metadata FROM m(/t) AS `/t`",
    f"SELECT _METADATA.Row_Id FROM {T} AS a": "SELECT _METADATA.Row_Id FROM m(/t) AS a",
    f"SELECT `_metadata`.row_id FROM {T} WHERE id = 1": "SELECT `_metadata`.row_id FROM m(/t) AS `/t` WHERE id = 1",
    f"SELECT * FROM {T} WHERE _metadata.row_id = 1": (
        "SELECT * EXCEPT (`_metadata`) FROM m(/t) AS `/t` WHERE _metadata.row_id = 1"
    ),
    f"SELECT a.*, a._metadata.row_id FROM {T} a": "SELECT a.* EXCEPT (`_metadata`), a._metadata.row_id FROM m(/t) a",
    f"SELECT * EXCEPT (id), _metadata FROM {T}": "SELECT * EXCEPT (`_metadata`, id), _metadata FROM m(/t) AS `/t`",
    f"SELECT count(*), max(_metadata.row_id) FROM {T}": "SELECT count(*), max(_metadata.row_id) FROM m(/t) AS `/t`",
    f"SELECT count(DISTINCT *), 2 * id, _metadata FROM {T}": (
        "SELECT count(DISTINCT * EXCEPT (`_metadata`)), 2 * id, _metadata FROM m(/t) AS `/t`"
    ),
    f"SELECT struct(*), _metadata.* FROM {T}": "SELECT struct(* EXCEPT (`_metadata`)), _metadata.* FROM m(/t) AS `/t`",
    f"SELECT /*+ BROADCAST(a) */ *, _metadata FROM {T} a": (
        "SELECT /*+ BROADCAST(a) */ * EXCEPT (`_metadata`), _metadata FROM m(/t) a"
    ),
    # Qualified by the table's name, or by a part of it.
    f"SELECT delta.`/t`._metadata.row_id, delta.`/t`.* FROM {T}": (
        "SELECT `/t`._metadata.row_id, `/t`.* EXCEPT (`_metadata`) FROM m(/t) AS `/t`"
    ),
    "SELECT b.c._metadata.x FROM a.b.c": "SELECT c._metadata.x FROM m(c) AS `c`",
    # A table that goes by the column's name, and one of whose columns no star shows any.
    f"SELECT _metadata.* FROM {T} AS _metadata": "SELECT _metadata.* EXCEPT (`_metadata`) FROM m(/t) AS _metadata",
    f"SELECT * FROM {T} a LEFT ANTI JOIN {U} b ON a._metadata.x = b._metadata.x": (
        "SELECT * EXCEPT (`_metadata`) FROM m(/t) a LEFT ANTI JOIN m(/u) b ON a._metadata.x = b._metadata.x"
    ),
    f"SELECT * FROM {T} a SEMI JOIN (SELECT * FROM {U}) b ON a.id = b._metadata.x": (
        "SELECT * FROM x a SEMI JOIN (SELECT * EXCEPT (`_metadata`) , `/u`.`_metadata` FROM m(/u) AS `/u`) b "
        "ON a.id = b._metadata.x"
    ),
    # One of several tables, or all.
    f"SELECT a._metadata, * FROM {T} a JOIN {U} b ON a.id = b.id": (
        "SELECT a._metadata, * EXCEPT (`_metadata`) FROM m(/t) a JOIN x b ON a.id = b.id"
    ),
    f"SELECT b.*, a.* FROM {T} a, {U} b WHERE a._metadata.row_id = b._metadata.row_id": (
        "SELECT b.* EXCEPT (`b`.`_metadata`), a.* EXCEPT (`a`.`_metadata`) FROM m(/t) a, m(/u) b "
        "WHERE a._metadata.row_id = b._metadata.row_id"
    ),
    f"SELECT * FROM {T} a JOIN {U} b ON _metadata.x = 1": (
        "SELECT * EXCEPT (`a`.`_metadata`, `b`.`_metadata`) FROM m(/t) a JOIN m(/u) b ON _metadata.x = 1"
    ),
    f"SELECT * FROM ({T} a JOIN {U} b USING (id)) WHERE b._metadata.x = 1": (
        "SELECT * EXCEPT (`_metadata`) FROM (x a JOIN m(/u) b USING (id)) WHERE b._metadata.x = 1"
    ),
    # A column that a table has is none that is hidden.
    "SELECT _metadata FROM delta.`/own`": "SELECT _metadata FROM x AS `/own`",
    f"SELECT _metadata FROM {T} a, delta.`/own` b": "SELECT _metadata FROM x a, x b",
    f"SELECT a._metadata FROM {T} a, delta.`/own` b": "SELECT a._metadata FROM m(/t) a, x b",
    "SELECT _metadata FROM delta.`/none`": "SELECT _metadata FROM x AS `/none`",
    f"SELECT a._metadata FROM {T} b": "SELECT a._metadata FROM x b",
    # Each query of its own.
    f"SELECT _metadata.x FROM {T} UNION ALL SELECT * FROM {U}": (
        "SELECT _metadata.x FROM m(/t) AS `/t` UNION ALL SELECT * FROM x AS `/u`"
    ),
    f"SELECT * FROM {T} EXCEPT SELECT _metadata FROM {U}": "SELECT * FROM x AS `/t` EXCEPT SELECT _metadata FROM m(/u) AS `/u`",
    f"SELECT * EXCEPT (SELECT _metadata FROM {U})": "SELECT * EXCEPT (SELECT _metadata FROM m(/u) AS `/u`)",
    f"SELECT * FROM {T} WHERE id IN (SELECT _metadata.row_id FROM {U})": (
        "SELECT * FROM x AS `/t` WHERE id IN (SELECT _metadata.row_id FROM m(/u) AS `/u`)"
    ),
    f"WITH w AS (SELECT *, _metadata.x FROM {T}) SELECT * FROM w": (
        "WITH w AS (SELECT * EXCEPT (`_metadata`), _metadata.x FROM m(/t) AS `/t`) SELECT * FROM w"
    ),
    f"INSERT INTO v SELECT _metadata.x FROM {T}": "INSERT INTO v SELECT _metadata.x FROM m(/t) AS `/t`",
    # Queries within see the one around, those in its FROM do not.
    f"SELECT * FROM {T} a WHERE EXISTS (SELECT * FROM {U} b WHERE b.id = a._metadata.x)": (
        "SELECT * EXCEPT (`_metadata`) FROM m(/t) a WHERE EXISTS (SELECT * FROM x b WHERE b.id = a._metadata.x)"
    ),
    f"SELECT id FROM {T} WHERE EXISTS (SELECT 1 FROM range(3) r WHERE r.id = _metadata.x)": (
        "SELECT id FROM m(/t) AS `/t` WHERE EXISTS (SELECT 1 FROM range(3) r WHERE r.id = _metadata.x)"
    ),
    f"SELECT id FROM {T} a, (SELECT _metadata FROM delta.`/none`) b": (
        "SELECT id FROM x a, (SELECT _metadata FROM x AS `/none`) b"
    ),
    # Through queries in FROM that only choose rows and columns.
    f"SELECT *, _metadata.x FROM (SELECT * FROM {T})": (
        "SELECT * EXCEPT (`_metadata`), _metadata.x FROM (SELECT * EXCEPT (`_metadata`) , `/t`.`_metadata` FROM m(/t) AS `/t`)"
    ),
    f"SELECT y._metadata.x FROM (SELECT id FROM {T} a WHERE id > 1) y": (
        "SELECT y._metadata.x FROM (SELECT id , `a`.`_metadata` FROM m(/t) a WHERE id > 1) y"
    ),
    f"SELECT _metadata.x FROM (SELECT id FROM (SELECT * FROM {T}) b) c": (
        "SELECT _metadata.x FROM (SELECT id , `b`.`_metadata` FROM "
        "(SELECT * EXCEPT (`_metadata`) , `/t`.`_metadata` FROM m(/t) AS `/t`) b) c"
    ),
    f"SELECT _metadata.x FROM (SELECT id, _metadata FROM {T})": (
        "SELECT _metadata.x FROM (SELECT id, _metadata FROM m(/t) AS `/t`)"
    ),
    f"SELECT *, _metadata FROM (SELECT 1 AS _metadata FROM {T})": (
        "SELECT *, _metadata FROM (SELECT 1 AS _metadata FROM x AS `/t`)"
    ),
    f"SELECT _metadata.x FROM (SELECT DISTINCT id FROM {T})": "SELECT _metadata.x FROM (SELECT DISTINCT id FROM x AS `/t`)",
    f"SELECT _metadata.x FROM (SELECT id FROM {T} GROUP BY id)": "SELECT _metadata.x FROM (SELECT id FROM x AS `/t` GROUP BY id)",
    f"SELECT _metadata.x FROM (SELECT id FROM {T} UNION SELECT id FROM {U})": (
        "SELECT _metadata.x FROM (SELECT id FROM x AS `/t` UNION SELECT id FROM x AS `/u`)"
    ),
    # An alias that names the columns names this one, too.
    f"SELECT p, _metadata.x FROM {T} AS a(p, q)": "SELECT p, _metadata.x FROM m(/t) AS a(p, q, `_metadata`)",
    f"FROM {T} a SELECT *, _metadata": "FROM m(/t) a SELECT * EXCEPT (`_metadata`), _metadata",
}


@pytest.mark.parametrize("text", CASES)
def test_a_query_shows_what_it_names(text: str) -> None:
    assert rewritten(text) == CASES[text]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"SELECT * FROM {T} PIVOT (count(_metadata.x) FOR p IN ('a'))", "PIVOT"),
        (f"FROM {T} |> WHERE _metadata.x > 1", "|>"),
        (f"SELECT a._metadata, b._metadata FROM {T} a NATURAL JOIN {U} b", "NATURAL JOIN"),
    ],
)
def test_where_it_can_not_be_hidden_it_is_refused(text: str, said: str) -> None:
    with pytest.raises(AnalysisError) as caught:
        rewritten(text)
    assert caught.value.condition == "DELTAMERGE_UNSUPPORTED_STATEMENT"
    assert caught.value.parameters == {"statement": said}
    assert "query of their own" in (caught.value.hint or "")


def test_an_older_spark_has_no_star_that_leaves_columns_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(older, "IS_OLDER", True)
    assert rewritten(f"SELECT id, _metadata FROM {T}") == "SELECT id, _metadata FROM m(/t) AS `/t`"
    with pytest.raises(InvalidArgumentError) as caught:
        rewritten(f"SELECT *, _metadata FROM {T}")
    assert caught.value.condition == "DELTAMERGE_NEEDS_PYSPARK_4"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("struct(*)", "struct(* EXCEPT (`h`))"),
        ("count(*)", "count(*)"),
        ("t.*", "t.* EXCEPT (`h`)"),
        ("a * b", "a * b"),
        ("*", "* EXCEPT (`h`)"),
        ("h.*", "h.*"),
        ("a", "a"),
    ],
)
def test_stars_of_an_expression(text: str, expected: str) -> None:
    assert expression_without(text, "h") == expected


def test_queries_within_queries() -> None:
    text = "SELECT (SELECT 1) FROM (SELECT 2 UNION SELECT 3) a, (b JOIN (SELECT 4) c) WHERE d IN (SELECT 5, trim(FROM e))"
    tokens = tokens_of(text) or []
    found = queries_of(tokens)
    assert [tokens[query.begin + 1].text for query in found.all] == ["(", "1", "2", "3", "4", "5"]
    assert [query.in_from for query in found.all] == [False, False, True, True, True, False]
    assert [query.is_united for query in found.all] == [False, False, True, True, False, False]
    assert [query.around is found.all[0] for query in found.all] == [False, True, True, True, True, True]
