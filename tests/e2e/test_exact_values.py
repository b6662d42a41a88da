"""Values that Arrow evaluates are those that Spark makes; what exceeds a type is Spark's to say."""

from __future__ import annotations

import os
import random
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import deltamerge
from deltamerge.merge.plan.exact_values import exact_value
from deltamerge.merge.resolve.resolve import ColumnValue
from deltamerge.merge.resolve.scope import Scope
from deltamerge.protocol.schema.types import StructType, arrow_schema
from deltamerge.protocol.values.computed import Value
from deltamerge.spark.expressions.expression import from_user
from deltamerge.spark.session.schema import from_spark
from deltamerge.worker.join.computed import computed_values
from deltamerge.worker.skipping.holds import Sides
from tests.e2e.tables import conf, content, make

TYPES = {"a": "bigint", "i": "int", "f": "double", "y": "tinyint", "m": "decimal(10,2)", "s": "string", "b": "boolean"}
TYPES |= {"d": "date", "g": "float", "c": "string collate UTF8_LCASE"}
VALUES: dict[str, list[Any]] = {
    "a": [-(2**40), -1, 0, 7, 2**40],
    "i": [-1000, -1, 0, 1, 2**31 - 1],
    "f": [0.0, -0.0, 0.1, -1.5, 1e300, float("nan"), float("inf")],
    "y": [-128, 0, 127],
    "m": [Decimal("1.50"), Decimal("-99999999.99")],
    "s": ["", "a"],
    "b": [True, False],
    "d": [date(2024, 2, 29)],
    "g": [0.5],
    "c": ["A"],
}
LITERALS = {
    "a": ["0", "1", "-3", "2147483648", "(7)"],
    "i": ["0", "1", "-3", "1000", "(7)"],
    "f": ["0", "1", "-3", "0.1", "-1.5", "123456789.125", "-0.0"],
    "y": ["0", "-128", "127"],
    "m": ["0", "1", "1.5", "-0.25", "99999999.99"],
    "s": ["''", "'x y'"],
    "b": ["true", "false"],
    "d": ["DATE'2024-01-31'"],
}
BEYOND = {
    "a": ["2147483647 + 1", "a + (1 + 2)", "a / 2", "a % 3", "abs(a)", "a + '1'", "s", "a + m", "(SELECT 1)", "i + 2147483648"],
    "i": ["i * 0 * i", "i + 1 + 1", "i + 2147483648", "y + 1", "1.5", "'1'", "cast(a AS int)", "coalesce(i, 1.5)", "a"],
    "f": ["f / 2", "f + g", "'1'", "rand()", "f + (a + i)", "cast(g AS double)", "cast(s AS double)"],
    "y": ["y + 1", "128", "1.5", "i", "coalesce(y, 1)"],
    "m": ["m + 1", "1.555", "100000000", "i"],
    "s": [
        "concat(s, '!')",
        "coalesce(s, a)",
        "nullif(s, 'a')",
        "if(rand() < 1, s, 'a')",
        "cast(f AS string)",
        "cast(s AS char(2))",
    ],
    "d": ["'2024-01-31'", "d + 1"],
    "g": ["g + 1", "0.1"],
    "c": ["'a'"],
}


CHOICES = [
    "CASE WHEN b THEN {0} WHEN a > 0 THEN {1} ELSE {2} END",
    "CASE WHEN i IS NULL THEN {0} WHEN f = f THEN {1} END",
    "CASE WHEN NOT b THEN CASE WHEN s = 'a' THEN {1} ELSE NULL END ELSE t.{0} END",
    "coalesce({0}, {1})",
    "NVL(t.{0}, {2})",
    "coalesce(`{0}`, {0}, ({1}))",
    "if(coalesce(a, i, 5) > 3, {1}, ifnull({0}, {2}))",
]
# Values of other types, or with such in them, by column.
MIXED = {
    "a": ["i", "y", "i + 1", "a + i", "y - a", "a * cast(y AS bigint)", "coalesce(i, 7)", "a + coalesce(a, 0)", "int(i)", "1L"],
    "i": [
        "y",
        "i + y",
        "cast(y AS int)",
        "if(b, y, y)",
        "i * CASE WHEN b THEN 2 ELSE 3 END",
        "(CASE WHEN b THEN 2 ELSE 3 END) + i",
    ],
    "f": [
        "a",
        "f + a",
        "f * i - y",
        "cast(a AS double)",
        "coalesce(f, 0)",
        "i * i",
        "cast(1 AS double)",
        "f - coalesce(f, 0.1)",
        "-0.0",
        "coalesce(f, -0)",
    ],
    "s": ["a", "7", "cast(a AS string)", "cast(b AS string)", "coalesce(s, '')", "i + 1", "coalesce(cast(y AS string), s)"],
    "m": ["coalesce(m, 1.5)", "coalesce(m, m)"],
    "y": ["coalesce(y, y)"],
    "d": ["coalesce(d, DATE'2024-01-31')", "CASE WHEN b THEN d END"],
    "g": ["coalesce(g, g)"],
    "b": ["coalesce(b, false)", "if(b IS NULL, true, b)"],
}
# Those of them that are Spark's. sqlglot does not tell CHAR(2) from STRING.
LEFT = {"int(i)", "1L", "cast(1 AS double)", "cast(a AS string)", "cast(b AS string)", "coalesce(cast(y AS string), s)"}
FUNCTIONS = frozenset({"coalesce", "nvl", "ifnull", "if"})


