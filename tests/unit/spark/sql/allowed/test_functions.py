"""What SQL text of a table's metadata may call."""

from __future__ import annotations

import pytest

from deltamerge.spark.sql.allowed.functions import OF_CHECKS, OF_DEFAULTS, OF_ROWS, forbidden, lacking
from deltamerge.spark.sql.allowed.operands import Columns, Reading, strange_name
from deltamerge.spark.sql.text import tokens_of


@pytest.mark.parametrize(
    "text",
    [
        "upper(b)",
        "CAST(a AS DECIMAL(10, 2))",
        "a IN (1, 2) AND (b LIKE ANY ('x%')) OR NOT (c)",
        "builtin.upper(b) || System.Builtin.lower(b)",
        "EXTRACT(YEAR FROM (ts))",
        "TRIM(BOTH FROM b)",
        "CASE WHEN (a > 1) THEN (2) ELSE (3) END BETWEEN (1) AND (4)",
        "transform(xs, x -> (x + 1))[0]",
        "'java_method(' = b -- reflect(b)",
        "`select` > (`from`)",
        "a > (from + 1)",
        "(select) > 1 AND (values, b) = (1, 'x') AND size(values[0]) > 1 AND (table.a <> 1)",
        "map(a, b)['using'] IS NULL AND using = 1 AND (map IS NULL) AND (map('a', (b))['a'] = (reduce(xs, 0, (x, y) -> x + y)))",
        'b IN ("A", "b(") OR ("x") = b',
        "b = '$5' OR b LIKE '{$%'",
    ],
)
def test_functions_of_a_row(text: str) -> None:
    assert forbidden(text, OF_ROWS) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("java_method('java.lang.System', 'getProperty', 'user.home')", "java_method"),
        ("upper(REFLECT ('x', 'y'))", "REFLECT"),
        ("`try_reflect`/* */('x', 'y')", "try_reflect"),
        ("a > 1 OR input_file_name() = b", "input_file_name"),
        ("my_function(b)", "my_function"),
        ("`end`(b)", "end"),
        ("spark_catalog.default.upper(b)", "spark_catalog.default.upper"),
        ("IDENTIFIER('reflect')('x', 'y')", "IDENTIFIER"),
        ("from_avro(b, '{}', map('avroSchemaUrl', 'file:/x'))", "from_avro"),
        ("from_xml(b, 'a INT', map('rowValidationXSDPath', '/x'))", "from_xml"),
        ("a > (SELECT max(a) FROM parquet.`/other`)", "a subquery"),
        ("EXISTS (FROM t)", "a subquery"),
        ("a IN (TABLE t)", "a subquery"),
        ("(SELECT * FROM text.`/x`)", "a subquery"),
        ("(SELECT -a FROM t)", "a subquery"),
        ("(SELECT (a) FROM t)", "a subquery"),
        ("(SELECT 'x')", "a subquery"),
        ("(SELECT/**/~a FROM t)", "a subquery"),
        ("(SELECT /*+ BROADCAST(t) */ a FROM t)", "a subquery"),
        ("EXISTS (FROM (t))", "a subquery"),
        ("b IN (WITH x AS (TABLE t) TABLE x)", "a subquery"),
        ("(VALUES (1))", "a subquery"),
        ("SELECT * FROM t", "a subquery"),
        ("a = (VALUES -1)", "a subquery"),
        ("(MAP value USING 'sh' AS b FROM text.`/x`)", "a subquery"),
        ("(MAP (value) USING 'sh' AS b FROM text.`/x`)", "a subquery"),
        ("(map * using 'sh' FROM t)", "a subquery"),
        ('(REDUCE a, b USING "sh" FROM t)', "a subquery"),
        ("\"java_method\"('java.lang.System', 'getProperty', 'user.home')", "java_method"),
        ("\"java_method\" /* */ ('x')", "java_method"),
        ('"default".upper(b)', "default.upper"),
        ('"end"(b)', "end"),
        ("b = '${env:SECRET}'", "${env:SECRET}"),
        ("b = ${spark.hadoop.fs.s3a.secret.key}", "${spark.hadoop.fs.s3a.secret.key}"),
        ("rand() < 1", "rand"),
        ("a > $b", "a > $b"),
        ("a > 1 /*", "a > 1 /*"),
        ("""'${}'||"}'||(SELECT/**/'x')||'"||'"'""", "${}"),
        ("b = '${'", "${'"),
        ("current_date() > d", "current_date"),
    ],
)
def test_what_is_none_of_them(text: str, found: str) -> None:
    assert forbidden(text, OF_ROWS) == found


