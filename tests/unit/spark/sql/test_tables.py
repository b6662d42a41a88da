"""Which names in a text are tables, and what is put in their place."""

from __future__ import annotations

import pytest

from deltamerge.spark.sql.tables import tables_in, with_ctes, with_short_names


def paths(text: str) -> list[str]:
    return [table.parts[-1] for table in tables_in(text)]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM delta.`p`",
        "SELECT delta.`a`, delta.`b` FROM s delta, delta.`p` x WHERE delta.`c` ORDER BY delta.`d`, delta.`e`",
        "FROM delta.`p` SELECT delta.`a`, delta.`b`",
        "TABLE delta.`p`",
        "WITH c AS (SELECT delta.`a`, delta.`b` FROM s delta) FROM c, delta.`p`",
        "a + (SELECT max(delta.`a`) FROM ((delta.`p` x JOIN s ON x.a = s.`a`)))",
        "EXISTS (SELECT 1 FROM s GROUP BY delta.`a`, delta.`b` UNION SELECT 1 FROM s JOIN delta.`p` ON f(delta.`a`, delta.`b`))",
        "SELECT extract(year FROM delta.`d`), trim(FROM delta.`a`), a IS DISTINCT FROM delta.`b` FROM s, delta.`p`",
        "SELECT * FROM s JOIN LATERAL (SELECT delta.`c`, delta.`d`), delta.`p`",
        "SELECT * FROM f(TABLE delta.`p`)",
        "SELECT 1 FROM DELTA.`p` |> SELECT delta.`a`, delta.`b`",
    ],
)
def test_a_path_is_a_table_where_a_table_can_stand(text: str) -> None:
    assert paths(text) == ["p"]


@pytest.mark.parametrize(
    "text", ["t.n = delta.`n`", "t.n IN (delta.`a`, delta.`b`)", "extract(year FROM delta.`d`)", "t.from, delta.`n`", "delta.`n"]
)
def test_outside_of_queries_nothing_is_a_table(text: str) -> None:
    assert paths(text) == []


@pytest.mark.parametrize(
    ("said", "version", "timestamp"),
    [
        ("VERSION AS OF 1", "1", None),
        ("FOR VERSION AS OF '1'", "1", None),
        ("for system_version as of (1)", "1", None),
        ("TIMESTAMP AS OF '2024-01-31'", None, "'2024-01-31'"),
        ("FOR TIMESTAMP AS OF DATE'2024-01-31'", None, "DATE'2024-01-31'"),
        ("FOR SYSTEM_TIME AS OF now() - INTERVAL 1 DAY", None, "now() - INTERVAL 1 DAY"),
        ("TIMESTAMP AS OF CAST('2024' AS TIMESTAMP)", None, "CAST('2024' AS TIMESTAMP)"),
    ],
)
@pytest.mark.parametrize(
    "behind", ["", " x", " AS x", " WHERE a > 1", " x (a, b)", " JOIN s", " x LEFT JOIN s ON true", ", s", " LIMIT 1"]
)
@pytest.mark.parametrize("name", ["delta.`p`", "db.tab"])
def test_a_version_or_time_goes_up_to_the_alias(said: str, version: str, timestamp: str, behind: str, name: str) -> None:
    text = f"SELECT * FROM {name} {said}{behind}"
    (table,) = tables_in(text)
    assert (table.version, table.timestamp) == (version, timestamp)
    assert (text[: table.first], text[table.behind :]) == ("SELECT * FROM ", behind)


@pytest.mark.parametrize(
    "behind", ["version", "AS timestamp", "timestamp (a)", "VERSION AS OF", "VERSION AS OF x", "TIMESTAMP AS OF +"]
)
def test_what_names_no_version_is_left_to_spark(behind: str) -> None:
    (table,) = tables_in(f"SELECT * FROM delta.`p` {behind}")
    assert (table.version, table.timestamp, table.behind) == (None, None, len("SELECT * FROM delta.`p`"))


@pytest.mark.parametrize(
    ("text", "names", "short"),
    [
        ("db.t.id = s.id", [("db", "t")], "t.id = s.id"),
        ("Cat.DB.T.id = db.t.id", [("cat", "db", "t")], "T.id = t.id"),
        ("cat.db.t.id = cat.db.s.id", [("t",), ("db", "s")], "t.id = s.id"),
        ("delta.`p`.id = cat.delta.`p`.n", [("delta", "p")], "`p`.id = `p`.n"),
        ("(SELECT max(cat.db.t.id) FROM cat.db.t)", [("t",)], "(SELECT max(t.id) FROM cat.db.t)"),
    ],
)
def test_a_qualified_column_keeps_the_last_part_of_its_table(text: str, names: list[tuple[str, ...]], short: str) -> None:
    assert with_short_names(text, names, lambda: ("cat", "db")) == short


@pytest.mark.parametrize("text", ["other.t.id = x.db.t.id", "t.db.t = db.t"])
def test_other_names_stay(text: str) -> None:
    assert with_short_names(text, [("t",)], lambda: ("cat", "db")) == text


def test_where_a_table_is_asked_for_only_where_a_text_says_it() -> None:
    def home() -> tuple[str, str]:
        raise AssertionError("asked")

    text = "t.id = s.id AND s.a.b > 1 AND db.s.c"
    assert with_short_names(text, [("t",), ("db", "s")], home) == "t.id = s.id AND s.a.b > 1 AND s.c"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("(SELECT 1) + (FROM c SELECT 1)", "(W SELECT 1) + (W FROM c SELECT 1)"),
        ("1 IN (TABLE c)", "1 IN (W TABLE c)"),
        ("((SELECT 1 FROM (SELECT 2)) UNION (SELECT 3))", "((W SELECT 1 FROM (SELECT 2)) UNION (W SELECT 3))"),
        ("(WITH d AS (SELECT 1) SELECT 2)", "(W (WITH d AS (SELECT 1) SELECT 2))"),
        ("trim(FROM a) + (from + 1) + (VALUES (1)) + f(table)", "trim(FROM a) + (from + 1) + (VALUES (1)) + f(table)"),
    ],
)
def test_each_outermost_query_knows_the_with_queries(text: str, found: str) -> None:
    assert with_ctes(text, "W") == found
