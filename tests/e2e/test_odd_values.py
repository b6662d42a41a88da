"""Merges of values that a type holds only in part: null structs, texts with a length, partition moments without a zone."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.exceptions import DeltaInvariantViolationException
from deltamerge.spark.session import settings
from deltamerge.tables import DeltaTable
from tests.e2e.commits import put_commit
from tests.e2e.refusals import refused
from tests.e2e.tables import content, make, source

pytestmark = pytest.mark.usefixtures("strategy")


def test_a_null_struct_whose_fields_must_not_be_null(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", "id int, st struct<a:int>", [(1, (1,))])
    changes = spark.sql("select 1 as id, named_struct('a', 2) as st union all select 2, null")
    table.merge(changes.alias("s"), "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert content(spark, tmp_path / "t") == [(1, (2,)), (2, None)]


def test_a_text_that_is_too_long_for_its_column_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(spark, path, "id int, v string", [(1, "x")])
    _edit_log(path, '{\\"name\\":\\"v\\",\\"type\\":\\"string\\",\\"nullable\\":true,\\"metadata\\":{}}', _VARCHAR)
    table = DeltaTable.forPath(spark, str(path)).alias("t")
    fits, long = (source(spark, "id int, v string", [(1, text)]) for text in ("é\u00fc3", "four"))
    table.merge(fits, "t.id = s.id").whenMatchedUpdateAll().execute()
    assert content(spark, path) == [(1, "é\u00fc3")]
    with refused(path, DeltaInvariantViolationException, "DELTA_EXCEED_CHAR_VARCHAR_LIMIT", "four", "column v"):
        table.merge(long, "t.id = s.id").whenMatchedUpdateAll().execute()


@pytest.fixture
def zone_of_machine(spark: SparkSession) -> Iterator[None]:
    """A machine in New York, and a session that sets no time zone."""
    zones = spark.sparkContext._jvm.java.util.TimeZone
    before = zones.getDefault()
    zones.setDefault(zones.getTimeZone("America/New_York"))
    spark.conf.unset("spark.sql.session.timeZone")
    settings._zone_of_machine.cache_clear()
    yield
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    zones.setDefault(before)
    settings._zone_of_machine.cache_clear()


@pytest.mark.classic
def test_a_session_that_sets_no_zone_has_that_of_its_machine(spark: SparkSession, tmp_path: Path, zone_of_machine: None) -> None:
    path, now = tmp_path / "t", time.time()
    _merge_by_a_moment_without_a_zone(spark, path)
    for version, ago in ((0, 1000), (1, 500)):
        os.utime(path / "_delta_log" / f"{version:020}.json", (now - ago, now - ago))
    text = datetime.fromtimestamp(now - 750, ZoneInfo("America/New_York")).strftime("%Y-%m-%d %H:%M:%S")
    assert [row.id for row in deltamerge.read(spark, str(path), timestamp=text).collect()] == [1]


def test_a_partition_moment_without_a_zone_is_one_of_the_session(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        _merge_by_a_moment_without_a_zone(spark, tmp_path / "t")
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def _merge_by_a_moment_without_a_zone(spark: SparkSession, path: Path) -> None:
    frame = spark.sql("select 1 as id, timestamp'2024-01-02 00:00:00Z' as ts")
    deltamerge.write(frame, str(path), partition_by=["ts"])
    _edit_log(path, '"ts":"2024-01-02T00:00:00.000000Z"', '"ts":"2024-01-02 00:00:00"')
    changes = spark.sql("select 5 as id, timestamp'2024-01-02 00:00:00' as ts")
    table = DeltaTable.forPath(spark, str(path)).alias("t")
    report = table.merge(changes.alias("s"), "t.ts = s.ts").whenMatchedUpdate(set={"id": "s.id"}).run()
    assert report.updated == 1


@pytest.mark.parametrize("schema", ["id int, m map<string,int>", "m map<string,int>"])
def test_many_inserted_rows_with_maps(spark: SparkSession, tmp_path: Path, limit: Callable[..., None], schema: str) -> None:
    limit(insert_task_bytes=1)
    row = (1, {"k": 1})[-len(schema.split(", ")) :]
    table = make(spark, tmp_path / "t", schema, [row])
    table.merge(source(spark, schema, [row, row]), "false").whenNotMatchedInsertAll().execute()
    assert deltamerge.read(spark, str(tmp_path / "t")).collect() == [row] * 3


_VARCHAR = json.dumps(
    json.dumps(
        {"name": "v", "type": "string", "nullable": True, "metadata": {"__CHAR_VARCHAR_TYPE_STRING": "varchar(3)"}},
        separators=(",", ":"),
    )
)[1:-1]


def _edit_log(path: Path, old: str, new: str) -> None:
    """The table's first commit with a part of its text exchanged."""
    commit = path / "_delta_log" / f"{0:020}.json"
    text = commit.read_text()
    assert old in text
    put_commit(commit, text.replace(old, new))


