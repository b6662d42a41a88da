"""Who does not name `_metadata` has Spark's own DataFrame: each public method gives what it gives of a frame without it."""

from __future__ import annotations

import contextlib
import inspect
import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import Column, DataFrame, GroupedData, Row, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

import deltamerge
from deltamerge.log.replay.table import open_log
from deltamerge.spark.read import hidden_frames
from deltamerge.spark.read.snapshot import newest_frame
from tests.e2e.hidden_columns import in_order
from tests.e2e.tables import make, noted

SCHEMA = "id bigint, name string, p string"
ROWS = [(id, f"row {id}", "ab"[id % 2]) for id in range(6)]
Call = Callable[[Any], Any]


def view(name: str) -> Call:
    """What a view shows that a method has made."""

    def made(d: DataFrame) -> Any:
        getattr(d, name)(f"v_{name.lower()}")
        return d.sparkSession.table(("global_temp." if "Global" in name else "") + f"v_{name.lower()}")

    return made


def upper(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches


def moved(d: DataFrame) -> DataFrame:
    """Another frame of the same rows, with other names."""
    return d.where("id > 1").select(F.col("id").alias("k"), F.col("p").alias("q"))


# A call of each public method, or several.
CALLS: dict[str, Call | tuple[Call, ...]] = {
    "agg": (lambda d: d.agg(F.max("id"), F.count("*")), lambda d: d.agg({"id": "max", "*": "count"})),
    "alias": (lambda d: d.alias("a").select("a.id", "a.*"), lambda d: d.alias(alias="a").where("a.id = 1")),
    "approxQuantile": lambda d: d.approxQuantile("id", [0.5], 0.0),
    "asTable": lambda d: d.asTable(),
    "cache": lambda d: d.cache().unpersist(True).where("id = 1"),
    "checkpoint": lambda d: d.localCheckpoint().where("id = 1").count(),
    "coalesce": lambda d: d.coalesce(numPartitions=1),
    "colRegex": lambda d: d.select(d.colRegex("`i.*`")),
    "collect": lambda d: d.collect(),
    "columns": lambda d: d.columns,
    "corr": lambda d: d.corr("id", "id"),
    "count": lambda d: d.count(),
    "cov": lambda d: d.cov("id", "id"),
    "createGlobalTempView": view("createOrReplaceGlobalTempView"),
    "createOrReplaceGlobalTempView": view("createOrReplaceGlobalTempView"),
    "createOrReplaceTempView": view("createOrReplaceTempView"),
    "createTempView": view("createOrReplaceTempView"),
    "crossJoin": (lambda d: d.crossJoin(moved(d)), lambda d: d.select("p").crossJoin(other=d.select("id"))),
    "crosstab": lambda d: d.crosstab("p", "name"),
    "cube": (lambda d: d.cube("p").count(), lambda d: d.cube("p", d.name).agg(F.sum("id"))),
    "describe": lambda d: d.describe("id"),
    "distinct": lambda d: d.select("p").distinct(),
    "drop": (lambda d: d.drop("id", "nope"), lambda d: d.drop(d.id), lambda d: d.drop(F.col("id")), lambda d: d.drop()),
    "dropDuplicates": lambda d: d.dropDuplicates(["p"]).select("p"),
    "dropDuplicatesWithinWatermark": lambda d: d.dropDuplicatesWithinWatermark(["p"]),
    "drop_duplicates": lambda d: d.drop_duplicates(subset=["id"]),
    "dropna": lambda d: d.dropna(how="any"),
    "dtypes": lambda d: d.dtypes,
    "exceptAll": lambda d: d.exceptAll(d.where("id > 1")),
    "executionInfo": lambda d: d.executionInfo,
    "exists": lambda d: d.where(moved(d).where(F.col("k").outer() == F.col("id").outer()).exists()),
    "explain": (lambda d: d.explain(), lambda d: d.explain(extended=True), lambda d: d.explain(mode="formatted")),
    "fillna": lambda d: d.fillna({"name": "x"}),
    "filter": (lambda d: d.filter("id > 2"), lambda d: d.filter(condition=d.id > 2), lambda d: d.filter(3), lambda d: d.filter()),
    "first": lambda d: d.first(),
    "foreach": lambda d: d.foreach(lambda row: None),
    "foreachPartition": lambda d: d.foreachPartition(lambda rows: None),
    "freqItems": lambda d: d.freqItems(["p"], 0.4),
    "groupBy": (
        lambda d: d.groupBy("p").count(),
        lambda d: d.groupBy().max("id"),
        lambda d: d.groupBy(["p", d.id % 2]).sum("id"),
    ),
    "groupby": (lambda d: d.groupby(1).count(), lambda d: d.groupby(d["p"]).agg({"id": "sum"})),
    "groupingSets": lambda d: d.groupingSets([["p"], []], "p").agg(F.sum("id")),
    "head": (lambda d: d.head(), lambda d: d.head(2)),
    "hint": (lambda d: d.hint("broadcast"), lambda d: d.hint("rebalance", "p"), lambda d: d.hint("repartition", 2)),
    "inputFiles": lambda d: d.inputFiles(),
    "intersect": lambda d: d.intersect(d.where("id > 1")),
    "intersectAll": lambda d: d.intersectAll(d.where("id > 1")),
    "isEmpty": lambda d: (d.isEmpty(), d.where("id > 10").isEmpty()),
    "isLocal": lambda d: d.isLocal(),
    "isStreaming": lambda d: d.isStreaming,
    "is_cached": lambda d: d.is_cached,
    "join": (
        lambda d: d.join(moved(d), d.id == F.col("k"), "left"),
        lambda d: d.join(moved(d), F.col("k") == F.col("id"), how="left_semi").where(d.id > 2),
        lambda d: d.join(other=d.select("id", F.lit(1).alias("x")), on="id"),
        lambda d: d.join(d.withColumnRenamed("name", "n"), ["id", "p"], "outer"),
        lambda d: d.alias("a").join(d.alias("b"), F.col("a.id") == F.col("b.id")).select("a.id", "b.name"),
        lambda d: d.join(moved(d), [d["id"] == F.col("k"), d["p"] == F.col("q")]).drop(d["id"]),
        lambda d: d.join(d, d.id == d.id),
        lambda d: d.join(moved(d)),
        lambda d: d.join(F.broadcast(moved(d)), F.col("id") == F.col("k"), "anti"),
        lambda d: d.sparkSession.range(9).toDF("k").join(d, d["id"] == F.col("k")).select(d["name"], "k"),
        lambda d: d.join(d.sparkSession.range(9).toDF("k"), d["id"] == F.col("k")).where(d["id"] > 1).select(d.name),
    ),
    "lateralJoin": lambda d: d.lateralJoin(moved(d).where(F.col("k") == F.col("id").outer())),
    "limit": lambda d: d.orderBy("id").limit(num=2),
    "localCheckpoint": lambda d: d.localCheckpoint(eager=True).count(),
    "mapInArrow": lambda d: d.mapInArrow(upper, SCHEMA),
    "mapInPandas": lambda d: d.mapInPandas(upper, SCHEMA),
    "melt": lambda d: d.melt("id", ["name", "p"], "k", "v"),
    "mergeInto": lambda d: d.mergeInto("nope", F.col("id") == 1),
    "metadataColumn": lambda d: d.metadataColumn("nope"),
    "na": lambda d: (d.na.fill("x"), d.na.drop(), d.na.replace("a", "b")),
    "nearestByJoin": lambda d: d.nearestByJoin(moved(d), F.abs(F.col("id") - F.col("k")), 1, "exact", "distance"),
    "observe": lambda d: d.observe("seen", F.count(F.lit(1)).alias("n")),
    "offset": lambda d: d.orderBy("id").offset(4),
    "orderBy": (lambda d: d.orderBy("p", d.id.desc()), lambda d: d.orderBy(["p", "id"], ascending=[False, True])),
    "pandas_api": lambda d: d.pandas_api().sort_values("id").to_pandas(),
    "persist": lambda d: d.persist().unpersist(True).count(),
    "plot": lambda d: type(d.plot),
    "printSchema": lambda d: d.printSchema(),
    "randomSplit": lambda d: d.randomSplit([0.5, 0.5], seed=7),
    "rdd": lambda d: d.rdd.map(tuple).collect(),
    "registerTempTable": view("registerTempTable"),
    "repartition": (lambda d: d.repartition(2), lambda d: d.repartition(2, "p"), lambda d: d.repartition(d.id)),
    "repartitionById": lambda d: d.repartitionById(2, F.lit(1)),
    "repartitionByRange": lambda d: d.repartitionByRange(2, "id"),
    "replace": lambda d: d.replace({"a": "c"}, subset=["p"]),
    "rollup": lambda d: d.rollup("p").agg(F.max("id")),
    "sameSemantics": lambda d: (d.sameSemantics(d), d.sameSemantics(d.where("id > 1"))),
    "sample": (lambda d: d.sample(0.5, 7), lambda d: d.sample(withReplacement=True, fraction=0.5, seed=7)),
    "sampleBy": lambda d: d.sampleBy("p", {"a": 1.0}, seed=7),
    "scalar": lambda d: d.where(F.col("id") == d.select(F.max("id")).scalar()),
    "schema": lambda d: d.schema,
    "select": (
        lambda d: d.select("id", d.name, d["p"], F.lit(1)),
        lambda d: d.select(["id", "*"]),
        lambda d: d.select("*", (d.id + 1).alias("x"), F.struct("*").alias("s"), F.count("*").over(Window.partitionBy("p"))),
        lambda d: d.select(F.explode(F.split("name", " ")), "id"),
        lambda d: d.select(),
        lambda d: d.select(1.5),
        lambda d: d.select("nope"),
        lambda d: d[["id", "p"]],
        lambda d: d[d.id > 2][0],
        lambda d: d["nope"],
        lambda d: d.nope,
    ),
    "selectExpr": (lambda d: d.selectExpr("id + 1 AS x", "*", "struct(*) s"), lambda d: d.selectExpr(["max(id)", "count(*)"])),
    "semanticHash": lambda d: type(d.semanticHash()),
    "show": (lambda d: d.orderBy("id").show(), lambda d: d.limit(1).show(n=1, truncate=False, vertical=True)),
    "sort": (lambda d: d.sort(F.desc("id")), lambda d: d.sort("id", ascending=False).head(1)),
    "sortWithinPartitions": lambda d: d.sortWithinPartitions("p", ascending=False),
    "sparkSession": lambda d: d.sparkSession is d.where("id > 1").sparkSession,
    "sql_ctx": lambda d: type(d.sql_ctx),
    "stat": lambda d: (d.stat.corr("id", "id"), d.stat.freqItems(["p"]), d.stat.sampleBy("p", {"b": 1.0}, 7)),
    "storageLevel": lambda d: str(d.storageLevel),
    "subtract": lambda d: d.subtract(d.where("id > 1")),
    "summary": lambda d: d.summary("count", "max"),
    "tail": lambda d: d.orderBy("id").tail(1),
    "take": lambda d: d.orderBy("id").take(2),
    "to": lambda d: d.to(T.StructType([T.StructField("id", T.StringType())])),
    "toArrow": lambda d: d.toArrow(),
    "toDF": lambda d: d.toDF("a", "b", "c"),
    "toJSON": lambda d: d.toJSON().collect(),
    "toLocalIterator": lambda d: [*d.toLocalIterator()],
    "toPandas": lambda d: d.toPandas(),
    "transform": lambda d: d.transform(lambda frame, by: frame.where(frame.id > by), 2),
    "transpose": lambda d: d.select("p", "name").orderBy("name").limit(2).transpose(),
    "union": lambda d: d.union(d.where("id > 1")),
    "unionAll": lambda d: d.unionAll(d),
    "unionByName": lambda d: d.unionByName(d.select("p", "id"), allowMissingColumns=True),
    "unpersist": lambda d: d.unpersist(blocking=True),
    "unpivot": lambda d: d.unpivot(["id"], ["name", "p"], "k", "v"),
    "where": (lambda d: d.where(d.id > 2), lambda d: d.where(condition="id = 1")),
    "withColumn": (lambda d: d.withColumn("x", d.id + 1), lambda d: d.withColumn(col=F.lit(1), colName="id")),
    "withColumnRenamed": (lambda d: d.withColumnRenamed("id", "x"), lambda d: d.withColumnRenamed(existing="id", new="ID")),
    "withColumns": lambda d: d.withColumns({"x": d.id, "y": F.lit(1)}),
    "withColumnsRenamed": lambda d: d.withColumnsRenamed({"id": "x", "nope": "y"}),
    "withMetadata": lambda d: d.withMetadata("id", {"a": 1}).schema["id"].metadata,
    "withWatermark": lambda d: d.withColumn("t", F.timestamp_seconds("id")).withWatermark("t", "1 minute"),
    "write": lambda d: d.write.format("noop").mode("overwrite").save(),
    "writeStream": lambda d: d.writeStream,
    "writeTo": lambda d: type(d.writeTo("nope")),
    "zip": lambda d: d.select("id").zip(d.select("p")),
    "zipWithIndex": lambda d: d.select("p").zipWithIndex(),
}

# The same of grouped rows.
GROUPED: dict[str, Call | tuple[Call, ...]] = {
    "agg": (lambda g: g.agg(F.max("id"), F.count("*")), lambda g: g.agg({"id": "max"}), lambda g: g.agg()),
    "apply": lambda g: g.apply(lambda rows: rows),
    "applyInArrow": lambda g: g.applyInArrow(lambda rows: rows, SCHEMA),
    "applyInPandas": lambda g: g.applyInPandas(lambda rows: rows, SCHEMA),
    "applyInPandasWithState": lambda g: g.applyInPandasWithState(None, "a int", "b int", "append", "nope"),
    "avg": lambda g: g.avg("id"),
    "cogroup": lambda g: g.cogroup(g).applyInPandas(lambda one, two: pd.concat([one, two]), SCHEMA),
    "count": lambda g: g.count(),
    "max": lambda g: g.max("id"),
    "mean": lambda g: g.mean("id"),
    "min": lambda g: g.min(),
    "pivot": (lambda g: g.pivot("p", ["a", "b"]).agg(F.sum("id")), lambda g: g.pivot("p").count()),
    "sum": lambda g: g.sum("id"),
    "transformWithState": lambda g: g.transformWithState(None, "a int", "append", "none"),
    "transformWithStateInPandas": lambda g: g.transformWithStateInPandas(None, "a int", "append", "none"),
}


def public(kind: Any) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def calls(table: dict[str, Call | tuple[Call, ...]], names: set[str]) -> list[Any]:
    found = []
    for name, given in table.items():
        many = given if isinstance(given, tuple) else (given,)
        found += [pytest.param(call, id=f"{name} {n}") for n, call in enumerate(many) if name in names]
    return found


def shown(value: Any) -> Any:
    """A result of a call in a form that can be compared."""
    if isinstance(value, DataFrame):
        with contextlib.redirect_stdout(io.StringIO()) as plan:
            value.explain(True)
        return value.schema.json(), unnumbered(plan.getvalue())  # the same plan gives the same rows
    if isinstance(value, pd.DataFrame):
        return sorted(map(repr, value.to_dict("records")))
    if isinstance(value, pa.Table):
        return sorted(map(repr, value.to_pylist()))
    if isinstance(value, Column):
        return unnumbered(str(value))
    if isinstance(value, tuple | list) and not isinstance(value, Row):
        return [shown(item) for item in value]
    return value if isinstance(value, str | int | float | type | T.DataType | Row | None) else type(value).__name__


def unnumbered(text: str) -> str:
    """A plan without the numbers that differ from frame to frame."""
    return re.sub(r"#\d+L?|plan_id=\d+|\[id=#?\d+\]|@[0-9a-f]+|[0-9a-f]+(-[0-9a-f]+){4}|-?\d\d+", "#", text)


def outcome(call: Call, given: Any) -> Any:
    with contextlib.redirect_stdout(io.StringIO()) as said:
        try:
            found = shown(call(given))
        except Exception as error:
            condition = getattr(error, "getCondition", lambda: None)()
            return type(error).__name__, condition or unnumbered(str(error))
    return found, unnumbered(said.getvalue())


@pytest.fixture(scope="module")
def path(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table that no test changes."""
    path = tmp_path_factory.mktemp("knowing") / "t"
    make(spark, path, SCHEMA, ROWS, files=2)
    return path


@pytest.fixture
def frames(spark: SparkSession, path: Path) -> tuple[DataFrame, DataFrame]:
    """A frame that knows the column, and one that does not."""
    return deltamerge.read(spark, str(path)), newest_frame(spark, open_log(str(path)).snapshot())


def test_each_public_method_is_tried() -> None:
    assert public(DataFrame) <= CALLS.keys()
    assert public(GroupedData) <= GROUPED.keys()


@pytest.mark.connect
@pytest.mark.parametrize("call", calls(CALLS, public(DataFrame) | {"sql_ctx", "is_cached"}))
def test_methods(spark: SparkSession, frames: tuple[DataFrame, DataFrame], monkeypatch: pytest.MonkeyPatch, call: Call) -> None:
    made = noted(monkeypatch, hidden_frames, "metadata_frame")
    knowing, plain = frames
    assert outcome(call, knowing) == outcome(call, plain)
    assert outcome(call, knowing.where("id >= 0").select("*")) == outcome(call, plain.where("id >= 0").select("*"))
    assert not made


@pytest.mark.connect
@pytest.mark.parametrize("call", calls(GROUPED, public(GroupedData)))
def test_methods_of_groups(
    spark: SparkSession, frames: tuple[DataFrame, DataFrame], monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    made = noted(monkeypatch, hidden_frames, "metadata_frame")
    knowing, plain = frames
    for group in (lambda d: d.groupBy("p"), lambda d: d.groupBy((d.id % 2).alias("p")), lambda d: d.rollup("p")):
        assert outcome(lambda d, group=group: call(group(d)), knowing) == outcome(lambda d, group=group: call(group(d)), plain)
    assert not made


def test_its_class_goes_by_the_name_of_sparks(frames: tuple[DataFrame, DataFrame]) -> None:
    knowing, plain = frames
    assert isinstance(knowing, type(plain))
    assert str(type(knowing)) == str(type(plain))
    for name in ("select", "filter", "where", "join", "groupBy", "withColumn"):
        assert [*inspect.signature(getattr(knowing, name)).parameters] == [*inspect.signature(getattr(plain, name)).parameters]
    assert str(type(knowing.groupBy("p"))) == str(type(plain.groupBy("p")))


def named(spark: SparkSession) -> DataFrame:
    """Another frame, which shows a column of this name."""
    return spark.range(1, 3).selectExpr("id AS k", "named_struct('n', id) AS _metadata")


# Who has the word in a text, or another column of this name, does not mean the hidden one.
OTHERS: dict[str, Call] = {
    "a text": lambda d: d.where("p <> '_metadata'").select(F.lit("_metadata").alias("x"), "id"),
    "behind an aggregation": lambda d: d.select(F.max("id").alias("m")).select(F.lit("_metadata").alias("x"), "m"),
    "groups": lambda d: d.groupBy("p").agg(F.max(F.lit("_metadata")).alias("x"), F.count("*"), F.count_distinct("*").alias("n")),
    "a field": lambda d: d.select(F.struct(F.col("id").alias("_metadata")).alias("s")).select("s._metadata"),
    "a field of the frame": lambda d: d.select(F.struct(F.col("id").alias("_metadata")).alias("s")).transform(
        lambda made: made.select(made["s._metadata"]).dropDuplicates()
    ),
    "another frame": lambda d: d.join(named(d.sparkSession), F.col("_metadata.n") == F.col("id")),
    "behind a join": lambda d: d.join(named(d.sparkSession), F.col("k") == F.col("id")).select("*", "_metadata.n"),
    "a column that is made": lambda d: d.withColumn("_metadata", F.col("id") + 1).where("_metadata > 2").select("_metadata"),
    "a new name": lambda d: d.withColumnRenamed("id", "_metadata").groupBy("_metadata").count(),
    "an alias": lambda d: d.alias("_metadata").select("_metadata.id"),
}


@pytest.mark.connect
@pytest.mark.parametrize("call", OTHERS.values(), ids=OTHERS.keys())
def test_who_means_something_else(frames: tuple[DataFrame, DataFrame], call: Call) -> None:
    knowing, plain = (call(frame) for frame in frames)
    assert knowing.columns == plain.columns
    assert in_order(knowing) == in_order(plain)


# Beside the column, stars within other columns do not have it, either.
STARS: dict[str, Call] = {
    "struct": lambda d: d.select(F.struct("*").alias("s"), "_metadata.file_name"),
    "of an alias": lambda d: d.alias("t").select(F.struct("t.*").alias("s"), "t._metadata.file_name"),
    "in a text": lambda d: d.select(F.expr("struct(*)").alias("s"), F.col("_metadata.file_name")),
    "a made column": lambda d: d.withColumn("f", F.col("_metadata.file_name")).withColumns(
        {"s": F.struct("*"), "g": F.col("_metadata.file_name")}
    ),
    "a condition": lambda d: d.where("struct(*) IS NOT NULL AND _metadata.file_name <> ''").select(F.struct("*").alias("s")),
}


@pytest.mark.connect
@pytest.mark.parametrize("call", STARS.values(), ids=STARS.keys())
def test_stars_within_columns(frames: tuple[DataFrame, DataFrame], call: Call) -> None:
    found = call(frames[0])
    assert found.select("s.*").columns[:3] == ["id", "name", "p"]
    assert "_metadata" not in found.select("s.*").columns
    assert found.count() == len(ROWS)


def test_stars_that_count(frames: tuple[DataFrame, DataFrame]) -> None:
    found = frames[0].groupBy("_metadata.file_name").agg(F.count("*").alias("n"), F.expr("count(*) AS m"))
    assert [tuple(row)[1:] for row in found.collect()] == [(3, 3), (3, 3)]
