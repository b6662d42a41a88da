"""Small files of a log that claim to be huge: refused by name, or read in a stated multiple of memory. A child measures."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltamerge.log.replay import last_checkpoint, load
from deltamerge.log.replay.checkpoint import read_checkpoint
from deltamerge.log.replay.segment import CheckpointFiles
from deltamerge.protocol.formats.decoded_size import MOST_BYTES, MOST_TIMES
from deltamerge.storage.local import LocalStore
from tests.effort import ALL
from tests.unit.log.building import PROTOCOL, add, commit, create, log_file, metadata

MB = 1 << 20
NAME = f"_delta_log/{1:020d}.checkpoint.parquet"
# What a child takes beside what it reads: modules are loaded, and Arrow's memory pool grows.
BESIDE = 64 * MB
MAPS = pa.map_(pa.string(), pa.string())

CHILD = """
import json, os, resource, sys
import numpy, pyarrow.compute, pyarrow.parquet
from deltamerge.errors import DeltaMergeError
from deltamerge.log.replay.load import load
from deltamerge.storage.local import LocalStore
from tests.unit.log.replay import test_bombs

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

before = peak()
try:
    told = getattr(test_bombs, sys.argv[2])(sys.argv[1])
except DeltaMergeError as error:
    told = str(error)