_CHAR = _VARCHAR.replace("varchar(3)", "char(3)")


@pytest.mark.parametrize("strategy", ["auto", "join"])
@pytest.mark.parametrize("partition_by", [[], ["v"]])
def test_a_char_is_read_with_its_blanks(spark: SparkSession, tmp_path: Path, strategy: str, partition_by: list[str]) -> None:
    make(spark, tmp_path / "t", "id int, v string", [(1, "ab")], partition_by=partition_by)
    plain = json.dumps(json.dumps({"name": "v", "type": "string", "nullable": True, "metadata": {}}, separators=(",", ":")))
    _edit_log(tmp_path / "t", plain[1:-1], _CHAR)
    table = DeltaTable.forPath(spark, str(tmp_path / "t")).alias("t")
    spark.conf.set("spark.deltamerge.strategy", strategy)
    try:
        report = table.merge(source(spark, "v string", [("ab",)]), "t.v = s.v").whenMatchedDelete().run()
        assert report.deleted == 0
        changes = source(spark, "v string, n int", [("ab ", 2)])
        update = table.merge(changes, "t.v = s.v").whenMatchedUpdate("length(t.v) = 3", {"id": "length(t.v) + s.n"})
        assert update.run().updated == 1
        table.update("v = 'ab'", {"id": "id + 1"})  # a literal is padded by Spark
    finally:
        spark.conf.unset("spark.deltamerge.strategy")
    assert content(spark, tmp_path / "t") == [(6, "ab ")]


@pytest.mark.parametrize("vectors", [False, True], ids=["by Spark", "by Arrow"])
def test_a_char_within_a_struct_is_read_with_its_blanks(spark: SparkSession, tmp_path: Path, vectors: bool) -> None:
    path = tmp_path / "t"
    rows = spark.sql("SELECT 1 AS id, named_struct('c', 'x', 'a', array('yz', null)) AS v UNION ALL SELECT 2, null")
    deltamerge.write(rows.coalesce(1), str(path), properties={"delta.enableDeletionVectors": str(vectors).lower()})
    plain, sized = (
        '\\"metadata\\":{}}]}',
        '\\"metadata\\":{\\"__CHAR_VARCHAR_TYPE_STRING\\":\\"struct<c:char(3),a:array<char(4)>>\\"}}]}',
    )
    log = path / "_delta_log" / f"{0:020}.json"
    before, found, after = log.read_text().rpartition(plain)
    put_commit(log, before + sized + after)
    assert found
    if vectors:
        DeltaTable.forPath(spark, str(path)).delete("id = 2")
    assert content(spark, path) == [(1, ("x  ", ["yz  ", None])), (2, None)][: 1 if vectors else 2]


def test_zero_and_minus_zero_are_two_partitions(spark: SparkSession, tmp_path: Path) -> None:
    """They compare equal, and each row keeps its own: into a new partition, and out of the other's."""
    rows = [(1, 0.0, 1), (2, -0.0, 1), (3, -0.0, 2)]
    table = make(spark, tmp_path / "t", "id int, p double, q int", rows, partition_by=["p", "q"])
    assert {str(row[1]) for row in content(spark, tmp_path / "t")} == {"0.0", "-0.0"}
    changes = source(spark, "id int, p double", [(2, 0.0), (3, -0.0)])
    merge = table.merge(changes, "t.id = s.id").whenMatchedUpdate(set={"p": "s.p"})
    merge.whenNotMatchedBySourceUpdate(set={"q": "2"}).execute()
    found = [(key, str(p), q) for key, p, q in content(spark, tmp_path / "t")]
    assert found == [(1, "0.0", 2), (2, "0.0", 1), (3, "-0.0", 2)]
