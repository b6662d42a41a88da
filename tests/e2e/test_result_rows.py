"""The row that a statement returns, on classic Spark made of Java objects."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from deltamerge.spark.pyspark import java_rows
from deltamerge.spark.session import rows
from deltamerge.spark.session.rows import one_row

NUMBERS = {"none": 0, "few": 7, "some": 2**31, "many": 2**63 - 1, "less": -1}


def test_numbers_of_any_size_are_nullable_longs(spark: SparkSession) -> None:
    found = one_row(spark, NUMBERS)
    assert [(field.name, field.dataType.simpleString(), field.nullable) for field in found.schema] == [
        (name, "bigint", True) for name in NUMBERS
    ]
    assert [row.asDict() for row in found.collect()] == [NUMBERS]
    assert [row.asDict() for row in found.select("some", "few").filter("few = 7").collect()] == [{"some": 2**31, "few": 7}]


def test_two_rows_are_frames_of_their_own(spark: SparkSession) -> None:
    first, second = one_row(spark, {"a": 1}), one_row(spark, {"a": 2})
    assert sorted(row["a"] for row in first.union(second).collect()) == [1, 2]
    assert first.join(second, first["a"] + 1 == second["a"]).count() == 1


def test_texts_and_numbers_stand_together(spark: SparkSession) -> None:
    assert one_row(spark, {"plan": "x", "n": 1}).collect()[0].asDict() == {"plan": "x", "n": 1}


@pytest.mark.classic
def test_it_is_made_in_java_without_a_parser(spark: SparkSession) -> None:
    assert java_rows.row_of_numbers(spark, NUMBERS) is not None
    assert "LocalRelation" in str(one_row(spark, NUMBERS)._jdf.queryExecution().logical())  # type: ignore[attr-defined]


@pytest.mark.classic
def test_a_session_without_such_objects_gets_the_same_row(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(jvm: object) -> object:
        raise AttributeError("this session hides its objects")

    there = one_row(spark, NUMBERS)
    monkeypatch.setattr(java_rows, "_methods", refuse)
    assert java_rows.row_of_numbers(spark, NUMBERS) is None
    instead = rows.one_row(spark, NUMBERS)
    assert instead.schema == there.schema
    assert instead.collect() == there.collect()
