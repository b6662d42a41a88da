"""Conditions that Arrow evaluates are true where Spark says so; DELETE and UPDATE by them end as by a join."""

from __future__ import annotations

import os
import random
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import deltamerge
from deltamerge.errors import ParseError
from deltamerge.merge.plan.exact import exact_condition
from deltamerge.merge.resolve.scope import Scope
from deltamerge.protocol.schema.types import StructType, arrow_schema
from deltamerge.spark.expressions.expression import from_user
from deltamerge.spark.session.schema import from_spark
from deltamerge.spark.sql.seen import seen
from deltamerge.tables import DeltaTable
from deltamerge.worker.skipping.holds import Sides, holds
from tests.e2e.tables import conf, content, make

TYPES = {"a": "bigint", "i": "int", "y": "tinyint", "d": "date", "s": "string", "b": "boolean", "m": "decimal(10,2)"}
TYPES |= {"q": "decimal(38,30)", "o": "decimal(38,38)", "n": "decimal(38,18)"}
WHOLE = ("a", "i", "y")
FUNCTIONS = frozenset({"coalesce", "nvl", "ifnull"})
VALUES: dict[str, list[Any]] = {
    "a": [-(2**63), -101, -1, 0, 1, 7, 107, 2**31, 2**63 - 1],
    "i": [-(2**31), -7, 0, 1, 100, 2**31 - 1],
    "y": [-128, -1, 0, 7, 127],
    "d": [date(1582, 10, 4), date(1969, 12, 31), date(2024, 2, 29), date(9999, 12, 31)],
    "s": ["", " ", "a", "A", "ab", "ß", "é", "e\u0301", "\U0001f600", "'", "\\"],
    "b": [True, False],
    "q": [Decimal("1.000000000000000000000000000001"), Decimal(1), Decimal(5), Decimal("-99999999.5")],
    "o": [Decimal("1e-38"), Decimal(0), Decimal("0.5"), Decimal("-0.5")],
    "n": [Decimal("1e-18"), Decimal(1), Decimal(0), Decimal("99999999999999999999.5"), Decimal(-5)],
    "m": [Decimal("-99999999.99"), Decimal("-0.01"), Decimal("0.00"), Decimal("1.50"), Decimal("99999999.99")],
}


def rows(chance: random.Random, count: int) -> list[tuple[Any, ...]]:
    """Random rows, a fifth of their values null."""
    return [tuple(None if chance.random() < 0.2 else chance.choice(VALUES[name]) for name in TYPES) for _ in range(count)]


def literal(chance: random.Random, name: str) -> str:
    value = chance.choice(VALUES[chance.choice(WHOLE) if name in WHOLE else name])
    if name == "d":
        return f"{chance.choice(['DATE', ''])} '{value}'"
    if name == "s":
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def operand(chance: random.Random, name: str) -> str:
    shown = chance.choice([name, f"t.{name}", f"`{name}`", f"({name})"])
    if chance.random() < 0.2:
        other = chance.choice(WHOLE) if name in WHOLE else name
        last = chance.choice([other, *([] if name == "d" else [literal(chance, name)])])
        return f"{chance.choice(['coalesce', 'nvl', 'IFNULL'])}({shown}, {last})"
    if name in WHOLE and chance.random() < 0.2:
        return f"cast({shown} AS bigint)"
    return f"{shown} % {chance.choice([1, 2, 3, 100, 2**31 - 1])}" if name in WHOLE and chance.random() < 0.3 else shown


def condition(chance: random.Random, depth: int = 3) -> str:
    """A random condition of the subset."""
    if depth and chance.random() < 0.6:
        parts = [condition(chance, depth - 1) for _ in range(chance.choice([1, 2, 2, 3]))]
        if len(parts) == 1:
            return f"NOT ({parts[0]})"
        return "(" + f" {chance.choice(['AND', 'OR'])} ".join(parts) + ")"
    name = chance.choice(list(VALUES))
    left, op = operand(chance, name), chance.choice(["=", "==", "<=>", "<", "<=", ">", ">=", "<>", "!="])
    other = chance.choice(WHOLE) if name in WHOLE else name
    forms = [f"{left} {op} {literal(chance, name)}"] * 3 + [
        f"{literal(chance, name)} {op} {left}",
        f"{left} {op} {operand(chance, other)}",
        f"{left} {chance.choice(['', 'NOT '])}IN ({', '.join(literal(chance, name) for _ in range(3))})",
        f"{left} {chance.choice(['', 'NOT '])}BETWEEN {literal(chance, name)} AND {literal(chance, name)}",
        f"{left} IS {chance.choice(['', 'NOT '])}NULL",
        *(["b", "NOT b"] if name == "b" else []),
    ]
    return chance.choice(forms)


