"""Clauses that call COALESCE or IF, or ask for the time: Arrow evaluates them as Spark does, where the functions are Spark's."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import deltamerge
from deltamerge.tables import DeltaMergeBuilder, DeltaTable
from tests.e2e.counting import jobs_of
from tests.e2e.tables import conf, make

OLD = date(2020, 1, 1)
ROWS = [(id, None if id % 3 == 0 else id * 10, "a", datetime(2020, 1, 1), OLD) for id in range(8)]
CHANGES = [(1, None, "D"), (2, 7, None), (3, None, "U"), (4, 9, "U"), (10, None, None), (11, 5, "I"), (12, 6, "D")]
NOW = {"at": "current_timestamp()", "day": "current_date"}


def changes(spark: SparkSession, path: Path) -> DataFrame:
    """What a database says that it has changed."""
    ids, counts, operations = zip(*CHANGES, strict=True)
    columns = {"id": pa.array(ids, pa.int32()), "n": pa.array(counts, pa.int64()), "op": pa.array(operations, pa.string())}
    pq.write_table(pa.table(columns), path)
    return spark.read.parquet(str(path)).alias("s")


def merge_of(spark: SparkSession, path: Path) -> DeltaMergeBuilder:
    """A merge of the changes into a new table."""
    table = make(spark, path, "id int, n bigint, w string, at timestamp, day date", ROWS, files=2)
    merge = table.merge(changes(spark, path.with_suffix(".parquet")), "t.id = s.id")
    merge = merge.whenMatchedDelete("coalesce(s.op, 'U') = 'D' AND t.at < now()")
    merge = merge.whenMatchedUpdate("t.day < current_date()", {"n": "coalesce(s.n, t.n)", "w": "if(s.n > 8, 'b', 'c')", **NOW})
    return merge.whenNotMatchedInsert(
        "nvl(s.op, 'I') <> 'D'", {"id": "s.id", "n": "ifnull(s.n, 0)", "w": "CASE WHEN s.op IS NULL THEN 'x' END", **NOW}
    )


@pytest.mark.connect
@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago"])
def test_calls_end_as_by_a_join_at_one_time(spark: SparkSession, tmp_path: Path, zone: str) -> None:
    ends = []
    for strategy in ("auto", "join"):
        with conf(spark, {"spark.deltamerge.strategy": strategy, "spark.sql.session.timeZone": zone}):
            before = datetime.now(UTC) - timedelta(milliseconds=1)
            merge_of(spark, tmp_path / strategy).execute()
            rows = deltamerge.read(spark, str(tmp_path / strategy))
            found = rows.selectExpr("id", "n", "w", "unix_micros(at)", "day").orderBy("id").collect()
        (micros,) = {row[3] for row in found if row[4] != OLD}
        now = datetime.fromtimestamp(micros / 1e6, UTC)
        assert before <= now <= datetime.now(UTC)
        assert {row[4] for row in found} == {OLD, now.astimezone(ZoneInfo(zone)).date()}
        ends.append([(*row[:3], row[4] == OLD) for row in found])
    assert ends[0] == ends[1]
    assert ends[0] == [
        *((0, None, "a", True), (2, 7, "c", False), (3, None, "c", False), (4, 9, "b", False)),
        *((5, 50, "a", True), (6, None, "a", True), (7, 70, "a", True), (10, 0, "x", False), (11, 5, None, False)),
    ]


@pytest.mark.classic
@pytest.mark.local(reason="a small table is read and written here where it lies on a disk")
def test_calls_take_no_job(spark: SparkSession, tmp_path: Path) -> None:
    merge = merge_of(spark, tmp_path / "t")
    before = jobs_of(spark)
    merge.execute()
    assert jobs_of(spark) == before


ORDER = "spark.sql.functionResolution.sessionOrder"


@pytest.mark.classic
@pytest.mark.parametrize("order", [None, "first", "last"])
def test_functions_of_the_session_are_called_where_spark_calls_them(
    spark: SparkSession, tmp_path: Path, order: str | None
) -> None:
    """Which is so before Spark 4.2, and where the session comes first."""
    session = spark.newSession()
    session.udf.register("nvl", lambda a, b: 42, "bigint")
    session.udf.register("now", lambda: datetime(2001, 1, 1), "timestamp")
    with conf(session, {} if order is None else {ORDER: order}):
        said = session.sql("SELECT nvl(1L, 2L), year(now())").collect()[0]
        assert pyspark.__version__ >= "4.2" or said == (42, 2001)
        for strategy in ("auto", "join"):
            make(session, tmp_path / strategy, "id int, n bigint, at timestamp", [(1, 2, None)])
            table = DeltaTable.forPath(session, str(tmp_path / strategy)).alias("t")
            with conf(session, {"spark.deltamerge.strategy": strategy}):
                merge = table.merge(session.sql("SELECT 1 AS id, 1L AS n").alias("s"), "t.id = s.id")
                merge.whenMatchedUpdate(set={"n": "nvl(s.n, t.n)", "at": "now()"}).execute()
            assert table.toDF().selectExpr("n", "year(at)").collect() == [said]


def test_a_call_that_spark_refuses_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    for call in ("coalesce()", "if(true, 1)", "now(1)", "nvl(s.n)"):
        merge = merge_of(spark, tmp_path / call[:3]).whenMatchedUpdate(set={"n": call})
        with pytest.raises(PySparkException):
            merge.execute()
