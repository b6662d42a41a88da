"""Checkpoints as other writers make them: V2 with sidecars, several parts, statistics as structs, and damaged ones."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltamerge.errors import CorruptTableError
from deltamerge.log.replay.files import FILE_SCHEMA, TOMBSTONE_SCHEMA, table_of
from deltamerge.log.skipping.statistics import bounds_of
from deltamerge.protocol.schema.types import parse_schema
from deltamerge.protocol.table.actions import Metadata, Protocol
from tests.unit.log.building import (
    PROTOCOL,
    V2,
    add,
    commit,
    create,
    delete_commits,
    load,
    log_file,
    metadata,
    paths,
    remove,
    schema_text,
)
from tests.unit.log.replay.test_checkpoint import checkpoint_bytes

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"
MAP = pa.map_(pa.string(), pa.string())
NOTHING = TOMBSTONE_SCHEMA.empty_table()


def files_of(*names: str) -> pa.Table:
    return table_of([add(name)["add"] for name in names], FILE_SCHEMA)


def sidecar(root: Path, name: str, *files: str, removes: pa.Table = NOTHING) -> dict[str, Any]:
    """Write a sidecar file; the action that names it."""
    folder = root / "_delta_log" / "_sidecars"
    folder.mkdir(parents=True, exist_ok=True)
    data = checkpoint_bytes(files_of(*files), removes, [])
    (folder / name).write_bytes(data)
    return {"sidecar": {"path": name, "sizeInBytes": len(data), "modificationTime": 1}}


def top_level(root: Path, version: int, ending: str, *actions: dict[str, Any], of: int | None = None) -> Path:
    """Write the top level of a V2 checkpoint."""
    lines = [{"checkpointMetadata": {"version": version if of is None else of}}, *actions]
    name = f"{version:020d}.checkpoint." + ("parquet" if ending == "classic" else f"{UUID}.{ending}")
    path = log_file(root, name)
    if ending == "json":
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path
    types = {
        "checkpointMetadata": pa.struct([("version", pa.int64()), ("tags", MAP)]),
        "sidecar": pa.struct(
            [("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64()), ("tags", MAP)]
        ),
    }
    written = pq.read_table(pa.BufferReader(checkpoint_bytes(files_of(), NOTHING, others(actions))))
    columns = {name: written[name].combine_chunks() for name in written.column_names}
    rest = [line for line in lines if set(line) & set(types)]
    count = written.num_rows
    columns = {name: pa.concat_arrays([c, pa.nulls(len(rest), c.type)]) for name, c in columns.items()}
    for kind, type in types.items():
        columns[kind] = pa.array([None] * count + [line.get(kind) for line in rest], type)
    pq.write_table(pa.table(columns), path)
    return path


def others(actions: tuple[dict[str, Any], ...]) -> list[Any]:
    kinds = {"protocol": Protocol, "metaData": Metadata}
    return [kinds[kind].from_json(value) for action in actions for kind, value in action.items() if kind in kinds]


@pytest.mark.parametrize("ending", ["json", "parquet", "classic"])
def test_a_v2_checkpoint_is_its_top_level_and_its_sidecars(tmp_path: Path, ending: str) -> None:
    gone = table_of([remove("x")["remove"]], TOMBSTONE_SCHEMA)
    parts = [sidecar(tmp_path, "one.parquet", "a", "b"), sidecar(tmp_path, "two%20.parquet", "c", removes=gone)]
    (tmp_path / "_delta_log" / "_sidecars" / "two%20.parquet").rename(tmp_path / "_delta_log" / "_sidecars" / "two .parquet")
    top_level(tmp_path, 3, ending, V2, metadata(), *parts)
    commit(tmp_path, 4, add("d"), remove("a"))
    found = load(create_nothing(tmp_path))
    assert found.version == 4
    assert found.checkpoint_version == 3
    assert paths(found) == ["b", "c", "d"]
    assert sorted(found.tombstones.table["path"].to_pylist()) == ["a", "x"]


def create_nothing(root: Path):
    from deltamerge.storage.local import LocalStore

    return LocalStore(str(root))


def test_a_v2_checkpoint_in_json_may_hold_its_files_itself(tmp_path: Path) -> None:
    top_level(tmp_path, 3, "json", V2, metadata(), add("a"), remove("x"), {"unknown": {}}, {"txn": {"appId": "i", "version": 5}})
    found = load(create_nothing(tmp_path))
    assert paths(found) == ["a"]
    assert found.txns["i"].version == 5
    assert found.tombstones.table["path"].to_pylist() == ["x"]


@pytest.mark.parametrize("damage", ["missing", "truncated", "another size", "other version", "no metadata", "bad line", "escape"])
def test_a_damaged_v2_checkpoint_is_passed_over_or_named(tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    store = create(tmp_path, add("a"))
    commit(tmp_path, 1, V2, add("b"))
    part = sidecar(tmp_path, "one.parquet", "a", "../b" if damage == "escape" else "b")
    top = top_level(tmp_path, 1, "json", V2, metadata(), part, of=7 if damage == "other version" else None)
    file = tmp_path / "_delta_log" / "_sidecars" / "one.parquet"
    if damage == "missing":
        file.unlink()
    elif damage == "truncated":
        file.write_bytes(file.read_bytes()[:-20])
    elif damage == "another size":
        sidecar(tmp_path, "one.parquet", "a")
    elif damage == "no metadata":
        top.write_text("".join(line + "\n" for line in top.read_text().splitlines()[1:]))
    elif damage == "bad line":
        top.write_text(top.read_text() + '{"sidecar":{"path":5}}\n')
    with caplog.at_level(logging.WARNING, "deltamerge.log"):
        found = load(store)
    assert paths(found) == ["a", "b"]
    assert found.checkpoint_version is None
    assert "passing over a damaged file" in caplog.text
    delete_commits(tmp_path, 1)
    with pytest.raises(CorruptTableError) as caught:
        load(store)
    assert caught.value.condition == "DELTAMERGE_CORRUPT_CHECKPOINT"
    assert caught.value.parameters["checkpoint"] == f"_delta_log/{top.name}"
    assert caught.value.hint


def test_a_damaged_checkpoint_never_makes_an_older_version_the_newest(tmp_path: Path) -> None:
    store = create(tmp_path, add("a"))
    commit(tmp_path, 1, add("b"))
    log_file(tmp_path, f"{5:020d}.checkpoint.parquet").write_bytes(b"PAR1")
    with pytest.raises(CorruptTableError, match=f"{5:020d}.checkpoint.parquet"):
        load(store)


def test_a_file_that_a_checkpoint_names_twice_is_one_file(tmp_path: Path) -> None:
    for number, names in enumerate((["a", "b"], ["b", "c"]), 1):
        data = checkpoint_bytes(files_of(*names), NOTHING, others((PROTOCOL, metadata())) if number == 1 else [])
        log_file(tmp_path, f"{2:020d}.checkpoint.{number:010d}.{2:010d}.parquet").write_bytes(data)
    assert paths(load(create_nothing(tmp_path))) == ["a", "b", "c"]


STATS = '{"numRecords":3,"minValues":{"id":1},"maxValues":{"id":5},"nullCount":{"id":0}}'
PARSED = {"numRecords": 3, "minValues": {"id": 1}, "maxValues": {"id": 5}, "nullCount": {"id": 0}}


@pytest.mark.parametrize(
    ("texts", "structs"),
    [
        ([STATS, STATS], None),
        ([None, None], [PARSED, PARSED]),
        ([STATS, None], [PARSED, PARSED]),
        ([STATS, None], [None, PARSED]),
        (None, [PARSED, PARSED]),
        ([STATS, STATS], [{**PARSED, "numRecords": 9}] * 2),
    ],
    ids=["json", "structs, null json", "partly json", "each one", "structs only", "both"],
)
@pytest.mark.parametrize("row_groups", [1, 2])
def test_statistics_are_found_wherever_the_checkpoint_has_them(
    tmp_path: Path, texts: list[Any] | None, structs: list[Any] | None, row_groups: int
) -> None:
    adds: list[dict[str, Any]] = [{"path": name, "partitionValues": [], "size": 1, "dataChange": False} for name in "ab"]
    fields: list[tuple[str, pa.DataType]] = [("path", pa.string()), ("partitionValues", MAP), ("size", pa.int64())]
    if texts is not None:
        fields.append(("stats", pa.string()))
        adds = [{**row, "stats": text} for row, text in zip(adds, texts, strict=True)]
    if structs is not None:
        bounds = pa.struct([("id", pa.int64())])
        type = pa.struct([("numRecords", pa.int64()), ("minValues", bounds), ("maxValues", bounds), ("nullCount", bounds)])
        fields.append(("stats_parsed", type))
        adds = [{**row, "stats_parsed": value} for row, value in zip(adds, structs, strict=True)]
    small = pq.read_table(pa.BufferReader(checkpoint_bytes(files_of(), NOTHING, others((PROTOCOL, metadata())))))
    columns = {n: pa.concat_arrays([pa.nulls(2, small[n].type), small[n].combine_chunks()]) for n in ("protocol", "metaData")}
    columns["add"] = pa.array([*adds, None, None], pa.struct(fields))
    path = log_file(tmp_path, f"{2:020d}.checkpoint.parquet")
    pq.write_table(pa.table(columns), path, row_group_size=4 // row_groups)
    found = load(create_nothing(tmp_path)).files.table().sort_by("path")
    assert [json.loads(text) for text in found["stats"].to_pylist()] == [json.loads(STATS)] * 2


def test_a_compaction_gives_what_its_commits_give(tmp_path: Path) -> None:
    store = create(tmp_path, add("a"), add("b"))
    commit(tmp_path, 1, add("c"), remove("a"), {"txn": {"appId": "i", "version": 1}})
    commit(tmp_path, 2, add("d"), remove("c"), {"txn": {"appId": "i", "version": 2}})
    commit(tmp_path, 3, add("e"))
    expected = load(store)
    compaction = log_file(tmp_path, f"{1:020d}.{2:020d}.compacted.json")
    lines = [add("d"), remove("a"), remove("c"), {"txn": {"appId": "i", "version": 2}}]
    compaction.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for version in (1, 2):
        log_file(tmp_path, f"{version:020d}.json").rename(tmp_path / f"{version}.json")
    found = load(store)
    assert paths(found) == paths(expected) == ["b", "d", "e"]
    assert found.txns == expected.txns
    for version in (1, 2):
        (tmp_path / f"{version}.json").rename(log_file(tmp_path, f"{version:020d}.json"))
    compaction.write_text('{"add":[]}')
    assert paths(load(store)) == ["b", "d", "e"]


def test_a_timestamp_in_the_old_parquet_type_is_a_moment(tmp_path: Path) -> None:
    made = datetime(2020, 1, 1, 1, 2, 3, 4000, UTC)
    bounds = pa.struct([("at", pa.timestamp("us", "UTC")), ("n", pa.int32())])
    stats = pa.struct([("numRecords", pa.int64()), ("minValues", bounds), ("maxValues", bounds)])
    fields = pa.struct([("path", pa.string()), ("partitionValues", MAP), ("size", pa.int64()), ("stats_parsed", stats)])
    value = {"numRecords": 1, "minValues": {"at": made, "n": 1}, "maxValues": {"at": made, "n": 1}}
    rows = [{"path": "a", "size": 1, "stats_parsed": value}, {"path": "b", "size": 1, "stats_parsed": None}, None, None]
    files = pa.array(rows, fields)
    small = pq.read_table(pa.BufferReader(checkpoint_bytes(files_of(), NOTHING, others((PROTOCOL, metadata())))))
    columns = {n: pa.concat_arrays([pa.nulls(2, small[n].type), small[n].combine_chunks()]) for n in ("protocol", "metaData")}
    path = log_file(tmp_path, f"{2:020d}.checkpoint.parquet")
    pq.write_table(pa.table({**columns, "add": files}), path, use_deprecated_int96_timestamps=True)
    ((chunk, _),) = load(create_nothing(tmp_path)).files.parts()
    schema = parse_schema(schema_text(at="timestamp"))
    assert bounds_of(chunk, schema, (), [("at",)])[("at",)].low.to_pylist() == [made, None]
    assert chunk.chosen(None)["stats"].to_pylist()[1] is None