def compiled(text: str, schema: StructType) -> Any:
    return exact_condition(from_user(text).tree, Scope(schema, StructType(()), "t", "s", functions=FUNCTIONS))


@pytest.mark.connect
def test_arrow_finds_the_rows_that_spark_finds(spark: SparkSession) -> None:
    chance = random.Random(os.environ.get("DELTAMERGE_SEED", "conditions"))
    frame = spark.createDataFrame(rows(chance, 400), ", ".join(f"{name} {type}" for name, type in TYPES.items())).alias("t")
    schema = from_spark(frame.schema)
    table = frame.toArrow().cast(arrow_schema(schema))
    texts = [condition(chance) for _ in range(int(os.environ.get("DELTAMERGE_CONDITIONS", "300")))]
    known = {text: found for text in texts if (found := compiled(text, schema)) is not None}
    assert len(known) > 0.6 * len(set(texts))
    for start in range(0, len(known), 100):
        part = list(known)[start : start + 100]
        spark_says = frame.select(
            *[F.coalesce(F.expr(text), F.lit(False)).alias(str(at)) for at, text in enumerate(part)]
        ).toArrow()
        for at, text in enumerate(part):
            assert holds(known[text], Sides(table.num_rows, table)).tolist() == spark_says[str(at)].to_pylist(), text


BEYOND = [
    "a = 1.5",
    "a % 0 = 1",
    "a % -3 = 1",
    "a % i = 1",
    "a % 3 % 2 = 1",
    "a + 1 = 2",
    "abs(a) = 1",
    "a = s",
    "d = '2024'",
    "d = '2024-02-30'",
    "s LIKE 'a%'",
    "s = 1",
    "a IN (1, NULL)",
    "a IN (SELECT 1)",
    "a = NULL",
    "rand() < 0.5",
    "a = 1 AND rand() < 0.5",
    "m = 1.555",
    "q IN (1)",
    "q IN (1, 0.5)",
    "o > 0",
    "o = 0",
    "m = i",
    "a BETWEEN 1 AND i + 1",
    "unknown = 1",
    "a.b = 1",
    "coalesce(d, '2024-01-31') = d",
    "coalesce(a, 1.5) = 1",
    "coalesce(a, s) = 1",
    "coalesce(1, 2) = 1",
    "coalesce(a, NULL) = 1",
    "coalesce(m, 1.555) = 1",
    "cast(a AS int) = 1",
    "cast(s AS bigint) = 1",
    "`coalesce`(a, 1) = 1",
    "nvl2(a, 1, 2) = 1",
]


@pytest.mark.parametrize("text", BEYOND)
def test_what_is_beyond_the_subset_is_left_to_spark(spark: SparkSession, text: str) -> None:
    schema = from_spark(spark.createDataFrame([], ", ".join(f"{name} {type}" for name, type in TYPES.items())).schema)
    assert compiled(text, schema) is None


def test_times_and_floats_beside_literals_and_collations_are_left_to_spark(spark: SparkSession) -> None:
    made = "f double, g float, u timestamp, n timestamp_ntz, c string collate UTF8_LCASE, x struct<y: int>"
    schema = from_spark(spark.createDataFrame([], made).schema)
    for text in ("f IN (1.0)", "g > 1", "g = f", "u > '2024-01-01'", "u = n", "c = 'a'", "x.y = 1"):
        assert compiled(text, schema) is None, text
    for text in ("f = 1.0", "g IS NULL", "u <= u", "n IS NOT NULL"):
        assert compiled(text, schema) is not None, text


NAN, INFINITE = float("nan"), float("inf")
BOTH: dict[str, tuple[str, list[Any]]] = {
    **{name: (TYPES[name], VALUES[name]) for name in ("a", "i", "d", "s", "b", "m")},
    "f": ("double", [0.0, -0.0, 1.5, -1.5, NAN, INFINITE, -INFINITE]),
    "g": ("float", [0.0, -0.0, 1.5, NAN, -INFINITE]),
    "u": ("timestamp", [datetime(1582, 10, 4, 1), datetime(2024, 2, 29, 1, 2, 3, 4), datetime(9999, 12, 30)]),
    "n": ("timestamp_ntz", [datetime(1, 1, 1), datetime(2024, 2, 29, 1, 2, 3, 4), datetime(9999, 12, 30)]),
}


