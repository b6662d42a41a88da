"""What SQL text of a table's metadata may call."""

from __future__ import annotations

import pytest

from deltamerge.spark.sql.functions import OF_CHECKS, OF_DEFAULTS, OF_ROWS, forbidden


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
        ("current_date() > d", "current_date"),
    ],
)
def test_what_is_none_of_them(text: str, found: str) -> None:
    assert forbidden(text, OF_ROWS) == found


def test_a_check_may_ask_for_the_time_and_a_default_for_the_user() -> None:
    assert forbidden("current_date() > d", OF_CHECKS) is None
    assert forbidden("current_user()", OF_CHECKS) == "current_user"
    assert forbidden("current_user()", OF_DEFAULTS) is None
