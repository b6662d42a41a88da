"""A disk that refuses: the merge says why and what to do, the table is as it was, and what was written is gone again."""

from __future__ import annotations

import errno
import json
import logging
import os
import random
import string
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable as DeltaRsTable
from deltalake import write_deltalake
from pyspark.errors import SparkRuntimeException
from pyspark.sql import DataFrame, SparkSession

import deltamerge.storage.local
from deltamerge.budgets import using
from deltamerge.tables import DeltaMergeBuilder, DeltaTable
from deltamerge.worker.scan.store import DataStore
from tests.e2e.refusals import files_below, refused
from tests.faults.processes import Child
from tests.live import ship_live_code

REFUSED = "DELTAMERGE_STORAGE_REFUSED"


def table_of(path: Path, *, files: int = 2, rows: int = 3, width: int = 1, partitioned: bool = False) -> Path:
    """A table of `files` files: ids from 1, 1001, ..., `name` random and `width` long, `p` the file's number."""
    letters = random.Random(0)
    for number in range(files):
        names = ["".join(letters.choices(string.ascii_letters, k=width)) for _ in range(rows)]
        ids = pa.array(range(number * 1000 + 1, number * 1000 + 1 + rows), pa.int32())
        columns = {"id": ids, "name": names, **({"p": [f"{number}"] * rows} if partitioned else {})}
        write_deltalake(path, pa.table(columns), mode="append", partition_by=["p"] if partitioned else None)
    return path


