"""Writers that race for one table: who reports success is in it exactly once, who raises a conflict left nothing."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable as DeltaRsTable
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from deltamerge.exceptions import DeltaConcurrentModificationException
from deltamerge.tables import DeltaTable
from tests.faults.processes import READY, Child
from tests.faults.racing import COMMITTING, SHARED, upsert

WRITERS = 10


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A table with the row that all writers update, and one that none does."""
    write_deltalake(tmp_path / "t", pa.table({"id": [SHARED, 1], "n": [0, 0]}))
    return tmp_path / "t"


def test_ten_processes_with_a_shared_key(path: Path, tmp_path: Path, server: str) -> None:
    with ExitStack() as stack:
        children = [
            stack.enter_context(Child("tests.faults.racing", path, number, server, folder=tmp_path / "children"))
            for number in range(WRITERS)
        ]
        for said in (READY, COMMITTING):
            assert [child.hear() for child in children] == [said] * WRITERS
            for child in children:
                child.tell("go")
        outcomes = [child.hear() for child in children]
        for child in children:
            child.tell("go")
        later = [child.rest() for child in children]
    winners = [number for number, outcome in enumerate(outcomes) if not outcome]
    assert len(winners) == 1
    check_conflicts([outcome for outcome in outcomes if outcome])
    check_conflicts([outcome for attempts in later for outcome in attempts[:-1]])
    assert all(not attempts[-1] for attempts in later)
    keys = [10 + 2 * number for number in winners] + [11 + 2 * number for number in range(WRITERS)]
    check_table(path, keys, len(keys))


def test_threads_with_a_shared_key(spark: SparkSession, path: Path) -> None:
    def merge(key: int) -> bool:
        try:
            upsert(spark, str(path), key).execute()
        except DeltaConcurrentModificationException as error:
            check_conflicts([json.dumps({"classes": [kind.__name__ for kind in type(error).__mro__], "text": str(error)})])
            return False
        return True

    with ThreadPoolExecutor(WRITERS) as pool:
        outcomes = list(pool.map(merge, range(10, 10 + 2 * WRITERS)))
    keys = [key for key, success in zip(range(10, 10 + 2 * WRITERS), outcomes, strict=True) if success]
    assert keys
    check_table(path, keys, len(keys))


def test_threads_with_keys_of_their_own_all_win(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    rows = {"id": list(range(WRITERS)), "p": [str(number) for number in range(WRITERS)], "n": [0] * WRITERS}
    write_deltalake(path, pa.table(rows), partition_by=["p"])

    def merge(number: int) -> int:
        source = spark.createDataFrame(pa.table({"id": [number], "p": [str(number)], "n": [1]})).alias("s")
        table = DeltaTable.forPath(spark, str(path)).alias("t")
        return table.merge(source, "t.p = s.p and t.id = s.id").whenMatchedUpdateAll().run().version or 0

    with ThreadPoolExecutor(WRITERS) as pool:
        versions = list(pool.map(merge, range(WRITERS)))
    assert sorted(versions) == list(range(1, WRITERS + 1))
    assert DeltaRsTable(path).to_pyarrow_table()["n"].to_pylist() == [1] * WRITERS


def check_conflicts(outcomes: list[str]) -> None:
    """Each is a Concurrent...Exception, catchable as delta-spark's are, that names the winner and says what to do."""
    for outcome in outcomes:
        error = json.loads(outcome)
        assert error["classes"][0].startswith("Concurrent"), error
        assert {"DeltaConcurrentModificationException", "PySparkException"} <= set(error["classes"])
        assert "committed version" in error["text"]
        assert "Run the operation again" in error["text"]


def check_table(path: Path, keys: list[int], merges: int) -> None:
    """The table has exactly these keys, each once, has counted every merge, and holds no file that no commit names."""
    table = DeltaRsTable(path)
    rows = table.to_pyarrow_table().sort_by("id")
    assert rows["id"].to_pylist() == [SHARED, 1, *sorted(keys)]
    assert rows["n"].to_pylist() == [merges, 0, *[1] * len(keys)]
    assert table.version() == merges
    commits = [line for file in (path / "_delta_log").glob("*.json") for line in file.read_text().splitlines()]
    named = {action["add"]["path"] for action in map(json.loads, commits) if "add" in action}
    assert {file.name for file in path.glob("*.parquet")} == named
    assert not list((path / "_delta_log").glob(".*.tmp"))