print(json.dumps([told, peak() - before]), flush=True)
os._exit(0)  # Arrow's threads may still be at work, and one in a hundred times they abort an interpreter that ends
"""


def read_in_child(root: Path, how: str = "loaded") -> tuple[Any, int]:
    """What a function of this file says of a table, or the error, and the bytes of memory that it took beyond the start."""
    done = subprocess.run([sys.executable, "-c", CHILD, str(root), how], capture_output=True, text=True, check=True)
    told, taken = json.loads(done.stdout.splitlines()[-1])
    return told, taken


def loaded(root: str) -> int:
    """The number of files of the newest version."""
    return len(load.load(LocalStore(root)).files)


def checkpoint_of(root: str) -> int:
    """The number of files in the checkpoint, by itself."""
    store = LocalStore(root)
    info = store.info(NAME)
    assert info is not None
    return sum(map(len, read_checkpoint(store, CheckpointFiles(1, (info,))).adds))


def write(root: Path, tables: list[pa.Table], **how: Any) -> int:
    """A checkpoint of row groups, and its size in bytes; one commit is before it."""
    create(root)
    path = log_file(root, NAME.rpartition("/")[2])
    with pq.ParquetWriter(path, tables[0].schema, compression="zstd", **how) as writer:
        for table in tables:
            writer.write_table(table, row_group_size=table.num_rows)
    return path.stat().st_size


def adds(paths: pa.Array, maps: pa.Array | None = None) -> pa.Table:
    sizes = pa.array(np.ones(len(paths), np.int64))
    columns = {"path": paths, "partitionValues": pa.nulls(len(paths), MAPS) if maps is None else maps, "size": sizes}
    return pa.table({"add": pa.StructArray.from_arrays(list(columns.values()), list(columns))})


def rows(count: int) -> list[pa.Table]:
    """So many rows, all of one file."""
    return [adds(pa.repeat("a", 1_000_000))] * (count // 1_000_000)


def nothing(count: int) -> list[pa.Table]:
    """Rows of no action at all."""
    return [adds(pa.repeat("a", 1_000_000)).take(pa.nulls(1_000_000, pa.int64()))] * (count // 1_000_000)


def long_texts() -> list[pa.Table]:
    """Rows with a path of a megabyte, which is written once."""
    return [adds(pa.repeat("x" * MB, 100))] * 6


def long_partitions() -> list[pa.Table]:
    maps = pa.MapArray.from_arrays(pa.array(np.arange(101, dtype=np.int32)), pa.repeat("p", 100), pa.repeat("x" * MB, 100))
    return [adds(pa.array([f"{number}" for number in range(100)]), maps)] * 6


def one_text() -> list[pa.Table]:
    return [adds(pa.array(["x" * (600 * MB)], pa.large_string()).cast(pa.string()))]


def transactions() -> list[pa.Table]:
    """A row group of transactions, each of which is an object of its own."""
    ids = pa.repeat("application", 1_000_000)
    txns = pa.StructArray.from_arrays([ids, pa.array(np.arange(1_000_000))], ["appId", "version"])
    return [pa.table({"txn": txns})] * 3


def entries() -> list[pa.Table]:
    """One file with very many partition values."""
    count = 20_000_000
    maps = pa.MapArray.from_arrays(pa.array([0, count], pa.int32()), pa.repeat("", count), pa.repeat("", count))
    return [adds(pa.array(["a"]), maps)]


def fixed_widths() -> list[pa.Table]:
    """Rows whose nulls have a megabyte each."""
    files = adds(pa.array([f"{number}" for number in range(2_000)]))["add"].combine_chunks()
    wide = pa.nulls(2_000, pa.binary(MB))
    fields = [*files.flatten(), wide]
    return [pa.table({"add": pa.StructArray.from_arrays(fields, ["path", "partitionValues", "size", "clusteringProvider"])})]


BOMBS: dict[str, tuple[Callable[[], list[pa.Table]], dict[str, Any]]] = {
    "rows": (lambda: rows(20_000_000), {}),
    "rows of nothing": (lambda: nothing(20_000_000), {}),
    "dictionary": (long_texts, {"dictionary_pagesize_limit": 8 * MB}),
    "partition values": (long_partitions, {"dictionary_pagesize_limit": 8 * MB}),
    "common prefixes": (long_texts, {"use_dictionary": False, "column_encoding": {"add.path": "DELTA_BYTE_ARRAY"}}),
    "fixed widths": (fixed_widths, {}),
    "page": (one_text, {"use_dictionary": False, "write_statistics": False}),
    "transactions": (transactions, {}),
    "entries": (entries, {}),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_checkpoint_that_is_a_bomb_is_refused(tmp_path: Path, name: str) -> None:
    make, how = BOMBS[name]
    size = write(tmp_path, make(), **how)
    assert size < 5 * MB
    told, taken = read_in_child(tmp_path, "checkpoint_of")
    assert "DELTAMERGE_CORRUPT_CHECKPOINT" in str(told)
    assert "more than the" in told
    # What one row group of the bomb takes that is just allowed, and what is made of it.
    assert taken < BESIDE + 3 * (MOST_BYTES + MOST_TIMES * size)


def test_a_bomb_is_passed_over_where_commits_say_the_same(tmp_path: Path) -> None:
    write(tmp_path, rows(20_000_000))
    commit(tmp_path, 1, add("a"))
    told, taken = read_in_child(tmp_path)
    assert (told, taken < BESIDE + MOST_BYTES) == (1, True)


def test_parts_of_a_checkpoint_share_what_they_may_take(tmp_path: Path) -> None:
    create(tmp_path)
    for part in range(1, 9):
        name = f"{1:020d}.checkpoint.{part:010d}.{8:010d}.parquet"
        pq.write_table(adds(pa.repeat("a", 1_000_000)), log_file(tmp_path, name), compression="zstd")
    told, _ = read_in_child(tmp_path, "parts_of")
    assert "more than the" in str(told)


def parts_of(root: str) -> int:
    store = LocalStore(root)
    infos = tuple(info for info in store.list("_delta_log") if info.name.endswith(".parquet"))
    return sum(map(len, read_checkpoint(store, CheckpointFiles(1, infos)).adds))


def test_a_large_checkpoint_of_real_files_is_read(tmp_path: Path) -> None:
    """Names that differ have bytes. With the long text of a schema, which a dictionary has once, among very many nulls."""
    count = 300_000
    chance = np.random.default_rng(1).integers(0, 1 << 62, count)
    files = adds(pa.array([f"part-{number:05d}-{value:x}.parquet" for number, value in enumerate(chance)]))
    schema = json.loads(json.dumps(metadata()))["metaData"]
    schema["name"] = "x" * 100_000
    none: list[Any] = [None] * (count + 1)
    table = pa.table(
        {
            "protocol": pa.array([PROTOCOL["protocol"], *none]),
            "metaData": pa.array([None, {**schema, "configuration": None, "format": {"provider": "parquet"}}, *none[1:]]),
            "add": pa.concat_arrays([pa.nulls(2, files["add"].type), *files["add"].chunks]),
        }
    )
    size = write(tmp_path, [table])
    told, taken = read_in_child(tmp_path, "checkpoint_of")
    assert told == count
    assert taken < BESIDE + 20 * size + 400 * count


def test_a_part_of_ten_thousand_million_is_no_checkpoint(tmp_path: Path) -> None:
    create(tmp_path)
    log_file(tmp_path, f"{0:020d}.checkpoint.{1:010d}.{9_999_999_999:010d}.parquet").write_bytes(b"")
    told, taken = read_in_child(tmp_path)
    assert told == 0
    assert taken < BESIDE


@pytest.mark.parametrize("name", ["_last_checkpoint", f"{0:020d}.crc"])
def test_a_huge_file_beside_the_commits_is_passed_over(tmp_path: Path, name: str) -> None:
    create(tmp_path)
    with log_file(tmp_path, name).open("wb") as file:
        file.truncate(1 << 30)
    told, taken = read_in_child(tmp_path)
    assert told == 0
    assert taken < BESIDE


def test_a_pointer_may_be_as_large_as_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create(tmp_path)
    pointer = log_file(tmp_path, "_last_checkpoint")
    pointer.write_text('{"version":5}')
    store = LocalStore(str(tmp_path))
    monkeypatch.setattr(last_checkpoint, "_MOST_BYTES", 13)
    assert last_checkpoint.read_pointer(store) == 5
    monkeypatch.setattr(last_checkpoint, "_MOST_BYTES", 12)
    assert last_checkpoint.read_pointer(store) is None


# Lines of a commit, and how many times their bytes they may take in memory.
COMMITS = {
    "add": ('{"add":{"path":"%d","size":1}}', 10),
    "remove": ('{"remove":{"path":"%d"}}', 10),
    "cdc": ('{"cdc":{"path":"%d","size":1,"partitionValues":{"":""}}}', 10),
    "commitInfo": ('{"commitInfo":{"%d":0}}', 10),
    "values": ('{"commitInfo":{"%d":[' + ",".join(['{"":0}'] * 50) + "]}}", 30),
}


@pytest.mark.parametrize("kind", COMMITS)
def test_a_commit_takes_a_multiple_of_its_bytes(tmp_path: Path, kind: str) -> None:
    create(tmp_path)
    line, times = COMMITS[kind]
    path = log_file(tmp_path, f"{1:020d}.json")
    path.write_text("".join(line % n + "\n" for n in range((40 if ALL else 10) * MB // len(line))))
    _, taken = read_in_child(tmp_path)
    assert taken < BESIDE + times * path.stat().st_size


def test_a_log_of_very_many_names_is_listed(tmp_path: Path) -> None:
    create(tmp_path)
    count = 1_000_000 if ALL else 50_000
    folder = tmp_path / "_delta_log"
    for number in range(count):
        (folder / f"{number:07d}.junk").touch()
    told, taken = read_in_child(tmp_path)
    assert told == 0
    assert taken < BESIDE + 700 * count


def values(*texts: str, count: int = 12_000_000) -> Callable[[], str]:
    return lambda: '{"x":[' + ",".join(texts * (count // len(texts))) + "]}"


def keys() -> str:
    return "{" + ",".join([f'"{number}":1' for number in range(4_000_000)]) + "}"


# Made when they are asked for: a child that imports this file must not have them.
LINES: dict[str, Callable[[], str]] = {
    "objects": values("{}", count=16_000_000),
    "lists": values("[]", count=16_000_000),
    "texts": values('"a"'),
    "mixed": values("1.5", '"\\""', "null", '{"":[]}'),
    "keys": keys,
}


@pytest.mark.parametrize("kind", LINES)
def test_a_line_of_very_many_values_is_refused(tmp_path: Path, kind: str) -> None:
    create(tmp_path)
    path = log_file(tmp_path, f"{1:020d}.json")
    path.write_text('{"commitInfo":' + LINES[kind]() + "}\n")
    told, taken = read_in_child(tmp_path)
    assert "DELTAMERGE_CORRUPT_COMMIT" in str(told)
    assert "line 1: it holds more than 2000000 values" in told
    assert taken < BESIDE + 4 * path.stat().st_size


@pytest.mark.parametrize("value", ["{}", '{"":1}', '"a"', "1.5"])
def test_a_line_of_as_many_values_as_may_be_is_read(tmp_path: Path, value: str) -> None:
    create(tmp_path)
    count = 999_990 if value.startswith("{") else 1_999_990
    log_file(tmp_path, f"{1:020d}.json").write_text('{"commitInfo":' + values(value, count=count)() + "}\n")
    told, taken = read_in_child(tmp_path)
    assert told == 0
    assert taken < BESIDE + 250 * MB
