"""CHAR in expressions: whichever way a merge runs, Spark's own answer, which compares as if both sides had their blanks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import deltamerge
from deltamerge.exceptions import DeltaInvariantViolationException
from deltamerge.tables import DeltaTable
from tests.e2e.tables import conf, content

COMPARED = [
    "t.c = 'ab'",
    "s.c = 'ab'",
    "'ab' = t.c",
    "t.c = s.c",
    "s.c = t.c",
    "t.c <=> s.c",
    "t.c <> s.c",
    "t.c < s.c",
    "t.c IN ('ab', 'x')",
    "s.c IN ('ab', 'q')",
    "t.d = t.c",
    "d = 'ab'",
    "w = t.c",
    "t.c = w",
    "length(t.c)",
    "length(s.c)",
    "concat(t.c, '|', s.c)",
    "CASE t.c WHEN 'ab' THEN 1 END",
    "nullif(t.c, 'ab')",
    "t.c BETWEEN 'ab' AND 'ab'",
    "t.c LIKE 'ab'",
    "t.n.c = 'ab'",
    "t.n.c = t.c",
    "coalesce(t.c, 'x') = 'ab'",
]
TEXTS = [f"coalesce(cast({text} AS string), '-')" for text in COMPARED]
VALUE = f"concat_ws(',', {', '.join(TEXTS)})"
SETTINGS: dict[str, dict[str, str]] = {
    "padded": {},
    "not padded": {"spark.sql.readSideCharPadding": "false"},
    "strings": {"spark.sql.legacy.charVarcharAsString": "true"},
}


def sized(frame: DataFrame, types: Mapping[str, str]) -> DataFrame:
    """The frame with columns of some of Spark's types for texts that have a length."""
    for name, type in types.items():
        frame = frame.withMetadata(name, {"__CHAR_VARCHAR_TYPE_STRING": type})
    return frame


def made(spark: SparkSession, path: Path) -> DeltaTable:
    rows = [(1, "ab", "ab", ("ab",), "-"), (2, "cd", "x", ("x",), "-"), (3, "ab", "x", (None,), "-")]
    frame = spark.createDataFrame(rows, "id int, c string, d string, n struct<c: string>, r string")
    deltamerge.write(sized(frame, {"c": "char(3)", "d": "char(5)", "n": "struct<c:char(3)>"}), str(path))
    return DeltaTable.forPath(spark, str(path)).alias("t")


def changes(spark: SparkSession) -> DataFrame:
    rows = [(1, "ab   ", "ab"), (2, "ab   ", "ab "), (4, "ab   ", "w"), (5, "q    ", "w")]
    return sized(spark.createDataFrame(rows, "id int, c string, w string"), {"c": "char(5)"}).alias("s")


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_what_is_compared_in_values(spark: SparkSession, tmp_path: Path, strategy: str, settings: dict[str, str]) -> None:
    table = made(spark, tmp_path / "t")
    with conf(spark, settings):
        read = deltamerge.read(spark, str(tmp_path / "t")).alias("t")
        rows = read.join(changes(spark), F.expr("t.id = s.id")).select("t.id", F.expr(VALUE).alias("r")).collect()
        table.merge(changes(spark), "t.id = s.id").whenMatchedUpdate(set={"r": VALUE}).execute()
        found = deltamerge.read(spark, str(tmp_path / "t")).where("r <> '-'").select("id", "r").collect()
    assert sorted(found) == sorted(rows)
    assert len(found) == 2


@pytest.mark.parametrize("form", [str, F.expr], ids=["text", "columns"])
def test_what_is_compared_in_conditions(spark: SparkSession, tmp_path: Path, strategy: str, form: Any) -> None:
    table = made(spark, tmp_path / "t")
    merge = table.merge(changes(spark), form("t.id = s.id AND s.c = 'ab' AND t.c IN ('ab', 'cd')"))
    merge = merge.whenMatchedUpdate(form("t.c = s.c AND t.d = t.c"), {"r": F.lit("equal")})
    merge = merge.whenMatchedUpdate(form("t.c = 'cd'"), {"r": F.lit("other")})
    merge = merge.whenNotMatchedInsert(form("s.c = 'q'"), {"id": F.col("s.id"), "c": F.col("s.w"), "r": F.lit("new")})
    merge.whenNotMatchedBySourceUpdate(form("t.c = 'ab' AND t.d = 'x'"), {"r": F.lit("alone")}).execute()
    assert [(id, c, r) for id, c, *_, r in content(spark, tmp_path / "t")] == [
        (1, "ab ", "equal"),
        (2, "cd ", "other"),
        (3, "ab ", "alone"),
        (5, "w  ", "new"),
    ]


def test_columns_of_different_lengths_as_keys(spark: SparkSession, tmp_path: Path, strategy: str) -> None:
    made(spark, tmp_path / "t").merge(changes(spark).where("id = 4"), "t.c = s.c").whenMatchedUpdate(set={"r": "s.w"}).execute()
    assert [row[-1] for row in content(spark, tmp_path / "t")] == ["w", "-", "w"]


@pytest.mark.parametrize("by_text", [True, False], ids=["text", "columns"])
def test_an_update_cuts_and_adds_blanks(spark: SparkSession, tmp_path: Path, by_text: bool) -> None:
    table = made(spark, tmp_path / "t")
    value = "CASE id WHEN 1 THEN 'x' WHEN 2 THEN 'ab     ' END"
    table.update(set=dict.fromkeys(("c", "n.c", "r"), value if by_text else F.expr(value)))
    with conf(spark, {"spark.sql.readSideCharPadding": "false"}):
        found = deltamerge.read(spark, str(tmp_path / "t")).select("id", "c", "n.c", "r").collect()
    assert sorted(map(tuple, found)) == [(1, "x  ", "x  ", "x"), (2, "ab ", "ab ", "ab     "), (3, None, None, None)]


def test_an_update_refuses_what_is_too_long_without_blanks(spark: SparkSession, tmp_path: Path) -> None:
    table = made(spark, tmp_path / "t")
    before = content(spark, tmp_path / "t")
    for text in ("abcd", "abc d   ", "    d"):
        with pytest.raises(DeltaInvariantViolationException, match=r"DELTA_EXCEED_CHAR_VARCHAR_LIMIT.*column c holds 3"):
            table.update("id = 1", {"c": F.lit(text)})
    assert content(spark, tmp_path / "t") == before


def test_an_updates_value_is_computed_once(spark: SparkSession, tmp_path: Path) -> None:
    deltamerge.write(sized(spark.range(200).selectExpr("'x' AS c"), {"c": "char(3)"}), str(tmp_path / "t"))
    # Were it computed again after its length was taken, some of these would be too long, and others would lack their blanks.
    DeltaTable.forPath(spark, str(tmp_path / "t")).update(set={"c": "CASE WHEN rand() < 0.5 THEN 'a' ELSE 'bcd   ' END"})
    with conf(spark, SETTINGS["not padded"]):
        assert {row.c for row in deltamerge.read(spark, str(tmp_path / "t")).collect()} == {"a  ", "bcd"}


def test_an_update_leaves_strings_alone(spark: SparkSession, tmp_path: Path) -> None:
    with conf(spark, SETTINGS["strings"]):
        made(spark, tmp_path / "t").update("id = 1", {"c": "'abcdef  '"})
        assert content(spark, tmp_path / "t")[0][1] == "abcdef  "
