"""OPTIMIZE, RESTORE, VACUUM and the beginning of row tracking killed at any moment: no row is lost or doubled, and the statement
succeeds when it runs again.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from deltamerge.log.replay.table import open_log
from tests.effort import ALL
from tests.faults.processes import Child
from tests.faults.test_kill import check_log
from tests.faults.upkeep import RESTORED

MOMENTS = 20 if ALL else 4
ROUNDS, ROWS = 6, 10
# The commits that a statement may add when it runs again after it has done its work.
AGAIN = {"OPTIMIZE": 0, "RESTORE": 1, "VACUUM": 2, "TRACKING": 1}


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    with Child("tests.faults.upkeep", folder=tmp_path_factory.mktemp("process")) as child:
        yield child


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some commits of two files each, one that removed files, and files that no commit names; each commit has its checkpoint."""
    path = tmp_path_factory.mktemp("table") / "t"
    for number in range(ROUNDS):
        settings = {"delta.checkpointInterval": "1"}
        write_deltalake(path, rows_of(number), partition_by=["part"], mode="append", configuration=settings)
    DeltaTable(path).delete(f"id >= {ROWS * (ROUNDS - 1)}")
    for folder in ("part=0", "part=1"):
        shutil.copy(next((path / folder).glob("*.parquet")), path / folder / "unnamed.parquet")
    return path


@pytest.mark.parametrize("statement", AGAIN)
def test_kills_of_upkeep(process: Child, table: Path, tmp_path: Path, statement: str) -> None:
    before, ends = ids_of(table), {"RESTORE": RESTORED + 1}.get(statement, ROUNDS - 1)
    after = list(range(ROWS * ends))
    whole = shutil.copytree(table, tmp_path / "whole")
    calls, seconds = run(process, statement, whole, "0").split()
    version = DeltaTable(whole).version()
    assert ids_of(whole) == after
    for number in range(MOMENTS):
        share = (number + 0.5) / MOMENTS
        moments = [f"{float(seconds) * share}s"] * (number % 4 == 3) + [str(max(1, round(int(calls) * share)))]
        path = kill_one(process, statement, table, moments, tmp_path / str(number))
        assert ids_of(path) in (before, after)
        check_log(path)
        assert run(process, statement, path, "0") != "killed"
        assert ids_of(path) == after
        check_log(path)
        check_end(path, statement)
        assert DeltaTable(path).version() <= version + AGAIN[statement]


def kill_one(process: Child, statement: str, table: Path, moments: list[str], folder: Path) -> Path:
    """A copy of a table in which the statement was killed: at the first of the moments before which it had not ended."""
    for moment in moments:
        path = shutil.copytree(table, folder / moment)
        if run(process, statement, path, moment) == "killed":
            return path
    raise AssertionError(f"{statement} ended before {moments}")


def run(process: Child, statement: str, path: Path, moment: str) -> str:
    """What the process says of a statement that is killed at a moment."""
    process.tell(f"{statement} {path} {moment}")
    return process.hear()


def check_end(path: Path, statement: str) -> None:
    """A statement that has run to its end has left what it promises."""
    named = {Path(file).name for file in DeltaTable(path).file_uris()}
    if statement == "OPTIMIZE":
        assert len(named) == 2
    if statement == "VACUUM":
        assert {file.name for file in path.glob("part=*/*")} == named
    if statement == "TRACKING":
        files = open_log(str(path)).snapshot().files.table().to_pylist()
        counts = {file["baseRowId"]: json.loads(file["stats"])["numRecords"] for file in files}
        assert len(counts) == len(files) == len(named)
        found = [first + n for first, count in counts.items() for n in range(count)]
        assert len(set(found)) == len(found) == ROWS * (ROUNDS - 1)


def rows_of(number: int) -> pa.Table:
    """The rows of a commit."""
    ids = list(range(number * ROWS, number * ROWS + ROWS))
    return pa.table({"id": ids, "part": [id % 2 for id in ids]})


def ids_of(path: Path) -> list[int]:
    """The rows of a table, read by delta-rs."""
    found: list[int] = sorted(DeltaTable(path).to_pyarrow_table()["id"].to_pylist())
    return found
