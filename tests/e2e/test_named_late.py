"""What was made of a frame before `_metadata` is named, and columns of the frame: both mean what they meant without it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

import deltamerge
from tests.e2e.hidden_columns import in_order
from tests.e2e.tables import make

SCHEMA = "id bigint, name string, p string"
ROWS = [(id, f"row {id}", "ab"[id % 2]) for id in range(6)]
Call = Callable[[Any], Any]


@pytest.fixture(scope="module")
def path(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table that no test changes."""
    path = tmp_path_factory.mktemp("named") / "t"
    make(spark, path, SCHEMA, ROWS, files=2)
    return path


@pytest.fixture
def frame(spark: SparkSession, path: Path) -> DataFrame:
    """A frame that knows the column."""
    return deltamerge.read(spark, str(path))


# Stars of columns that were made before the column was named do not have it, either.
STARS: dict[str, Call] = {
    "made before": lambda d: d.withColumn("s", F.struct("*")).select("s", "_metadata.file_name"),
    "made before in a text": lambda d: d.withColumns({"s": F.expr("struct(*)")}).where("_metadata.file_name <> ''"),
    "a condition before": lambda d: (
        d.filter("to_json(struct(*)) NOT LIKE '%file_name%'")
        .select("*", "_metadata.*")
        .select(F.struct("id", "name", "p").alias("s"))
    ),
    "a condition of columns before": lambda d: d.filter(F.length(F.to_json(F.struct("*"))) < 60).select(
        F.struct("id", "name", "p").alias("s"), "_metadata.file_name"
    ),
    "of groups of rows": lambda d: d.withColumn("s", F.last(F.struct("*")).over(Window.partitionBy(F.hash("*")))).select(
        "s", "_metadata.file_name"
    ),
    "of a function in Python": lambda d: d.withColumn("s", F.udf(lambda row: row, SCHEMA)(F.struct("*"))).select(
        "s", "_metadata.file_name"
    ),
}


@pytest.mark.connect
@pytest.mark.parametrize("call", STARS.values(), ids=STARS.keys())
def test_stars_of_earlier_steps(frame: DataFrame, call: Call) -> None:
    found = call(frame)
    assert found.select("s.*").columns == ["id", "name", "p"]
    assert in_order(found.select("s.*")) == in_order(frame)


# Columns of a frame mean those of the one that shows the column, whatever they stand in.
BOUND: dict[str, Call] = {
    "a window": lambda d: d.select(
        d["id"], F.row_number().over(Window.partitionBy(d["p"]).orderBy(d["_metadata.file_name"], d["id"])).alias("n")
    ),
    "a window before": lambda d: d.withColumn("n", F.row_number().over(Window.partitionBy("p").orderBy(d["id"].desc()))).select(
        "id", "n", F.col("_metadata.file_size") > 0
    ),
    "a window's frame": lambda d: d.select(
        F.sum(d["id"]).over(Window.partitionBy(d["_metadata.file_name"]).orderBy(d["id"]).rowsBetween(-1, 0)).alias("n")
    ),
    "a function in Python": lambda d: d.select(
        F.udf(lambda one: one + 1, "bigint")(d["id"]), F.udf(len, "int")(d["_metadata.file_name"]), F.udf(len, "int")("name")
    ),
    "groups": lambda d: d.groupBy("p", "_metadata.file_name").agg(F.max(d["id"]).alias("m"), F.count("*")).drop("file_name"),
    "stars behind a join": lambda d: d.join(d.sparkSession.range(4), F.lit(True)).select("*", F.col("_metadata.file_size") > 0),
}


@pytest.mark.connect
@pytest.mark.parametrize("call", BOUND.values(), ids=BOUND.keys())
def test_columns_of_the_frame(spark: SparkSession, path: Path, frame: DataFrame, call: Call) -> None:
    found, whole = call(frame), deltamerge.read(spark, str(path), metadata=True)
    expected = call(whole)
    assert in_order(found) == in_order(expected.drop("_metadata"))


@pytest.mark.connect
def test_whole_groups_by_the_column(frame: DataFrame) -> None:
    """A function would be given the column, too: delta-spark gives it those of the frame."""
    groups, others = frame.groupBy("_metadata.file_name"), frame.groupBy("p")
    for call in (
        lambda: groups.applyInPandas(lambda rows: rows, SCHEMA),
        lambda: groups.cogroup(others),
        lambda: others.cogroup(groups),
    ):
        with pytest.raises(AnalysisException, match="DELTAMERGE_UNSUPPORTED_STATEMENT"):
            call()
    assert [tuple(row)[1:] for row in groups.count().collect()] == [(3,), (3,)]


@pytest.mark.connect
def test_a_word_in_a_text_behind_an_aggregation(frame: DataFrame) -> None:
    found = frame.select(F.max("id").alias("m")).groupBy(F.lit("_metadata").alias("x")).count()
    assert found.collect() == [("_metadata", 1)]


def test_a_frame_of_many_steps(frame: DataFrame) -> None:
    found = frame
    for n in range(400):
        found = found.where(F.lit(n) >= 0) if n % 100 else found.withColumn("n", F.lit(n))
    assert found.select("n", F.col("_metadata.file_size") > 0).collect() == [(300, True)] * len(ROWS)