def test_a_check_may_ask_for_the_time_and_a_default_for_the_user() -> None:
    assert forbidden("current_date() > d", OF_CHECKS) is None
    assert forbidden("current_user()", OF_CHECKS) == "current_user"
    assert forbidden("current_user()", OF_DEFAULTS) is None


@pytest.mark.parametrize(
    "text",
    [
        "A > 1 AND `odd NAME` <> b AND s.v = session",
        "-a + +b * ~a / (a) % 2 || 'x' 'y' <=> b DIV 3 & 1 | 2 ^ 3 << 1 >> 2 >>> 3 = b",
        "CAST(a AS DECIMAL(10, 2)) = try_cast(s.w AS STRUCT<v: INT, w: ARRAY<STRING>>).v",
        "a::STRING = b::DECIMAL(3, 1)::STRUCT<v: INT>.v AND a::INTERVAL DAY TO SECOND IS NOT NULL",
        "transform(xs, x -> x + a)[0] = aggregate(xs, 0, (acc, x) -> acc + x, acc -> acc * a) AND exists(xs, x -> x IS NULL)",
        "transform(xs, x -> filter(xs, y -> y > x))[0][1] = `a`",
        "EXTRACT(dow FROM ts) = 1 AND TRIM(BOTH FROM b) = TRIM(LEADING 'x' FROM b) AND trim(b) = trim(TRAILING (b) FROM b)",
        "substring(b FROM 1 FOR 2) = overlay(b PLACING 'x' FROM 1 FOR 2) AND position('x' IN b) > 0",
        "dateadd(MONTH, 1, ts) > date_add(ts, 1) AND timestampdiff(day, ts, ts) = 1 AND date_add(day, 1) > ts",
        "ts > DATE '2020-01-01' AND ts > TIMESTAMP_NTZ '2020-01-01 00:00:00' AND X'1F' = b",
        "ts - INTERVAL 1 DAY 2 HOURS > ts + INTERVAL '1-2' YEAR TO MONTH AND ts - INTERVAL -3 weeks > ts + INTERVAL '1 day'",
        "CASE WHEN a > 1 THEN b WHEN NOT a = 1 THEN 'x' ELSE NULL END = CASE a WHEN 1 THEN TRUE ELSE false END",
        "a NOT IN (1, 2) AND b NOT LIKE 'x!%' ESCAPE '!' AND a NOT BETWEEN 1 AND 2 AND b RLIKE 'x' AND b ILIKE ANY ('x', b)",
        "a IS NOT NULL AND a IS NULL OR a IS TRUE OR a IS NOT FALSE OR a IS UNKNOWN OR a IS NOT DISTINCT FROM b OR NOT not",
        "struct(a, b AS c, a d).d = named_struct('v', a).v AND (a AS x, b).x = 1",
        "mask(b, lowerChar => 'q') COLLATE UTF8_LCASE = b AND s:v.w[0] = 1 AND s:['v'] = 2",
        "NOT (select > 1) AND from = 1 AND values[0] = (table) AND day = using",
        "current_date() > ts AND current_timestamp > ts",
        "a BETWEEN 1 AND 2 AND NOT (a BETWEEN -1 AND CASE WHEN a BETWEEN 1 AND 2 AND NOT b THEN 1 END AND NOT b = 1)",
        "CASE (a) WHEN 1 THEN CASE WHEN NOT b THEN 1 END ELSE 2 END + 1 > 2 OR not(a) OR b = not(a)",
        "TRIM(BOTH FROM b) = trim(trim(b) FROM TRIM(TRAILING FROM b)) AND timediff(HOUR, ts, ts) = dateadd(QUARTER, 1, ts)",
        "b::TIMESTAMP WITHOUT TIME ZONE = b::TIMESTAMP WITH LOCAL TIME ZONE AND b::INTERVAL = b::INTERVAL DAY",
        "case IS NULL AND case BETWEEN 1 AND 2 AND case LIKE 'x' AND case - 1 = interval - 1 AND trim(both) = both",
        "",
    ],
)
def test_names_of_a_row(text: str) -> None:
    columns = Columns([*"a b xs ts select from values table using map day not s session case interval both".split(), "Odd name"])  # noqa: SIM905
    assert strange_name(tokens_of(text) or [], columns, {"current_timestamp"}) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("v", "v"),
        ("concat(system.session.v)", "system.session.v"),
        ("a || session . `v`", "session.`v`"),
        ("transform(xs, v -> v + 1)[0] + v", "v"),
        ("aggregate(xs, v, (acc, v) -> acc + v)", "v"),
        ("aggregate(xs, 0, (acc, v) -> acc + v, acc -> acc + v)", "v"),
        ("transform(xs, (v, n) -> v)[n]", "n"),
        ("current_user", "current_user"),
        ("current_timestamp", "current_timestamp"),
        ("b = user", "user"),
        ("'v' = `v`", "`v`"),
        ("a IN (1, v)", "v"),
        ("a BETWEEN v AND 1", "v"),
        ("CASE v WHEN a THEN b END", "v"),
        ("CASE WHEN a THEN b ELSE v END", "v"),
        ("NOT v", "v"),
        ("a IS DISTINCT FROM v", "v"),
        ("CAST(v AS INT)", "v"),
        ("xs[v]", "v"),
        ("v::STRING", "v"),
        ("a::STRING || v", "v"),
        ("EXTRACT(YEAR FROM v)", "v"),
        ("EXTRACT(year)", "year"),
        ("TRIM(BOTH v FROM b)", "v"),
        ("trim(both)", "both"),
        ("TRIM(leading, b)", "leading"),
        ("substring(b FROM v)", "v"),
        ("date_add(month, 1)", "month"),
        ("dateadd(month, f(1, 2))", "month"),
        ("mask(b, lowerChar => v)", "v"),
        ("struct(v AS a)", "v"),
        ("struct(v a)", "v"),
        ("date > '2020-01-01'", "date"),
        ("interval = 1", "interval"),
        ("INTERVAL 1 DAY + v", "v"),
        ("INTERVAL '1' DAY v", "v"),
        ("s:v[v]", "v"),
        ("struct(*)", "*"),
        ("a b", "b"),
        ("a 1", "1"),
        ("a[0] (1)", "("),
        ("a = :x", ":"),
        ("(SELECT * FROM (a))", "SELECT"),
        ("a + FROM (a)", "FROM"),
        ("a)", ")"),
        ("f(", "("),
        ("case - 1", "case"),
        ("case IN ('x') OR CASE WHEN a THEN b END", "case"),
        ("case a", "case"),
        ("struct(case when, b then, xs end)", ","),
        ("CASE WHEN a THEN case - 1 END", "CASE"),
        ("CASE a END", "CASE"),
        ("CASE WHEN (a THEN b END)", "CASE"),
        ("interval - 1", "interval"),
        ("interval + '1'", "interval"),
        ("interval - 1 quarter", "interval"),
        ("xs[interval - 1]", "interval"),
        ("interval 1", "interval"),
        ("trim(both - 1)", "both"),
        ("trim(leading IN ('x'))", "leading"),
        ("trim((trailing FROM b))", "trailing"),
        ("b = not a", "not"),
        ("struct(b = not a)", "not"),
        ("b = not IN ('x')", "not"),
        ("1 + not - 1", "not"),
        ("~ not xs", "not"),
        ("a BETWEEN 1 AND not b", "not"),
        ("a BETWEEN CASE WHEN a AND b THEN 1 END AND not b", "not"),
        ("xs[not a]", "not"),
        ("substring(b FROM not a)", "not"),
        ("date_add(day, b::MAP<STRING, INT>['x'])", "day"),
        ("all(b)", "all"),
        ("any(a > 1)", "any"),
        ("as(b)", "as"),
        ("end(b)", "end"),
        ("interval(b)", "interval"),
        ("null(b)", "null"),
        ("try_cast(b)", ")"),
        ("cast(a, b)", ")"),
        ("timestampadd(b)", "timestampadd"),
        ("timediff(a, b, b)", "timediff"),
        ("a NOT b", "NOT"),
        ("a end", "end"),
        ("! not", "not"),
        ("a +", "+"),
        ("a OR", "OR"),
        ("position(not IN (b))", "not"),
        ("not LIKE 'x'", "not"),
        ("NOT rlike + 1", "NOT"),
        ("trim(from - 1)", "from"),
        ("transform(xs, x -> not)", "not"),
        ("b LIKE ANY (k => a)", "k"),
        ("case()", "case"),
        ("(a]", "]"),
        ("a + )", ")"),
        ("/*+ x */ a", "/*+"),
        ("_metadata.file_path", "_metadata.file_path"),
    ],
)
def test_names_of_no_row(text: str, found: str) -> None:
    assert strange_name(tokens_of(text) or [], Columns(["a", "b", "xs", "s"]), ()) == found


