"""Which names in a text are tables, and what is put in their place."""

from __future__ import annotations

import pytest

from deltamerge.errors import InvalidArgumentError, ParseError
from deltamerge.spark.read.travel import travel_of
from deltamerge.spark.sql.tables import StandIn, query_with_ctes, tables_in, with_ctes, with_stand_ins


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
    ("said", "options"),
    [
        ("WITH ('versionAsOf' = '0')", (("versionAsOf", "0"),)),
        ("WITH (versionasof 12, 'x' = true)", (("versionasof", "12"), ("x", "true"))),
        ('WITH ("timestampAsOf" = "2024-01-01, at (noon)")', (("timestampAsOf", "2024-01-01, at (noon)"),)),
    ],
)
@pytest.mark.parametrize("behind", ["", " x", " AS x WHERE a > 1", " TABLESAMPLE (5 ROWS) x", " JOIN s"])
@pytest.mark.parametrize("name", ["delta.`p`", "db.tab"])
def test_options_that_say_a_version_are_a_part_of_the_table(
    said: str, options: tuple[tuple[str, str], ...], behind: str, name: str
) -> None:
    text = f"SELECT * FROM {name} {said}{behind}"
    (table,) = tables_in(text)
    assert table.options == options
    assert (text[: table.first], text[table.behind :]) == ("SELECT * FROM ", behind)


def test_other_options_are_sparks() -> None:
    assert tables_in("SELECT * FROM db.tab WITH ('x' = 1)") == []
    (table,) = tables_in("SELECT * FROM delta.`p` WITH ('x' = 1) y")
    assert (table.options, table.behind) == ((), len("SELECT * FROM delta.`p`"))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("SELECT t.a FROM t, db.u x JOIN `cat`.db.v USING (id) WHERE a IN (TABLE w)", ["t", "db.u", "cat.db.v", "w"]),
        ("SELECT extract(year FROM a), f(b) FROM g(c) JOIN LATERAL (SELECT 1), VALUES (1), (SELECT * FROM t)", ["t"]),
        ("WITH a AS (SELECT * FROM t), b(n) AS (SELECT * FROM a) SELECT * FROM a, B, db.a, c", ["t", "db.a", "c"]),
        ("WITH a AS (SELECT * FROM a) SELECT * FROM a", ["a"]),
        ("WITH RECURSIVE a(n) MAX RECURSION LEVEL 9 AS (SELECT 1 UNION ALL SELECT * FROM a) SELECT * FROM a", []),
        ("SELECT * FROM (WITH a (SELECT 1) TABLE a) x, a", ["a"]),
        ("SELECT 1 + (SELECT max(n) FROM a)", ["a"]),
        ("t.n + trim(FROM a)", []),
    ],
)
def test_plain_tables_are_those_that_no_query_of_with_hides(text: str, names: list[str]) -> None:
    assert [".".join(table.parts) for table in tables_in(text, plain=True) if table.is_plain] == names