def upsert(spark: SparkSession, path: Path, source: DataFrame) -> DeltaMergeBuilder:
    table = DeltaTable.forPath(spark, str(path)).alias("t")
    return table.merge(source.alias("s"), "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll()


@pytest.fixture
def changes(spark: SparkSession) -> DataFrame:
    """Updates a row of each of two files and inserts one."""
    return spark.createDataFrame(pa.table({"id": pa.array([1, 1001, 9999], pa.int32()), "name": ["one", "many", "new"]}))


def test_a_file_where_a_partition_folder_must_be(spark: SparkSession, tmp_path: Path) -> None:
    path = table_of(tmp_path / "t", partitioned=True)
    (path / "p=new").write_text("in the way")
    rows = {"id": pa.array([1, 1001, 9999], pa.int32()), "name": ["one", "many", "new"], "p": ["0", "1", "new"]}
    with refused(path, SparkRuntimeException, REFUSED, str(path / "p=new"), hint="permissions of the table's folder"):
        upsert(spark, path, spark.createDataFrame(pa.table(rows))).execute()


def test_a_file_where_a_partition_folder_must_be_for_a_worker(spark: SparkSession, tmp_path: Path) -> None:
    path = table_of(tmp_path / "t", partitioned=True)
    (path / "p=new").write_text("in the way")
    rows = {"id": pa.array([9999], pa.int32()), "name": ["new"], "p": ["new"]}
    spark.conf.set("spark.deltamerge.strategy", "join")
    try:
        with refused(path, SparkRuntimeException, REFUSED, str(path / "p=new"), hint="permissions of the table's folder"):
            upsert(spark, path, spark.createDataFrame(pa.table(rows))).execute()
    finally:
        spark.conf.unset("spark.deltamerge.strategy")


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Nothing can be created in the folder: by its mode, or for root, who may do all, by the immutable attribute."""
    if os.geteuid() != 0:
        folder.chmod(0o555)
        undo: Callable[[], object] = lambda: folder.chmod(0o755)  # noqa: E731
    elif _chattr("+i", folder):
        undo = lambda: _chattr("-i", folder)  # noqa: E731
    else:
        pytest.skip("root writes into any folder, and this file system has no immutable attribute")
    try:
        yield
    finally:
        undo()


def _chattr(change: str, folder: Path) -> bool:
    try:
        return subprocess.run(["chattr", change, folder], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def test_a_read_only_table(spark: SparkSession, tmp_path: Path, changes: DataFrame) -> None:
    path = table_of(tmp_path / "t")
    with read_only(path), refused(path, SparkRuntimeException, REFUSED, str(path), hint="permissions of the table's folder"):
        upsert(spark, path, changes).execute()


def test_a_read_only_log(spark: SparkSession, tmp_path: Path, changes: DataFrame) -> None:
    path = table_of(tmp_path / "t")
    log = path / "_delta_log"
    with read_only(log), refused(path, SparkRuntimeException, REFUSED, str(log), hint="Grant this user permission"):
        upsert(spark, path, changes).execute()
    assert upsert(spark, path, changes).run().version == 2


class FullDisk:
    """A file on a disk that has room for `room` bytes more."""

    def __init__(self, path: str, room: int) -> None:
        self._file = open(path, "wb")  # noqa: SIM115
        self._room = room

    def write(self, data: bytes) -> int:
        self._room -= len(data)
        if self._room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._file.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@pytest.mark.parametrize("room", [0, 100, 300], ids=["header", "rows", "footer"])
def test_a_disk_that_fills_up_with_data_files(
    spark: SparkSession, tmp_path: Path, changes: DataFrame, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    path = table_of(tmp_path / "t", files=3)
    made: list[str] = []

    def create(store: DataStore, name: str) -> Any:
        made.append(name)
        return pa.PythonFile(FullDisk(f"{store.root}/{name}", room if len(made) > 1 else 1 << 20), mode="w")

    ship_live_code(monkeypatch)
    monkeypatch.setattr(DataStore, "create", create)
    no_space = refused(path, SparkRuntimeException, REFUSED, "No space left on device", str(path / "part-"), hint="space")
    with using(small_file_bytes=0), no_space:  # each file is written by itself
        upsert(spark, path, changes).execute()
    assert len(made) > 1


@pytest.mark.parametrize(
    ("call", "named", "hint"),
    [
        ("link", f"_delta_log/{2:020d}.json", "free some space and run again"),
        ("fsync", f"_delta_log/{2:020d}.json", "free some space and run again"),
        ("fsync", "part-", "space and permissions of the table's folder"),
    ],
)
def test_a_disk_that_is_full_when_the_commit_or_its_data_are_written(
    spark: SparkSession, tmp_path: Path, changes: DataFrame, monkeypatch: pytest.MonkeyPatch, call: str, named: str, hint: str
) -> None:
    path, fsync = table_of(tmp_path / "t"), os.fsync

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def fail_for_some(handle: int) -> None:
        fsync(handle)
        if named.rpartition("/")[2] in os.readlink(f"/proc/self/fd/{handle}"):
            fail()

    with monkeypatch.context() as patch:
        patch.setattr(deltamerge.storage.local.os, call, fail if call == "link" else fail_for_some)
        with refused(path, SparkRuntimeException, REFUSED, str(path / named), "No space left", hint=hint):
            upsert(spark, path, changes).execute()
    assert upsert(spark, path, changes).run().version == 2


def test_a_checkpoint_that_fails_does_not_fail_its_commit(
    spark: SparkSession, tmp_path: Path, changes: DataFrame, caplog: pytest.LogCaptureFixture
) -> None:
    path = table_of(tmp_path / "t")
    DeltaRsTable(path).alter.set_table_properties({"delta.checkpointInterval": "1"})
    checkpoint = path / "_delta_log" / f"{3:020d}.checkpoint.parquet"
    checkpoint.mkdir()
    with caplog.at_level(logging.WARNING, "deltamerge.log"):
        assert upsert(spark, path, changes).run().version == 3
    assert "checkpoint of version 3" in caplog.text
    checkpoint.rmdir()
    assert sorted(DeltaRsTable(path).to_pyarrow_table()["id"].to_pylist()) == [1, 2, 3, 1001, 1002, 1003, 9999]


PLACES = {
    "data file": ("File too large: '{wide}/part-", "permissions of the table's folder"),
    "commit file": ("Cannot write {narrow}/_delta_log/00000000000000000002.json: File too large", "ulimit -f"),
    "rows for Spark": ("File too large", "spark.local.dir"),
    "data file on a worker": ("File too large: '{wide}/part-", "permissions of the table's folder"),
}


def test_files_that_may_not_grow(tmp_path: Path) -> None:
    wide = table_of(tmp_path / "wide", files=3, rows=200, width=400)
    narrow = table_of(tmp_path / "narrow")
    tables = {"wide": wide, "narrow": narrow}
    before = {path: (DeltaRsTable(path).version(), files_below(path)) for path in tables.values()}
    worker = tmp_path / "python"
    worker.write_text(f'#!/bin/sh\nulimit -f 40\nexec "{sys.executable}" "$@"\n')
    worker.chmod(0o755)
    with Child(
        "tests.faults.limited", wide, narrow, folder=tmp_path / "child", environment={"PYSPARK_PYTHON": str(worker)}
    ) as child:
        found = [json.loads(child.hear()) for _ in PLACES]
    for result, (place, (words, hint)) in zip(found, PLACES.items(), strict=True):
        assert result["place"] == place
        assert "SparkRuntimeException" in result["classes"], result
        assert f"[{REFUSED}]" in result["text"]
        assert words.format(**tables) in result["text"]
        assert hint in result["text"].partition("Hint:")[2]
        assert result["new"] == [] or "worker" in place
    for path, (version, files) in before.items():
        assert DeltaRsTable(path).version() == version
        assert files.items() <= files_below(path).items()
