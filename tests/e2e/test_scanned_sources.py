"""Large sources that are scans of files are read by the job that merges them; all others, and where rows are looked at twice,
are kept. What Spark is told of the size of a scan.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

import deltamerge
from deltamerge.budgets import Budgets
from deltamerge.exceptions import DeltaMultipleMatchException
from deltamerge.merge.execute import runtime_filter, spark_join
from deltamerge.merge.plan.choose import choose_readings
from deltamerge.merge.plan.prune import FileFacts
from deltamerge.spark.pyspark.adapter import is_file_scan
from deltamerge.spark.source import inspect
from deltamerge.spark.source.evaluate import evaluate
from deltamerge.spark.source.facts import Evaluation, Source
from deltamerge.spark.source.inspect import Inspection, inspect_source
from deltamerge.tables import DeltaMergeBuilder, DeltaTable
from deltamerge.worker.scan.store import DataStore
from tests.e2e.counting import jobs_of
from tests.e2e.tables import LARGE_SOURCES, conf, content, make, noted

SCHEMA = "k int, v int, w string"
ROWS = [(n, 10 * n, f"w{n}") for n in range(8)] + [(None, 0, "null")]
CHANGES = [(1, 11, "x"), (2, 22, "y"), (9, 99, "new"), (None, 1, "new")]


def evaluated(frame: DataFrame, budgets: Budgets, may_be_deferred: bool = True) -> Source:
    """A source that is large beside the table."""
    wanted = Inspection(frame.columns, DataStore("file", "/"), (), may_be_deferred)
    source = inspect_source(frame, wanted, budgets)
    return evaluate(source, choose_readings(source.facts, budgets), (), budgets)


@pytest.fixture
def files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Parquet files of changes."""
    place = str(tmp_path_factory.mktemp("source") / "files")
    spark.createDataFrame(CHANGES, SCHEMA).repartition(2).write.parquet(place)
    return place


@pytest.fixture(autouse=True)
def _large(request: pytest.FixtureRequest, limit: Callable[..., None]) -> None:
    """No source of a merge is small enough to be collected."""
    if "sources" in request.fixturenames:
        limit(**LARGE_SOURCES)


def upsert(merge: DeltaMergeBuilder) -> DeltaMergeBuilder:
    return merge.whenMatchedUpdateAll("s.v > 11").whenNotMatchedInsertAll()


def add(merge: DeltaMergeBuilder) -> DeltaMergeBuilder:
    return merge.whenNotMatchedInsertAll("s.k IS NOT NULL")


def delete(merge: DeltaMergeBuilder) -> DeltaMergeBuilder:
    return merge.whenMatchedDelete()


def synchronize(merge: DeltaMergeBuilder) -> DeltaMergeBuilder:
    return upsert(merge).whenNotMatchedBySourceDelete("t.k < 5").whenNotMatchedBySourceUpdate(set={"w": "'gone'"})


@pytest.mark.parametrize("vectors", [False, True], ids=["rewritten", "marked"])
@pytest.mark.parametrize("clauses", [upsert, add, delete, synchronize])
def test_a_scan_is_merged_like_rows_that_are_kept(
    spark: SparkSession,
    tmp_path: Path,
    files: str,
    sources: list[Source],
    clauses: Callable[[DeltaMergeBuilder], DeltaMergeBuilder],
    vectors: bool,
) -> None:
    scan = spark.read.parquet(files)
    found = []
    for name, changes in (("scan", scan), ("kept", scan.localCheckpoint())):
        table = make(spark, tmp_path / name, SCHEMA, ROWS, files=2, vectors=vectors)
        report = clauses(table.merge(changes.alias("s"), "t.k = s.k")).run()
        counts = {key: value for key, value in report.metrics.items() if key.startswith("num") and "Bytes" not in key}
        found.append((content(spark, tmp_path / name), counts))
    assert found[0] == found[1]
    assert found[0][1]["numSourceRows"] == len(CHANGES)
    assert [source.facts.evaluation.value for source in sources] == ["deferred", "materialized"]


