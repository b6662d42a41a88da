"""Bounds from the statistics structs that a checkpoint keeps beside JSON: the same as the JSON gives, or the JSON's."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltamerge.log.commit.checkpoint_write import write_checkpoint
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.log.skipping import statistics
from deltamerge.log.skipping.statistics import Bounds, bounds_of
from deltamerge.log.stats.json_leaves import json_leaves
from deltamerge.protocol.values.predicate import Path as Column
from tests.unit.log.building import add, commit, delete_commits, load
from tests.unit.log.commit.test_checkpoint_write import STATS_COLUMNS, files, stats, table

COLUMNS: list[Column] = [*((name,) for name in STATS_COLUMNS), ("inner", "x")]
LEGACY = {"version": "3.5.0", "legacyDateTime": ""}


def bounds(snapshot: Snapshot, *columns: Column) -> dict[str, dict[Column, list[Any]]]:
    """All bounds of each file of a snapshot, by its path."""
    found: dict[str, dict[Column, list[Any]]] = {}
    for chunk, _ in snapshot.files.parts():
        known = bounds_of(chunk, snapshot.schema, ["p"], columns)
        for row, path in enumerate(chunk.table["path"].to_pylist()):
            found[path] = {column: _of_row(known[column], row) for column in columns}
    return found


def _of_row(found: Bounds, row: int) -> list[Any]:
    return [getattr(found, name)[row].as_py() for name in ("low", "high", "nulls", "rows")]


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many texts were parsed, each time that some were."""
    parsed: list[int] = []
    monkeypatch.setattr(statistics, "json_leaves", lambda texts, wanted: parsed.append(len(texts)) or json_leaves(texts, wanted))
    return parsed


def checkpointed(texts: list[int], root: Path, most: int = 1_000, **properties: str) -> Snapshot:
    """A table of seven files that is read from its checkpoint alone."""
    before = table(root, **properties)
    write_checkpoint(before, before.tombstones.table, most)
    delete_commits(root, 3)
    texts.clear()
    return load(before.store)