def stood_in(text: str) -> str:
    """The text with views V0, V1 .. in place of each table, whose whole names begin with `cat.db`."""
    tables = tables_in(text, plain=True)
    names = [(*("cat", "db")[: 3 - len(table.parts)], *table.parts) for table in tables]
    return with_stand_ins(text, [StandIn(table, names[n], f"V{n}") for n, table in enumerate(tables)])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT t.a FROM t", "SELECT t.a FROM V0 AS `t`"),
        ("SELECT db.t.a, cat.DB.T.b, s.c FROM db.t WHERE t.a > 1", "SELECT t.a, T.b, s.c FROM V0 AS `t` WHERE t.a > 1"),
        ("SELECT x.a FROM t x JOIN u AS y JOIN `v` `z`", "SELECT x.a FROM V0 x JOIN V1 AS y JOIN V2 `z`"),
        ("TABLE t", "TABLE V0"),
        ("SELECT f(TABLE t)", "SELECT f(TABLE V0)"),
        ("SELECT * FROM t TABLESAMPLE (5 ROWS) x", "SELECT * FROM V0 TABLESAMPLE (5 ROWS) x"),
        ("SELECT t.a FROM t TABLESAMPLE (5 ROWS)", "SELECT t.a FROM V0 TABLESAMPLE (5 ROWS) AS `t`"),
        (
            "SELECT db.t.a FROM db.t TABLESAMPLE (9 PERCENT) REPEATABLE (3) JOIN u",
            "SELECT t.a FROM V0 TABLESAMPLE (9 PERCENT) REPEATABLE (3) AS `t` JOIN V1 AS `u`",
        ),
        ("FROM t SELECT a", "FROM V0 AS `t` SELECT a"),
        ("SELECT * FROM t |> WHERE a > 1", "SELECT * FROM V0 AS `t` |> WHERE a > 1"),
        ("(SELECT * FROM t LEFT JOIN u USING (a))", "(SELECT * FROM V0 AS `t` LEFT JOIN V1 AS `u` USING (a))"),
        ("SELECT delta.`p`.a FROM delta.`p` GROUP BY delta.`p`.a", "SELECT `p`.a FROM V0 AS `p` GROUP BY `p`.a"),
        ("SELECT db.t.a FROM t VERSION AS OF 1 ORDER BY a", "SELECT t.a FROM V0 AS `t` ORDER BY a"),
    ],
)
def test_a_view_goes_by_the_name_of_its_table(text: str, found: str) -> None:
    assert stood_in(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "SELECT db.t.a FROM db.t JOIN u t",  # u goes by t, too
        "SELECT db.t.a, other.t.a FROM db.t JOIN other.t",
        "SELECT db.t.a, t FROM db.t",  # a column may be called so
        "SELECT (SELECT max(db.t.a) FROM u AS t) FROM db.t",
    ],
)
def test_where_the_short_name_may_mean_another_thing_the_whole_name_stays(text: str) -> None:
    assert "db.t.a" in stood_in(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("(SELECT 1) + (FROM c SELECT 1)", "(W SELECT 1) + (W FROM c SELECT 1)"),
        ("1 IN (TABLE c)", "1 IN (W TABLE c)"),
        ("((SELECT 1 FROM (SELECT 2)) UNION (SELECT 3))", "((W SELECT 1 FROM (SELECT 2)) UNION (W SELECT 3))"),
        ("(WITH d AS (SELECT 1) SELECT 2)", "(W (WITH d AS (SELECT 1) SELECT 2))"),
        ("a IN ((SELECT 1) UNION ALL SELECT a FROM c)", "a IN (W (SELECT 1) UNION ALL SELECT a FROM c)"),
        ("(((SELECT 1)) MINUS TABLE c) + (SELECT 2)", "(W ((SELECT 1)) MINUS TABLE c) + (W SELECT 2)"),
        ("(VALUES (0), (1) UNION SELECT a FROM c)", "(W VALUES (0), (1) UNION SELECT a FROM c)"),
        ("((VALUES (0) UNION SELECT a FROM c) UNION (TABLE c))", "((W VALUES (0) UNION SELECT a FROM c) UNION (W TABLE c))"),
        ("((minus) + (SELECT 1)) - (VALUES ((SELECT 1)))", "((minus) + (W SELECT 1)) - (VALUES ((W SELECT 1)))"),
        ("trim(FROM a) + (from + 1) + (VALUES (1)) + f(table)", "trim(FROM a) + (from + 1) + (VALUES (1)) + f(table)"),
    ],
)
def test_each_outermost_query_knows_the_with_queries(text: str, found: str) -> None:
    assert with_ctes(text, "W") == found


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("SELECT a FROM c", "(W SELECT a FROM c)"),
        ("(SELECT a FROM c) UNION ALL SELECT a FROM c", "(W (SELECT a FROM c) UNION ALL SELECT a FROM c)"),
        ("VALUES (0) UNION ALL SELECT a FROM c", "(W VALUES (0) UNION ALL SELECT a FROM c)"),
        ("WITH d AS (TABLE c) TABLE d", "(W (WITH d AS (TABLE c) TABLE d))"),
    ],
)
def test_all_of_a_query_knows_the_with_queries(query: str, found: str) -> None:
    assert query_with_ctes(query, "W") == found
    assert query_with_ctes(query, "") == f"({query})"


def test_no_table_is_looked_up_for_a_with_query() -> None:
    text = query_with_ctes("(SELECT a FROM c) UNION ALL SELECT a FROM c", "WITH c AS (SELECT 1 a)")
    assert tables_in(text, plain=True) == []


def test_the_name_of_an_option_may_be_in_backquotes() -> None:
    (table,) = tables_in("SELECT * FROM t WITH (`versionAsOf` = 0)", plain=True)
    assert table.options == (("versionAsOf", "0"),)


@pytest.mark.parametrize(("value", "found"), [("-1", "-1"), ("== 1", "1"), ("", ""), ("'1' '2'", "12")])
def test_all_of_an_option_is_its_value(value: str, found: str) -> None:
    (table,) = tables_in(f"SELECT * FROM t WITH ('versionAsOf' {value})", plain=True)
    assert table.options == (("versionAsOf", found),)


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("", (None, None)),
        ("VERSION AS OF ''", ("", None)),
        ("TIMESTAMP AS OF now()", (None, "now()")),
        ("WITH ('versionAsOf' = '')", ("", None)),
        ("WITH ('timestampAsOf' = 'x')", (None, "'x'")),
        ("WITH ('readChangeFeed' = 'false')", (None, None)),
    ],
)
def test_a_table_is_read_as_of_what_is_said(said: str, found: tuple[str | None, str | None]) -> None:
    (table,) = tables_in(f"SELECT * FROM delta.`p` {said} x")
    assert travel_of(table) == found


@pytest.mark.parametrize("twice", ["'versionAsOf' = 0, versionAsOf 1", "timestampAsOf 'x', 'x' = 1, 'timestampAsOf' = 'x'"])
def test_an_option_is_given_once(twice: str) -> None:
    (table,) = tables_in(f"SELECT * FROM t WITH ({twice})")
    with pytest.raises(ParseError, match=r"DUPLICATE_KEY\].* `(version|timestamp)AsOf`"):
        travel_of(table)


def test_of_two_spellings_of_an_option_the_last_one_counts() -> None:
    (table,) = tables_in("SELECT * FROM t WITH (versionAsOf 0, VERSIONASOF 1)")
    assert travel_of(table) == ("1", None)


@pytest.mark.parametrize(
    "options", ["'versionAsOf' = 0, 'readChangeFeed' = 'true'", "readChangeData true", "readChangeFeed 'yes'"]
)
def test_changes_of_a_table_are_not_its_rows(options: str) -> None:
    (table,) = tables_in(f"SELECT * FROM t WITH ({options})")
    with pytest.raises(InvalidArgumentError, match="readChangeFeed"):
        travel_of(table)