def test_names_are_read_as_the_session_reads_them() -> None:
    assert forbidden("A > 1", OF_ROWS, Columns(["a"])) is None
    assert forbidden("A > 1", OF_ROWS, Columns(["a"], Reading(case_sensitive=True))) == "A"
    assert forbidden("transform(xs, X -> x)", OF_ROWS, Columns(["xs"], Reading(case_sensitive=True))) == "x"
    assert forbidden('a > "v"', OF_ROWS, Columns(["a"])) is None
    assert forbidden('a > "v"', OF_ROWS, Columns(["a"], Reading(double_quotes=True))) == '"v"'
    assert forbidden('"a" > date "v"', OF_ROWS, Columns(["a"], Reading(double_quotes=True))) == "date"
    assert forbidden("""'x' "a" """, OF_ROWS, Columns(["a"], Reading(double_quotes=True))) == '"a"'


def test_a_default_names_no_column_and_may_ask_for_the_user() -> None:
    assert forbidden("a", OF_DEFAULTS, Columns(())) == "a"
    assert forbidden("current_user", OF_DEFAULTS, Columns(())) is None
    assert forbidden("current_date", OF_CHECKS, Columns(())) is None
    assert forbidden("current_user", OF_CHECKS, Columns(())) == "current_user"


def test_a_session_may_read_names_otherwise() -> None:
    reserved, patterns = Reading(reserved=True), Reading(patterns=True)
    assert forbidden("user = b", OF_CHECKS, Columns(["user", "b"])) is None
    assert forbidden("user = b", OF_CHECKS, Columns(["user", "b"], reserved)) == "user"
    assert forbidden("`user` = b", OF_CHECKS, Columns(["user", "b"], reserved)) is None
    assert forbidden("struct(`.*`)", OF_ROWS, Columns([".*"])) is None
    assert forbidden("struct(`.*`)", OF_ROWS, Columns([".*"], patterns)) == "`.*`"