def test_a_scan_is_kept_where_its_rows_are_looked_at_twice(
    spark: SparkSession, tmp_path: Path, files: str, sources: list[Source], limit: Callable[..., None]
) -> None:
    def merge() -> DeltaMergeBuilder:
        return DeltaTable.forPath(spark, str(tmp_path / "t")).alias("t").merge(spark.read.parquet(files).alias("s"), "t.k = s.k")

    make(spark, tmp_path / "t", SCHEMA, ROWS)
    upsert(merge()).skipUnchanged().execute()
    with conf(spark, {"spark.deltamerge.conflictRetries": "1"}):
        upsert(merge()).execute()
    upsert(merge()).retryConflicts(1).execute()
    upsert(merge()).keepLatest("v").execute()
    with conf(spark, {"spark.sql.files.ignoreMissingFiles": "true"}):
        upsert(merge()).execute()
    DeltaTable.forPath(spark, str(tmp_path / "t")).alias("t").merge(
        spark.read.parquet(files).alias("s"), "t.k > s.k AND s.k = 9"
    ).whenMatchedDelete().execute()
    limit(deferred_share=1e9)  # a source that is small beside the table
    merge().whenMatchedUpdateAll("abs(s.v) > 11").whenNotMatchedInsertAll().execute()
    assert [source.facts.evaluation.value for source in sources] == ["materialized"] * 7


def test_no_filter_is_made_of_a_scan_s_keys(
    spark: SparkSession,
    tmp_path: Path,
    files: str,
    sources: list[Source],
    monkeypatch: pytest.MonkeyPatch,
    limit: Callable[..., None],
) -> None:
    limit(bloom_rows_per_key=0)
    monkeypatch.setattr(runtime_filter, "distinct_hashes", None)
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    upsert(table.merge(spark.read.parquet(files).alias("s"), "t.k = s.k")).execute()
    assert sources[0].facts.evaluation is Evaluation.DEFERRED


def test_rows_of_a_scan_that_hit_one_row_are_shown(
    spark: SparkSession, tmp_path: Path, files: str, sources: list[Source]
) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    twice = spark.read.parquet(files, files).alias("s")
    with pytest.raises(DeltaMultipleMatchException, match="1 target row:\n") as caught:
        table.merge(twice, "t.k = s.k AND s.v = 22").whenMatchedUpdateAll().execute()
    assert str(caught.value).count("w='y'") == 2
    assert sources[0].facts.evaluation is Evaluation.DEFERRED
    assert len(content(spark, tmp_path / "t")) == len(ROWS)


def test_the_table_s_own_files_are_a_scan(spark: SparkSession, tmp_path: Path, sources: list[Source]) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=2)
    itself = deltamerge.read(spark, str(tmp_path / "t")).alias("s")
    merge = table.merge(itself, "t.k = s.k - 1").whenMatchedUpdate(set={"v": "s.v"})
    merge.whenNotMatchedInsert("s.k = 0", {"k": "100"}).execute()
    assert sources[0].facts.evaluation is Evaluation.DEFERRED
    moved = [(n, min(10 * (n + 1), 70), f"w{n}") for n in range(8)]
    assert content(spark, tmp_path / "t") == [*moved, (100, None, None), (None, 0, "null")]


SCANS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "itself": lambda rows: rows,
    "columns": lambda rows: rows.select(F.col("v").alias("n"), "k"),
    "filtered": lambda rows: rows.where("k > 1 AND w IN ('x (', ')') OR upper(w) = 'Y'"),
    "computed": lambda rows: rows.selectExpr("k + 1 AS k", "cast(v AS string) AS v", "concat(w, 'x') AS w", "w AS `a b`"),
    "wide": lambda rows: rows.select("*", *[F.col("v").alias(f"v{n}") for n in range(60)]),
}
OTHERS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "a text like a call": lambda rows: rows.where("w = 'rand()'"),
    "random": lambda rows: rows.withColumn("v", F.rand()),
    "random, wide": lambda rows: rows.select("*", *[F.col("v").alias(f"v{n}") for n in range(60)], F.rand().alias("last")),
    "sampled": lambda rows: rows.sample(0.5),
    "uuid": lambda rows: rows.withColumn("w", F.expr("uuid()")),
    "filtered at random": lambda rows: rows.where(F.rand() > 0.5),
    "python": lambda rows: rows.withColumn("v", F.udf(lambda v: v, "int")(F.col("v"))),
    "map": lambda rows: rows.mapInArrow(lambda batches: batches, SCHEMA),
    "limited": lambda rows: rows.limit(2),
    "deduplicated": lambda rows: rows.dropDuplicates(["k"]),
    "ranked": lambda rows: rows.withColumn("v", F.row_number().over(Window.partitionBy("k").orderBy("v"))),
    "joined": lambda rows: rows.join(rows.select("k"), "k"),
    "subquery": lambda rows: rows.where("v > (SELECT 1 + rand())"),
    "numbered": lambda rows: rows.withColumn("v", F.monotonically_increasing_id()),
    "place": lambda rows: rows.withColumn("w", F.input_file_name()),
    "checkpointed": lambda rows: rows.localCheckpoint(),
    "exploded": lambda rows: rows.withColumn("v", F.explode(F.array("v", "v"))),
    "local": lambda rows: rows.sparkSession.createDataFrame(CHANGES, SCHEMA),
}