def pair_condition(chance: random.Random, depth: int = 2) -> str:
    """A random condition about columns of both sides."""
    if depth and chance.random() < 0.5:
        parts = [pair_condition(chance, depth - 1) for _ in range(2)]
        return chance.choice(["({} AND {})", "({} OR {})", "NOT ({} OR {})"]).format(*parts)
    name = chance.choice(list(BOTH))
    left, right = chance.sample([f"t.{name}", f"s.{name}"], 2)
    op = chance.choice(["=", "<=>", "<", "<=", ">", ">=", "<>"])
    if name in ("a", "i") and chance.random() < 0.3:
        return f"{left} {op} {chance.choice(['t', 's'])}.{'i' if name == 'a' else 'a'}"
    if chance.random() < 0.3:
        last = {"a": "0", "i": "-5", "f": "0.1", "s": "''", "b": "false", "m": "0", "d": "DATE'2024-02-29'"}.get(name, left)
        return f"coalesce({left}, {last}) {op} coalesce({right}, {last})"
    if name == "f" and chance.random() < 0.4:
        return f"{left} {op} {chance.choice(['0', '1.5', '-1.5', '2', '0.1'])}"
    return chance.choice([f"{left} {op} {right}"] * 3 + [f"{left} IS NULL", f"{left} BETWEEN {right} AND {left}"])


@pytest.mark.connect
def test_arrow_finds_the_pairs_that_spark_finds(spark: SparkSession) -> None:
    chance = random.Random(os.environ.get("DELTAMERGE_SEED", "pairs"))
    ddl = ", ".join(f"{name} {type}" for name, (type, _) in BOTH.items())
    sides = [[tuple(chance.choice([None, *values]) for _, values in BOTH.values()) for _ in range(24)] for _ in "ts"]
    target, source = (spark.createDataFrame(rows, ddl) for rows in sides)
    schema = from_spark(target.schema)
    tables = [frame.toArrow().cast(arrow_schema(schema)) for frame in (target, source)]
    pairs = [(row, row * 7 % 24) for row in range(24)] + [(row, row * 5 % 24) for row in range(24)]
    chosen = [table.take([pair[side] for pair in pairs]) for side, table in enumerate(tables)]
    rows = Sides(len(pairs), *chosen)
    numbered = [spark.createDataFrame(rows.append_column("at", pa.array(range(len(pairs))))) for rows in chosen]
    both = numbered[0].alias("t").join(numbered[1].alias("s"), F.expr("t.at = s.at"))
    texts = list({pair_condition(chance) for _ in range(int(os.environ.get("DELTAMERGE_CONDITIONS", "120")))})
    scope = Scope(schema, schema, "t", "s", functions=FUNCTIONS)
    known = [exact_condition(from_user(text).tree, scope) for text in texts]
    for start in range(0, len(texts), 100):
        part = texts[start : start + 100]
        columns = [F.coalesce(F.expr(text), F.lit(False)).alias(str(at)) for at, text in enumerate(part)]
        said = both.select(F.col("t.at").alias("at"), *columns).orderBy("at").toArrow()
        for at, text in enumerate(part):
            found = known[start + at]
            assert found is not None, text
            assert holds(found, rows).tolist() == said[str(at)].to_pylist(), text


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("spark.sql.ansi.enforceReservedKeywords", "user = 'a'"),
        ("spark.sql.parser.escapedStringLiterals", "s = R'a'"),
        ("spark.sql.parser.escapedStringLiterals", 's = R"a"'),
        ("spark.sql.ansi.doubleQuotedIdentifiers", 's = "a"'),
    ],
)
def test_what_a_setting_reads_otherwise_is_left_to_spark(spark: SparkSession, key: str, text: str) -> None:
    schema = from_spark(spark.createDataFrame([], "user string, s string").schema)
    with conf(spark, {key: "false"}):
        assert text == 's = R"a"' or compiled(text, schema) is not None
    with conf(spark, {key: "true"}):
        assert exact_condition(seen(text), Scope(schema, StructType(()), "t", "s")) is None


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("t.order = s.order", {"spark.sql.ansi.enabled": "true", "spark.sql.ansi.enforceReservedKeywords": "true"}),
        ("t.order = s.order;", {}),
    ],
)
def test_a_condition_that_spark_does_not_parse_is_refused(
    spark: SparkSession, tmp_path: Path, text: str, settings: dict[str, str]
) -> None:
    """A Connect client parses none: where Spark isn't asked about a condition nobody would say so."""
    table = make(spark, tmp_path / "t", "order int, w string", [(1, "a")])
    source = spark.createDataFrame([(1, "b")], "order int, w string").alias("s")
    with conf(spark, settings), pytest.raises(ParseError):
        table.merge(source, text).whenMatchedUpdateAll().execute()


