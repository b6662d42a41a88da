"""Values of parameters as SQL literals: Spark takes each for the value that it is."""

from __future__ import annotations

import time
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pytest
from pyspark.sql import SparkSession

from deltamerge.spark.sql.literals import literal_of
from tests.e2e.tables import conf


@pytest.mark.parametrize(
    "value", [None, True, 2**40, -1, 0.1, np.float64(0.1), Decimal("1.50"), date(2020, 2, 29), [1, 2], {"a": 1}, b"\x00\xff"]
)
def test_each_kind_of_parameter_is_what_spark_makes_of_it(spark: SparkSession, value: object) -> None:
    ours = spark.sql(f"SELECT {literal_of(value)} AS v").collect()[0].v
    assert ours == value
    assert isinstance(value, (type(ours), bytes))


@pytest.mark.parametrize(
    "value",
    [
        datetime(2020, 7, 1, 12, 30, 0, 5),
        datetime(1969, 1, 1),
        datetime(2020, 7, 1, tzinfo=timezone(timedelta(hours=5, minutes=30))),
    ],
)
@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Asia/Tokyo"])
def test_a_moment_is_the_one_that_spark_takes(spark: SparkSession, value: datetime, zone: str) -> None:
    with conf(spark, {"spark.sql.session.timeZone": zone}):
        (row,) = spark.sql(f"SELECT unix_micros({literal_of(value)}), unix_micros(:v)", args={"v": value}).collect()
    assert row[0] == row[1]


@pytest.mark.parametrize("local", ["UTC", "Europe/Berlin", "America/New_York"])
@pytest.mark.parametrize(
    "value",
    [
        datetime(9999, 12, 31, 23, 59, 59, 999_999),
        datetime(2024, 10, 27, 2, 30),
        datetime(2024, 3, 31, 2, 30),
        datetime(1, 1, 2),
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5))),
    ],
)
def test_moments_at_the_ends_are_those_that_spark_takes(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, value: datetime, local: str
) -> None:
    monkeypatch.setenv("TZ", local)
    time.tzset()
    try:
        text = literal_of(value)
        if value.tzinfo is None and value.year > 1:  # others PySpark itself can't bind
            (row,) = spark.sql(f"SELECT unix_micros({text}), unix_micros(:v)", args={"v": value}).collect()
            assert row[0] == row[1]
        else:
            (row,) = spark.sql(f"SELECT unix_micros({text}) < -62135400000000000").collect()
            assert row[0]
    finally:
        monkeypatch.undo()
        time.tzset()


def test_an_interval_is_the_one_that_spark_takes(spark: SparkSession) -> None:
    value = timedelta(days=-400, seconds=1, microseconds=7)
    query = f"SELECT typeof({literal_of(value)}), {literal_of(value)} <=> :v"
    assert spark.sql(query, args={"v": value}).collect() == [("interval day to second", True)]