@pytest.mark.parametrize("name", [*SCANS, *OTHERS])
def test_what_is_a_scan_of_files(spark: SparkSession, files: str, name: str) -> None:
    with conf(spark, {"spark.sql.debug.maxToStringFields": "1000"}):
        assert is_file_scan((SCANS | OTHERS)[name](spark.read.parquet(files))) is (name in SCANS)


def test_what_spark_does_not_show_is_no_scan(spark: SparkSession, files: str) -> None:
    wide = SCANS["wide"](spark.read.parquet(files)).where("v59 > 1")
    with conf(spark, {"spark.sql.debug.maxToStringFields": "10"}):
        assert not is_file_scan(wide)
    assert inspect._is_repeatable(wide)


@pytest.mark.parametrize("kind", ["scan", "kept", "nested"])
def test_a_scan_that_can_be_held_is_collected(spark: SparkSession, files: str, kind: str) -> None:
    scan = spark.read.parquet(files)
    scan = scan.select("*", F.struct("k").alias("nested")) if kind == "nested" else scan
    before = jobs_of(spark)
    source = evaluated(scan, Budgets(trusted_estimate_bytes=-1), kind != "kept")
    assert source.collected is not None
    assert sorted(source.collected.column("v").to_pylist()) == sorted(v for _, v, _ in CHANGES)
    assert jobs_of(spark) - before <= {"scan": 3, "kept": 2, "nested": 4}[kind]


def test_texts_count_as_long_as_they_are(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    budgets = Budgets(trusted_estimate_bytes=-1, collected_bytes=10_000)
    place = str(tmp_path_factory.mktemp("source") / "texts")
    spark.range(10).selectExpr("id AS k", "repeat('x', 2000) AS w").write.parquet(place)
    source = evaluated(spark.read.parquet(place), budgets)
    assert (source.facts.evaluation, source.rows, source.bytes) == (Evaluation.DEFERRED, 10, 20_160)


def test_texts_are_no_scan(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    place = str(tmp_path_factory.mktemp("source") / "texts")
    spark.createDataFrame(CHANGES, SCHEMA).write.json(place)
    assert not is_file_scan(spark.read.schema(SCHEMA).json(place))


def explained(frame: DataFrame) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as text:
        frame.explain()
    return text.getvalue()


@pytest.mark.parametrize(("rows", "join"), [(1_000, "Broadcast"), (4_000_000, "SortMerge")])
def test_a_large_table_is_not_broadcast(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, join: str
) -> None:
    frames = noted(monkeypatch, spark_join, "change_rows")
    monkeypatch.setattr(FileFacts, "rows", rows)
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=3)
    changes = spark.createDataFrame(CHANGES, SCHEMA).alias("s")
    with conf(spark, {"spark.deltamerge.strategy": "join"}):
        unseen = F.col("t.k") == F.col("s.k").cast("long")
        for condition in ("t.k = s.k", "t.k + 1 = s.k - 1 AND t.k < s.v", unseen, "t.k > s.k AND t.k < s.v"):
            table.merge(changes, condition).whenMatchedDelete("s.v < 0").whenNotMatchedInsertAll("s.v < 0").execute()
    plans = [explained(frame) for frame in frames]
    assert [join in plan for plan in plans] == [True, True, True, join == "Broadcast"]
    assert not any("Cartesian" in plan for plan in plans)
