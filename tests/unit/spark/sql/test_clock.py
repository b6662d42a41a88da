"""The time in SQL text: what asks for it is found and replaced, and nothing else."""

from __future__ import annotations

import pytest

from deltamerge.spark.sql.clock import CLOCKS, asks_time, at_time, has_moment

MICROS = 1_700_000_000_123_456
TIME = "TIMESTAMP_LTZ '2023-11-14 22:13:20.123456Z'"
DATE, LOCAL = f"(CAST({TIME} AS DATE))", f"(CAST({TIME} AS TIMESTAMP_NTZ))"


def changed(text: str, *columns: str) -> str:
    return at_time(text, MICROS, CLOCKS, columns)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now()", f"({TIME})"),
        ("t.at < NOW ( ) - INTERVAL 1 DAY", f"t.at < ({TIME}) - INTERVAL 1 DAY"),
        ("s.ts = current_timestamp", f"s.ts = ({TIME})"),
        ("Current_Timestamp()", f"({TIME})"),
        ("`now`()", f"({TIME})"),
        ("date_add(current_date, 1) = curdate()", f"date_add({DATE}, 1) = {DATE}"),
        ("localtimestamp() > localtimestamp", f"{LOCAL} > localtimestamp"),
        ("unix_timestamp() - unix_timestamp(s.at)", "(1700000000L) - unix_timestamp(s.at)"),
        ("current_time", f"(CAST(date_format({TIME}, 'HH:mm:ss.SSSSSS') AS TIME(6)))"),
        ("current_time(0)", f"(CAST(date_format({TIME}, 'HH:mm:ss') AS TIME(0)))"),
        ("(SELECT max(at) FROM v WHERE at < now())", f"(SELECT max(at) FROM v WHERE at < ({TIME}))"),
        ("transform(s.a, e -> now())", f"transform(s.a, e -> ({TIME}))"),
        ("builtin.now() = System.Builtin.now()", f"({TIME}) = ({TIME})"),
        ("struct(CURRENT_DATE, s.a)", f"struct({DATE} AS `CURRENT_DATE`, s.a)"),
        ("struct((s.a), array(1), `current_date`)", f"struct((s.a), array(1), {DATE} AS `current_date`)"),
        (
            "struct(current_date AS d, current_date + 1, array(current_date), now())",
            f"struct({DATE} AS d, {DATE} + 1, array({DATE}), ({TIME}))",
        ),
        ("concat('now()', \"now()\", now())", f"concat('now()', \"now()\", ({TIME}))"),
    ],
)
def test_what_asks_for_the_time_is_replaced(text: str, expected: str) -> None:
    assert changed(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "s.current_date = 1",
        "'current_timestamp'",
        "`now`",
        "now",
        "now(1)",
        "current_time(s.n)",
        "current_date(1)",
        "unix_timestamp('2020-01-01', 'yyyy-MM-dd')",
        "current_date.year",
        "transform(s.a, current_date -> current_date + 1)",
        "(SELECT max(current_date) FROM v)",
        "struct(1 AS current_date)",
        "`struct`(current_date)",
        "builtin.struct(s.a, current_date)",
        "other.builtin.now()",
        "db.now()",
        "/* now() */ 1",
    ],
)
def test_what_may_be_something_else_stays(text: str) -> None:
    assert changed(text) == text


def test_a_column_comes_before_a_function_without_parentheses() -> None:
    assert changed("current_date = current_date()", "current_date") == f"current_date = {DATE}"
    assert changed("`current_timestamp`", "current_timestamp") == "`current_timestamp`"


def test_a_function_that_is_the_sessions_own_stays() -> None:
    assert at_time("now() = current_timestamp()", MICROS, {"now"}, ()) == f"({TIME}) = current_timestamp()"


@pytest.mark.parametrize(
    ("plan", "asks"),
    [
        ("Project [id#1, current_timestamp() AS ts#2]", True),
        ("Filter (d#1 < current_date(Some(UTC)))", True),
        ("Project [unix_timestamp(now(), yyyy-MM-dd HH:mm:ss, Some(UTC), true) AS u#3L]", True),
        ("Project [now#1, current_date#2, unix_timestamp(at#3, yyyy-MM-dd) AS u#4L]", False),
        ("Project [snow() AS c#1]", False),
        ("Project [cast(now as timestamp) AS c#1]", False),
    ],
)
def test_a_plan_tells_whether_it_asks_for_the_time(plan: str, asks: bool) -> None:
    assert asks_time(plan) is asks


@pytest.mark.parametrize(
    ("plan", "has"),
    [
        ("Project [cast(now as timestamp) AS c#1]", True),
        ("Project [try_cast( Today as date) AS c#1]", True),
        ("Project [to_timestamp(now, None, TimestampType, Some(UTC), true) AS c#1]", True),
        ("Project [cast(now#1 as timestamp) AS c#2, cast(now as string) AS d#3]", False),
        ("Project [current_timestamp() AS c#1]", False),
    ],
)
def test_a_plan_tells_whether_a_text_is_cast_to_a_moment(plan: str, has: bool) -> None:
    assert has_moment(plan) is has