def expression(chance: random.Random, name: str, depth: int = 2) -> str:
    """A random value for a column."""
    if depth == 2 and chance.random() < 0.4:
        return chance.choice(CHOICES).format(name, *(expression(chance, name, 0) for _ in range(2)))
    if name not in ("a", "i", "f"):
        return chance.choice(LITERALS[name])
    if depth and chance.random() < 0.7:
        sides = [expression(chance, name, depth - 1 if name == "f" else 0), chance.choice([name, f"t.{name}", f"(`{name}`)"])]
        chance.shuffle(sides)
        return f"({sides[0]} {chance.choice('+-*')} {sides[1]})"
    return chance.choice([name, *LITERALS[name]])


def compiled(frame: Any, texts: list[tuple[str, str]]) -> list[Value | None]:
    """For each column and value what Arrow evaluates."""
    schema = from_spark(frame.schema)
    types = [field.dataType for field in frame.select(*[F.expr(text) for _, text in texts]).schema.fields]
    scope = Scope(schema, StructType(()), "t", "s", functions=FUNCTIONS)
    found = []
    for (name, text), type in zip(texts, types, strict=True):
        field = schema.find(name, case_sensitive=True)
        assert field is not None
        found.append(exact_value(ColumnValue(name, from_user(text), type), field, scope))
    return found


@pytest.mark.connect
def test_arrow_makes_the_values_that_spark_makes(spark: SparkSession) -> None:
    chance = random.Random(os.environ.get("DELTAMERGE_SEED", "values"))
    rows = [tuple(chance.choice([None, *VALUES[name]]) for name in TYPES) for _ in range(100)]
    frame = spark.createDataFrame(rows, ", ".join(f"{name} {type}" for name, type in TYPES.items())).alias("t")
    table = frame.toArrow().cast(arrow_schema(from_spark(frame.schema)))
    texts = list({(name, expression(chance, name)) for name in chance.choices(list(LITERALS), k=150)})
    made = {}
    for (name, text), value in zip(texts, compiled(frame, texts), strict=True):
        # Beside a literal a decimal or a tinyint has a wider type.
        assert value is not None or "CASE" in text or name in ("m", "y") or text.strip("(`t.)") == name, f"{name} = {text}"
        found = None if value is None else computed_values({"value": value}, Sides(table.num_rows, table))
        if found is not None:
            made[name, text] = found["value"]
    assert len(made) > 0.4 * len(texts)
    assert_made(frame, made)


@pytest.mark.connect
def test_arrow_makes_the_values_of_other_types_that_spark_makes(spark: SparkSession) -> None:
    chance = random.Random(os.environ.get("DELTAMERGE_SEED", "mixed"))
    rows = [tuple(chance.choice([None, *VALUES[name]]) for name in TYPES) for _ in range(100)]
    rows = [tuple(value if name != "i" or value is None else value % 1000 for name, value in zip(TYPES, row)) for row in rows]  # noqa: B905
    frame = spark.createDataFrame(rows, ", ".join(f"{name} {type}" for name, type in TYPES.items())).alias("t")
    table = frame.toArrow().cast(arrow_schema(from_spark(frame.schema)))
    texts = [(name, text) for name, known in MIXED.items() for text in known]
    made = {}
    for (name, text), value in zip(texts, compiled(frame, texts), strict=True):
        found = None if value is None else computed_values({"value": value}, Sides(table.num_rows, table))
        if found is not None:
            made[name, text] = found["value"]
    assert {text for _, text in texts} - {text for _, text in made} == LEFT
    assert_made(frame, made)


def assert_made(frame: Any, made: dict[tuple[str, str], Any]) -> None:
    """Spark makes these values for these columns, too."""
    casts = [F.expr(text).cast(TYPES[name]).alias(str(at)) for at, (name, text) in enumerate(made)]
    said = frame.select(*casts).toArrow()
    for at, ((name, text), values) in enumerate(made.items()):
        assert bits(values) == bits(said[str(at)]), f"{name} = {text}"


def bits(values: Any) -> list[Any]:
    """Values, numbers with a point by their bits but for those that are none."""
    return [
        value if not isinstance(value, float) else "nan" if value != value else np.float64(value).tobytes()
        for value in values.to_pylist()
    ]


def test_what_is_beyond_the_subset_is_left_to_spark(spark: SparkSession) -> None:
    frame = spark.createDataFrame([], ", ".join(f"{name} {type}" for name, type in TYPES.items())).alias("t")
    texts = [(name, text) for name, beyond in BEYOND.items() for text in beyond]
    for (name, text), value in zip(texts, compiled(frame, texts), strict=True):
        assert value is None, f"{name} = {text}"


@pytest.mark.connect
def test_an_update_by_values_ends_as_by_a_join(spark: SparkSession, tmp_path: Path) -> None:
    changes = "a = a * 2, i = 7, f = f + 0.1, m = 1, s = 'x', y = NULL"
    schema = "id int, a bigint, i int, f double, m decimal(10,2), s string, y tinyint"
    for name, strategy in (("arrow", "auto"), ("join", "spark_join")):
        make(spark, tmp_path / name, schema, [(n, n, n, n / 3, None, "s", 1) for n in range(5)], vectors=True)
        with conf(spark, {"spark.deltamerge.strategy": strategy}):
            deltamerge.sql(spark, f"UPDATE delta.`{tmp_path / name}` SET {changes} WHERE id > 2")
    assert content(spark, tmp_path / "arrow") == content(spark, tmp_path / "join")
    exceeding = f"UPDATE delta.`{tmp_path / 'arrow'}` SET i = i + 2147483647 WHERE id = 4"
    with conf(spark, {"spark.sql.ansi.enabled": "true"}), pytest.raises(PySparkException, match="OVERFLOW"):
        deltamerge.sql(spark, exceeding)
    with conf(spark, {"spark.sql.ansi.enabled": "false"}):
        deltamerge.sql(spark, exceeding)
    assert {row[2] for row in content(spark, tmp_path / "arrow")} == {0, 1, 2, 7, 7 + 2147483647 - 2**32}