CHANGES = ["DELETE FROM {t} AS t WHERE {c}", "UPDATE {t} AS t SET i = 5, s = concat(s, '!') WHERE {c}"]


@pytest.mark.parametrize("vectors", [False, True], ids=["copied", "vectors"])
@pytest.mark.parametrize("partitioned", [[], ["y", "b"]], ids=["flat", "partitioned"])
def test_changes_by_conditions_end_as_by_a_join(
    spark: SparkSession, tmp_path: Path, vectors: bool, partitioned: list[str]
) -> None:
    chance = random.Random(f"changes {vectors} {partitioned}")
    frame = spark.createDataFrame(rows(chance, 200), ", ".join(f"{name} {type}" for name, type in TYPES.items())).repartition(2)
    properties = {"delta.enableDeletionVectors": str(vectors).lower(), "delta.enableChangeDataFeed": "true"}
    paths = [str(tmp_path / name) for name in ("arrow", "join")]
    for path in paths:
        deltamerge.write(frame, path, partition_by=partitioned, properties=properties)
    schema = from_spark(frame.schema)
    done = 0
    while done < 6:
        text = condition(chance, 2)
        if compiled(text, schema) is None:
            continue
        statement, done = CHANGES[done % 2], done + 1
        deltamerge.sql(spark, statement.format(t=f"delta.`{paths[0]}`", c=text))
        with conf(spark, {"spark.deltamerge.strategy": "spark_join"}):
            deltamerge.sql(spark, statement.format(t=f"delta.`{paths[1]}`", c=text))
        assert content(spark, Path(paths[0])) == content(spark, Path(paths[1])), text
    one, other = (DeltaTable.forPath(spark, path).history().collect() for path in paths)
    assert [counts(row) for row in one] == [counts(row) for row in other]
    feeds = [deltamerge.read_changes(spark, path, 1).drop("_commit_timestamp") for path in paths]
    assert feeds[0].exceptAll(feeds[1]).count() == feeds[1].exceptAll(feeds[0]).count() == 0


def counts(row: Any) -> dict[str, str]:
    """What a commit says of rows."""
    return {name: value for name, value in row.operationMetrics.items() if name.endswith("Rows")}


def test_partitions_leave_without_a_look_at_their_files(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    frame = spark.range(100).selectExpr("id", "id % 4 AS p", "cast(nullif(id % 3, 0) AS string) AS q")
    deltamerge.write(frame, str(path), partition_by=["p", "q"], properties={"delta.enableDeletionVectors": "true"})
    table = DeltaTable.forPath(spark, str(path))
    table.delete("id = 1")
    for file in path.rglob("*.parquet"):
        if "_delta_log" not in file.parts:
            file.unlink()
    table.delete("p = 1 OR q IS NULL")
    gone = table.history(1).collect()[0].operationMetrics
    expected = [id for id in range(100) if id != 1 and (id % 4 == 1 or id % 3 == 0)]
    assert (gone["numDeletedRows"], gone["numAddedFiles"], gone["numCopiedRows"]) == (str(len(expected)), "0", "0")
    table.delete()
    assert table.history(1).collect()[0].operationMetrics["numDeletedRows"] == str(99 - len(expected))
    assert content(spark, path) == []


def test_partitions_of_days_that_python_does_not_know(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    days = spark.sql("SELECT id, date_add(DATE'9999-12-31', int(id)) AS d FROM range(3)")
    deltamerge.write(days, str(path), partition_by=["d"])
    deltamerge.sql(spark, f"DELETE FROM delta.`{path}` WHERE d > DATE'9999-12-31'")
    assert [row.id for row in deltamerge.read(spark, str(path)).select("id").collect()] == [0]


def test_an_unknown_column_is_told_among_the_table_s_own(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    deltamerge.write(spark.range(1), str(path))
    with pytest.raises(AnalysisException) as caught:
        deltamerge.sql(spark, f"DELETE FROM delta.`{path}` WHERE ix = 1")
    assert "Cannot resolve ix in search condition given columns id." in str(caught.value)
    with pytest.raises(AnalysisException, match=r"given columns t\.id\."):
        deltamerge.sql(spark, f"UPDATE delta.`{path}` AS t SET id = nope")
