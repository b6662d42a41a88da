"""Structs, arrays and maps as values: fields by name, fields set one by one. Expectations are delta-spark's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, ArithmeticException
from pyspark.sql import SparkSession

import deltamerge

STRUCT = "named_struct('a', 1, 'b', 'x')"
UPDATE = "WHEN MATCHED THEN UPDATE SET"


def merged(spark: SparkSession, folder: Path, target: str, source: str, clauses: str) -> list[dict[str, Any]]:
    """The rows of the table after a merge by id."""
    path = str(folder / "t")
    deltamerge.write(spark.sql(f"SELECT 1 AS id, {target}"), path)
    deltamerge.sql(spark, f"MERGE INTO delta.`{path}` t USING (SELECT {source}) s ON t.id = s.id {clauses}")
    return [row.asDict(recursive=True) for row in deltamerge.read(spark, path).orderBy("id").collect()]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("named_struct('b', 'y', 'a', 2)", {"a": 2, "b": "y"}),
        ("named_struct('A', 5, 'b', 'y')", {"a": 5, "b": "y"}),
        ("named_struct('a', 5L, 'b', 'y')", {"a": 5, "b": "y"}),
        ("CAST(NULL AS struct<b: string, a: bigint>)", None),
        ("NULL", None),
    ],
    ids=["order", "case", "type", "null struct", "null"],
)
def test_a_struct_goes_by_its_fields_names(
    spark: SparkSession, tmp_path: Path, strategy: str, value: str, expected: dict[str, Any] | None
) -> None:
    rows = merged(spark, tmp_path, f"{STRUCT} AS st", f"1 AS id, {value} AS st", f"{UPDATE} *")
    assert rows == [{"id": 1, "st": expected}]


def test_structs_within_arrays_and_maps(spark: SparkSession, tmp_path: Path, strategy: str) -> None:
    other = "named_struct('b', 'y', 'a', 2L)"
    rows = merged(
        spark,
        tmp_path,
        f"array({STRUCT}) AS ar, map('k', {STRUCT}) AS m, array(1) AS n",
        f"1 AS id, array({other}, NULL) AS ar, map('l', {other}) AS m, array(5L, NULL) AS n",
        f"{UPDATE} *",
    )
    changed = {"a": 2, "b": "y"}
    assert rows == [{"id": 1, "ar": [changed, None], "m": {"l": changed}, "n": [5, None]}]


@pytest.mark.parametrize("value", ["named_struct('a', 5)", "named_struct('a', 5, 'b', 'y', 'c', 1)"], ids=["missing", "extra"])
def test_other_fields_are_refused(spark: SparkSession, tmp_path: Path, value: str) -> None:
    for kind in (f"{UPDATE} *", "WHEN NOT MATCHED THEN INSERT *"):
        with pytest.raises(AnalysisException, match="DELTA_UPDATE_SCHEMA_MISMATCH_EXPRESSION"):
            merged(spark, tmp_path / kind[:9], f"{STRUCT} AS st", f"1 AS id, {value} AS st", kind)


def test_an_overflow_in_a_struct_names_the_field(spark: SparkSession, tmp_path: Path, strategy: str) -> None:
    with pytest.raises(ArithmeticException, match=r"DELTA_CAST_OVERFLOW_IN_TABLE_WRITE.*5000000000.*st\.a"):
        merged(spark, tmp_path, f"{STRUCT} AS st", "1 AS id, named_struct('a', 5000000000L, 'b', 'y') AS st", f"{UPDATE} *")


def test_fields_are_set_one_by_one(spark: SparkSession, tmp_path: Path, strategy: str) -> None:
    target = "named_struct('a', 1, 'in', named_struct('p', 1, 'q', 2), 'b', 'x') AS st, 0 AS n"
    clauses = f"{UPDATE} t.st.in.Q = s.c + t.st.a, st.b = upper(t.st.b), n = s.c"
    rows = merged(spark, tmp_path, target, "1 AS id, 7L AS c", clauses)
    assert rows == [{"id": 1, "st": {"a": 1, "in": {"p": 1, "q": 8}, "b": "X"}, "n": 7}]


def test_a_field_of_a_null_struct_creates_it(spark: SparkSession, tmp_path: Path, strategy: str) -> None:
    rows = merged(spark, tmp_path, "CAST(NULL AS struct<a: int, b: string>) AS st", "1 AS id, 7 AS c", f"{UPDATE} st.a = s.c")
    assert rows == [{"id": 1, "st": {"a": 7, "b": None}}]


def test_fields_by_source(spark: SparkSession, tmp_path: Path) -> None:
    clauses = "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET st.a = t.st.a + 1"
    assert merged(spark, tmp_path, f"{STRUCT} AS st", "9 AS id", clauses) == [{"id": 1, "st": {"a": 2, "b": "x"}}]


@pytest.mark.parametrize(
    ("clauses", "condition"),
    [
        (f"{UPDATE} st.a = 1, st = NULL", "DELTA_CONFLICT_SET_COLUMN"),
        (f"{UPDATE} st.a = 1, t.st.A = 2", "DELTA_CONFLICT_SET_COLUMN"),
        (f"{UPDATE} ar.a = 1", "DELTA_UNSUPPORTED_NESTED_FIELD_IN_UPDATE"),
        (f"{UPDATE} st.nowhere = 1", "FIELD_NOT_FOUND"),
        (f"{UPDATE} st = 5", "DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION"),
        ("WHEN NOT MATCHED THEN INSERT (id, st.a) VALUES (1, 2)", "DELTA_UNSUPPORTED_NESTED_FIELD_IN_OPERATION"),
    ],
)
def test_refusals(spark: SparkSession, tmp_path: Path, clauses: str, condition: str) -> None:
    with pytest.raises(AnalysisException, match=condition):
        merged(spark, tmp_path, f"{STRUCT} AS st, array({STRUCT}) AS ar", "1 AS id", clauses)
