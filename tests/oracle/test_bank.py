"""deltamerge, delta-spark and delta-rs move money between accounts of one table at the same time: none is lost, none is made.

A transfer is two rows of one merge. What was reported as done is in the balances once, what was refused is not; each version
that somebody reads has the same total.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable as RustTable
from deltalake.exceptions import CommitFailedError, DeltaError
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.exceptions import DeltaConcurrentModificationException
from deltamerge.tables import DeltaTable
from tests.oracle.races import CONFLICTS

BRANCHES, ACCOUNTS, START = 60, 4, 1_000
SECONDS = float(os.environ.get("DELTAMERGE_SOAK", "15"))
SCHEMA = "id BIGINT, branch BIGINT, amount BIGINT"
TARGET = "t.id = s.id AND t.branch = {branch}"

Transfer = Callable[[SparkSession, Path, int, pa.Table], None]


def by_deltamerge(spark: SparkSession, path: Path, branch: int, rows: pa.Table) -> None:
    table = DeltaTable.forPath(spark, str(path)).alias("t")
    merge = table.merge(spark.createDataFrame(rows).alias("s"), TARGET.format(branch=branch))
    merge.whenMatchedUpdate(set={"amount": "t.amount + s.amount"}).execute()


def by_delta_spark(spark: SparkSession, path: Path, branch: int, rows: pa.Table) -> None:
    from delta.tables import DeltaTable as SparkTable

    table = SparkTable.forPath(spark, str(path)).alias("t")
    merge = table.merge(spark.createDataFrame(rows).alias("s"), TARGET.format(branch=branch))
    merge.whenMatchedUpdate(set={"amount": "t.amount + s.amount"}).execute()


def by_delta_rs(_: SparkSession, path: Path, branch: int, rows: pa.Table) -> None:
    time.sleep(0.1)  # it would win each race
    merge = opened(path).merge(rows, TARGET.format(branch=branch), source_alias="s", target_alias="t")
    merge.when_matched_update({"amount": "t.amount + s.amount"}).execute()


def opened(path: Path) -> RustTable:
    """The table in delta-rs, which fails where its listing shows the checksum file of a version and not yet the commit."""
    for _ in range(100):
        try:
            return RustTable(str(path))
        except DeltaError as error:
            if "is newer than log segment version" not in str(error):
                raise
    raise AssertionError(f"delta-rs can't open {path}")


WRITERS: dict[str, tuple[Transfer, int]] = {
    "deltamerge": (by_deltamerge, 3),
    "delta-spark": (by_delta_spark, 3),
    "delta-rs": (by_delta_rs, 2),
}


@dataclass
class Ledger:
    """What the writers of one engine were told: transfers that are done, by account, and how often others won."""

    done: int = 0
    lost: int = 0
    moved: Counter[int] = field(default_factory=Counter)


def is_conflict(error: Exception) -> bool:
    ours_or_rusts = isinstance(error, DeltaConcurrentModificationException | CommitFailedError)
    return ours_or_rusts or type(error).__name__ in {*CONFLICTS, "ConcurrentWriteException"}


def transfers(spark: SparkSession, path: Path, transfer: Transfer, until: float, seed: int) -> Ledger:
    """Move money between accounts of one branch, again and again."""
    ledger, chance = Ledger(), random.Random(seed)
    while time.monotonic() < until:
        branch, amount = chance.randrange(BRANCHES), chance.randint(1, 9)
        giver, taker = (branch * ACCOUNTS + number for number in chance.sample(range(ACCOUNTS), 2))
        rows = pa.table({"id": [giver, taker], "branch": [branch] * 2, "amount": [-amount, amount]})
        try:
            transfer(spark, path, branch, rows)
        except Exception as error:
            if not is_conflict(error):
                raise
            ledger.lost += 1
            continue
        ledger.done += 1
        ledger.moved.update({giver: -amount, taker: amount})
    return ledger


def totals(path: Path, until: float) -> int:
    """How often the table was read, each time with the same total."""
    count = 0
    while time.monotonic() < until:
        rows = opened(path).to_pyarrow_table()
        assert (rows.num_rows, sum(rows["amount"].to_pylist())) == (BRANCHES * ACCOUNTS, START * BRANCHES * ACCOUNTS)
        count += 1
    return count


@pytest.mark.parametrize("properties", [{}, {"delta.checkpointInterval": "5"}], ids=["usual", "checkpoints"])
def test_three_engines_lose_and_make_no_money(spark: SparkSession, tmp_path: Path, properties: dict[str, str]) -> None:
    path = tmp_path / "bank"
    accounts = pa.table({"id": range(BRANCHES * ACCOUNTS), "amount": [START] * BRANCHES * ACCOUNTS})
    accounts = accounts.append_column("branch", pa.array([number // ACCOUNTS for number in range(accounts.num_rows)]))
    deltamerge.write(spark.createDataFrame(accounts), str(path), partition_by=["branch"], properties=properties)
    until = time.monotonic() + SECONDS
    with ThreadPoolExecutor(16) as pool:
        running = {
            engine: [pool.submit(transfers, spark, path, transfer, until, seed) for seed in range(threads)]
            for engine, (transfer, threads) in WRITERS.items()
        }
        reading = pool.submit(totals, path, until)
        ledgers = {engine: [future.result() for future in futures] for engine, futures in running.items()}
        reads = reading.result()
    done = {engine: sum(ledger.done for ledger in found) for engine, found in ledgers.items()}
    lost = {engine: sum(ledger.lost for ledger in found) for engine, found in ledgers.items()}
    print(f"{done} done, {lost} lost, {reads} reads of {SECONDS} s")
    expected = Counter(dict.fromkeys(range(BRANCHES * ACCOUNTS), START))
    for found in ledgers.values():
        for ledger in found:
            expected.update(ledger.moved)
    assert made_by(path) == Counter(done)
    assert {row.id: row.amount for row in deltamerge.read(spark, str(path)).collect()} == expected
    assert {row.id: row.amount for row in spark.read.format("delta").load(str(path)).collect()} == expected
    # In so few seconds delta-spark, the slowest, may lose each race.
    assert all(done[engine] + lost[engine] for engine in WRITERS)
    assert done["deltamerge"]
    assert done["delta-rs"]


def made_by(path: Path) -> Counter[str]:
    """How many transfers of each engine the log has. No version is missing."""
    commits = sorted((path / "_delta_log").glob("*.json"))
    assert [int(commit.stem) for commit in commits] == list(range(len(commits)))
    found = Counter[str]()
    for commit in commits[1:]:
        said = [json.loads(line)["commitInfo"] for line in commit.read_text().splitlines() if "commitInfo" in line]
        found[_engine(said[0])] += 1
    return found


def _engine(info: dict[str, object]) -> str:
    said = f"{info.get('engineInfo', '')} {info.get('clientVersion', '')}".lower()
    return next(
        (engine for engine, word in (("deltamerge", "deltamerge"), ("delta-rs", "delta-rs")) if word in said), "delta-spark"
    )
