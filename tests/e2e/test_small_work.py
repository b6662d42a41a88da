"""What is small is matched in this process, by what is read of the files, not by how large they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from deltamerge.errors import DeltaMergeError
from deltamerge.merge.execute.attempts import Ran
from deltamerge.worker.scan.store import DataStore
from tests.e2e.counting import jobs_of
from tests.e2e.tables import content, make
from tests.live import ship_live_code

SCHEMA = "k long, " + ", ".join(f"w{n} string" for n in range(5))
ROWS = [(k, *(f"{k * 7919 * n % 1_000_003:x}" * 4 for n in range(1, 6))) for k in range(400)]

pytestmark = pytest.mark.classic


@pytest.mark.parametrize(
    "case", ["keys", "keys, copied on write", "all columns", "texts", "large", "many rows", "many files", "far files"]
)
def test_keys_of_large_files_are_matched_here(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: Callable[..., None], case: str
) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=4, vectors=case != "keys, copied on write")
    size = sum(file.stat().st_size for file in (tmp_path / "t").glob("*.parquet"))
    most = {"large": size / 100, "many rows": 8 * 300 - 1}.get(case, size / 4)
    assert most > size * 8 / (8 + 5 * 32) or case == "large"  # the keys' share of the files, as nulls and constants make it
    limit(
        driver_match_bytes=most,
        open_bytes=size if case == "many files" else 0,
        request_bytes=size if case == "far files" else 0,
    )
    ship_live_code(monkeypatch)
    monkeypatch.setattr(DataStore, "remote", property(lambda _: case == "far files"))
    changes = [(row[0], row[1]) for row in ROWS[90:210]]
    spark.createDataFrame(changes, "k long, w0 string").coalesce(1).write.parquet(str(tmp_path / "s"))
    condition = "t.w0 = s.w0" if case == "texts" else "t.k = s.k"
    merge = table.merge(spark.read.parquet(str(tmp_path / "s")).alias("s"), condition)
    merge = merge.whenMatchedUpdate(set={"w0": "'new'"}) if case == "all columns" else merge.whenMatchedDelete()
    plain = merge.explain()
    before = jobs_of(spark)
    merge.execute()
    assert jobs_of(spark) - before == (0 if case.startswith("keys") else 1), plain
    found = content(spark, tmp_path / "t")
    assert len(found) == (400 if case == "all columns" else 280)
    assert sum(row[1] == "new" for row in found) == (120 if case == "all columns" else 0)


@pytest.mark.parametrize("times", [8, 1])
def test_kept_columns_of_marked_rows_are_read_here_where_spark_has_one_machine(
    spark: SparkSession, tmp_path: Path, limit: Callable[..., None], times: int
) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=4, vectors=True)
    size = sum(file.stat().st_size for file in (tmp_path / "t").glob("*.parquet"))
    limit(driver_write_bytes=size // 4, local_mark_times=times)
    before = jobs_of(spark)
    table.update("t.k % 10 = 3", {"w0": "'new'"})
    assert jobs_of(spark) - before == (0 if times == 8 else 1)
    assert sum(row[1] == "new" for row in content(spark, tmp_path / "t")) == 40


LARGE = {"trusted_estimate_bytes": 0, "deferred_share": 0}
CHANGED = [(k, *("new" * 300 for _ in range(5))) for k in range(100, 500)]


@pytest.fixture
def changes(spark: SparkSession, tmp_path: Path) -> Path:
    """A source of one file, of whose texts each is in it once."""
    spark.createDataFrame(CHANGED, SCHEMA).coalesce(1).write.parquet(str(tmp_path / "s"))
    (file,) = (tmp_path / "s").glob("*.parquet")
    assert 20 * file.stat().st_size < 400 * 5 * 900
    return file


@pytest.mark.parametrize("vectors", [False, True], ids=["copied", "vectors"])
@pytest.mark.parametrize("case", ["here", "files that tasks write", "larger than its files"])
def test_a_source_as_large_as_the_table_is_merged_here(
    spark: SparkSession, tmp_path: Path, changes: Path, limit: Callable[..., None], case: str, vectors: bool
) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=4, vectors=vectors)
    size = sum(file.stat().st_size for file in (tmp_path / "t").glob("*.parquet"))
    limits = {
        "here": {"driver_write_bytes": size - 1},  # with a local master it is twice as much
        "files that tasks write": {"driver_write_bytes": size // 2 - 1},
        "larger than its files": {"collected_bytes": 400 * 5 * 800},
    }
    limit(**LARGE, **limits[case])
    merge = table.merge(spark.read.parquet(str(changes)).alias("s"), "t.k = s.k").whenMatchedUpdateAll().whenNotMatchedInsertAll()
    is_read_here = case != "files that tasks write"
    assert ("source: its Parquet files are read in the driver" in merge.explain()) is is_read_here
    before = jobs_of(spark)
    found = merge.run()
    assert (jobs_of(spark) == before, found.strategy) == ((True, "broadcast") if case == "here" else (False, "range_exchange"))
    assert content(spark, tmp_path / "t") == sorted([*ROWS[:100], *CHANGED])


@pytest.mark.parametrize("vectors", [False, True], ids=["copied", "vectors"])
@pytest.mark.parametrize("strategy", ["range_exchange", "hash_exchange"])
def test_workers_read_a_source_again_that_the_driver_can_not_merge(
    spark: SparkSession, tmp_path: Path, changes: Path, runs: list[Ran], limit: Callable[..., None], strategy: str, vectors: bool
) -> None:
    is_ranged = strategy == "range_exchange"
    rows = ROWS if is_ranged else sorted(ROWS, key=lambda row: row[0] % 4)
    table = make(spark, tmp_path / "t", SCHEMA, rows, files=4, vectors=vectors)
    limit(**LARGE, match_bytes=1, hash_keys_per_task=1, range_task_bytes=1)
    merge = table.merge(spark.read.parquet(str(changes)).alias("s"), "t.k = s.k").whenMatchedUpdateAll().whenNotMatchedInsertAll()
    plan = merge.explain()
    assert merge.run().strategy == strategy
    (ran,) = runs
    assert f"2. {ran.attempt.text}" in plan  # what is explained is what runs
    assert "files read by workers" in ran.attempt.text
    assert content(spark, tmp_path / "t") == sorted([*ROWS[:100], *CHANGED])


def test_a_source_that_is_gone_leaves_the_table_as_it_was(
    spark: SparkSession, tmp_path: Path, changes: Path, limit: Callable[..., None]
) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=4)
    limit(**LARGE)
    merge = table.merge(spark.read.parquet(str(changes)).alias("s"), "t.k = s.k").whenMatchedUpdateAll()
    assert "source: its Parquet files are read in the driver" in merge.explain()
    changes.unlink()
    with pytest.raises(DeltaMergeError, match=changes.name) as raised:
        merge.run()
    assert raised.value.condition == "FAILED_READ_FILE.FILE_NOT_EXIST"
    assert content(spark, tmp_path / "t") == ROWS