@pytest.mark.parametrize(
    ("column", "text"), [("i\u0307", "`\u0130`"), ("\u2c5f", "`\u2c2f`"), ("\ua7c1", "`\ua7c0`"), ("\u00e4", "`\u00c4`")]
)
def test_letters_beyond_ascii_are_told_apart_by_case(column: str, text: str) -> None:
    assert forbidden(text, OF_ROWS, Columns([column])) == text
    assert forbidden(f"`{column}`", OF_ROWS, Columns([column])) is None
    assert forbidden("`GR\u00f6\u00dfE` > 1", OF_ROWS, Columns(["gr\u00f6\u00dfe"])) is None


def test_functions_that_ask_elsewhere_are_none() -> None:
    assert forbidden("xpath_string(a, 'x')", OF_DEFAULTS) == "xpath_string"
    assert forbidden("xpath(a, 'x')", OF_DEFAULTS) == "xpath"


def test_a_version_of_spark_has_its_own_functions() -> None:
    assert {"vector_norm", "localtime", "quote"} <= lacking("4.0.5") & OF_DEFAULTS
    assert lacking("4.1.0") == lacking("3.5.7") == lacking("4.0.0")
    assert "vector_norm" not in lacking("4.2.0") >= {"localtime", "unix_nanos"}
    assert lacking("4.3.0") == lacking("5.0.0-preview1") == frozenset()
    assert lacking("4.0.0") <= OF_DEFAULTS