def rewrite(root: Path, *, rows: int | None = None, metadata: dict[str, str] | None = None, reverse: bool = False) -> None:
    """The checkpoint with other row groups, metadata or order of rows."""
    sizes: dict[str, int] = {}
    for path in sorted((root / "_delta_log").rglob("*.parquet"), key=lambda path: path.parent.name != "_sidecars"):
        found = _with_sizes(pq.read_table(path), sizes)
        found = found.take(pa.array(range(found.num_rows)[::-1])) if reverse else found
        found = found.replace_schema_metadata(metadata) if metadata else found
        pq.write_table(found, path, row_group_size=rows)
        (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
        sizes[path.name] = path.stat().st_size


def _with_sizes(table: pa.Table, sizes: dict[str, int]) -> pa.Table:
    """The rows of a checkpoint file with the sizes that its sidecars have now."""
    if "sidecar" not in table.column_names:
        return table
    rows = [row and {**row, "sizeInBytes": sizes[row["path"]]} for row in table["sidecar"].to_pylist()]
    place = table.schema.get_field_index("sidecar")
    return table.set_column(place, table.schema.field(place), pa.chunked_array([pa.array(rows, table.schema.field(place).type)]))


@pytest.mark.parametrize("policy", ["classic", "v2"])
@pytest.mark.parametrize("most", [1_000, 3])
@pytest.mark.parametrize("row_groups", [None, 2])
def test_they_are_those_of_the_json(tmp_path: Path, texts: list[int], policy: str, most: int, row_groups: int | None) -> None:
    plain = checkpointed(texts, tmp_path / "json", delta_checkpoint_writeStatsAsStruct="false")
    expected = bounds(plain, *COLUMNS)
    assert texts == [7]
    snapshot = checkpointed(texts, tmp_path / "both", most, delta_checkpointPolicy=policy)
    if row_groups:
        rewrite(tmp_path / "both", rows=row_groups)
        snapshot = load(snapshot.store)
    assert bounds(snapshot, *COLUMNS) == expected
    assert texts == []
    kept, written = (found.files.table().sort_by("path")["stats"] for found in (snapshot, plain))
    assert kept.equals(written)


def test_files_of_later_commits_go_by_their_json(tmp_path: Path, texts: list[int]) -> None:
    snapshot = checkpointed(texts, tmp_path)
    commit(tmp_path, 3, add("p=0/g", partitionValues={"p": "0"}, stats=stats(9)))
    found = bounds(load(snapshot.store), ("id",))
    assert found["p=0/g"]["id",] == [9, 9, 0, 5]
    assert found["p=0/f0"]["id",] == [0, 0, 0, 5]
    assert found["p=1/f4"]["id",] == [None] * 4
    assert texts == [1]


@pytest.mark.parametrize("change", ["other order", "gone", "cut"])
def test_a_file_that_changed_since_is_not_read_again(tmp_path: Path, texts: list[int], change: str) -> None:
    snapshot = checkpointed(texts, tmp_path)
    if change == "other order":
        rewrite(tmp_path, reverse=True)
    for name in files(tmp_path):
        path = tmp_path / "_delta_log" / name
        if change == "gone":
            path.unlink()
        elif change == "cut":
            path.write_bytes(path.read_bytes()[:-9])
    found = bounds(snapshot, ("id",))
    assert found["p=2/f5"]["id",] == [5, 5, 0, 5]
    assert texts == [7]


def test_a_column_that_the_structs_lack_goes_by_json(tmp_path: Path, texts: list[int]) -> None:
    snapshot = checkpointed(texts, tmp_path, delta_dataSkippingNumIndexedCols="2")
    assert bounds(snapshot, ("day",))["p=2/f5"]["day",][0].isoformat() == "2020-02-29"
    assert texts == [7]


@pytest.mark.parametrize("writer", [{"version": "2.4.8"}, LEGACY])
def test_dates_of_the_hybrid_calendar_are_not_believed(tmp_path: Path, texts: list[int], writer: dict[str, str]) -> None:
    snapshot = checkpointed(texts, tmp_path)
    rewrite(tmp_path, metadata={f"org.apache.spark.{name}": value for name, value in writer.items()})
    bounds(load(snapshot.store), ("day",))
    assert texts == [7]


def test_structs_that_say_less_than_the_json_are_not_believed(tmp_path: Path, texts: list[int]) -> None:
    snapshot = checkpointed(texts, tmp_path)
    (path,) = (tmp_path / "_delta_log").glob("*.parquet")
    found = pq.read_table(path)
    rows = [row and {**row, "stats_parsed": None} for row in found["add"].to_pylist()]
    pq.write_table(found.set_column(found.schema.get_field_index("add"), "add", pa.array(rows, found["add"].type)), path)
    assert bounds(load(snapshot.store), ("id",))["p=2/f5"]["id",] == [5, 5, 0, 5]
    assert texts == [7]


def test_old_dates_of_the_hybrid_calendar_are_no_bounds(tmp_path: Path) -> None:
    old = {"day": "1500-03-01", "at": "1890-01-01T00:00:00.000Z"}
    text = json.dumps({"numRecords": 1, "minValues": old, "maxValues": {**old, "day": "2020-02-29"}})
    snapshot = table(tmp_path, delta_checkpoint_writeStatsAsJson="false")
    commit(tmp_path, 3, add("p=0/old", partitionValues={"p": "0"}, stats=text))
    snapshot = load(snapshot.store)
    write_checkpoint(snapshot, snapshot.tombstones.table)
    delete_commits(tmp_path, 4)
    known = bounds(load(snapshot.store), ("day",), ("at",))["p=0/old"]
    assert known["day",][:2] == [date(1500, 3, 1), date(2020, 2, 29)]
    rewrite(tmp_path, metadata={f"org.apache.spark.{name}": value for name, value in LEGACY.items()})
    hybrid = load(snapshot.store)
    found = bounds(hybrid, ("day",), ("at",))["p=0/old"]
    assert found["day",] == [None, date(2020, 2, 29), None, 1]
    assert found["at",][:2] == [None, None]
    texts = dict(zip(*(hybrid.files.table()[name].to_pylist() for name in ("path", "stats")), strict=True))
    assert "1500" not in texts["p=0/old"]
