"""Checkpoints in every form that a table may ask for: each gives back the state, to us and to delta-rs."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from deltamerge.log.commit.checkpoint_write import write_checkpoint
from deltamerge.log.commit.upkeep import checkpoint
from deltamerge.log.replay.files import FILE_SCHEMA
from deltamerge.log.replay.last_checkpoint import LAST_CHECKPOINT
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.log.skipping.skipping import could_match
from deltamerge.protocol.values.predicate import Compare
from deltamerge.storage.local import LocalStore
from tests.unit.log.building import add, commit, delete_commits, load, metadata, paths, remove, schema_text

STATS_COLUMNS = {
    "id": ("long", 2**53 + 1),
    "word": ("string", 'ä"'),
    "price": ("decimal(20,2)", 123456789012345678.25),
    "day": ("date", "2020-02-29"),
    "at": ("timestamp", "2020-01-01T00:00:00.001Z"),
    "local": ("timestamp_ntz", "2020-01-01T00:00:00.001"),
    "ratio": ("double", 1.5),
}
SCHEMA = schema_text(
    **{name: type for name, (type, _) in STATS_COLUMNS.items()},
    yes="boolean",
    list={"type": "array", "elementType": "long", "containsNull": True},
    inner={"type": "struct", "fields": [{"name": "x", "type": "integer", "nullable": True, "metadata": {}}]},
    p="integer",
)
FEATURES = ["v2Checkpoint", "timestampNtz"]
V2 = {
    "protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": FEATURES, "writerFeatures": FEATURES},
}


def stats(number: int) -> str:
    bounds = {name: value for name, (_, value) in STATS_COLUMNS.items()}
    bounds = {**bounds, "id": number, "inner": {"x": number}}
    counts: dict[str, Any] = dict.fromkeys(bounds, 0)
    counts = {**counts, "inner": {"x": 1}, "yes": 2, "list": 3}
    value = {"numRecords": 5, "minValues": bounds, "maxValues": bounds, "nullCount": counts, "tightBounds": number % 2 == 0}
    return json.dumps(value).replace("1.2345678901234568e+17", "123456789012345678.25")


def table(root: Path, **properties: str) -> Snapshot:
    named = {name.replace("_", "."): value for name, value in properties.items()}
    commit(root, 0, V2, metadata(SCHEMA, ["p"], named))
    adds = [add(f"p={n % 3}/f{n}", partitionValues={"p": str(n % 3)}, stats=stats(n) if n != 4 else None) for n in range(8)]
    commit(root, 1, *adds, {"txn": {"appId": "i", "version": 5}}, {"domainMetadata": {"domain": "d", "configuration": "x"}})
    commit(root, 2, remove("p=1/f1", partitionValues={"p": "1"}, size=1, extendedFileMetadata=True, tags={"t": "v"}))
    return load(LocalStore(str(root)))


FORMS = {
    "json": {"delta_checkpoint_writeStatsAsStruct": "false"},
    "both": {},
    "structs": {"delta_checkpoint_writeStatsAsJson": "false"},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("policy", ["classic", "v2"])
@pytest.mark.parametrize("most", [1_000, 3])
def test_every_form_gives_the_state_back(tmp_path: Path, form: str, policy: str, most: int) -> None:
    before = table(tmp_path, delta_checkpointPolicy=policy, **FORMS[form])
    write_checkpoint(before, before.tombstones.table, most)
    delete_commits(tmp_path, 3)
    after = load(before.store)
    assert (after.version, after.checkpoint_version) == (2, 2)
    assert (after.protocol, after.metadata, after.txns, after.domains) == (
        before.protocol,
        before.metadata,
        before.txns,
        before.domains,
    )
    one, other = (found.files.table().sort_by("path") for found in (before, after))
    columns = [name for name in FILE_SCHEMA.names if name != "stats"]
    assert one.select(columns) == other.select(columns)
    texts = [[None if text is None else json.loads(text) for text in files["stats"].to_pylist()] for files in (one, other)]
    assert texts[0] == texts[1]
    assert after.tombstones.table["path"].to_pylist() == ["p=1/f1"]
    for value, kept in ((3, 2), (99, 1)):
        mask = could_match(after.files, Compare(("id",), "=", pa.scalar(value)), after.schema, ["p"])
        assert mask.sum() == kept
    again = load(before.store)
    write_checkpoint(again, again.tombstones.table)
    assert sorted(paths(load(before.store))) == sorted(paths(before))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("policy", "most"), [("classic", 1_000), ("classic", 3), ("v2", 1_000), ("v2", 3)])
def test_delta_rs_reads_every_form(tmp_path: Path, form: str, policy: str, most: int) -> None:
    before = table(tmp_path, delta_checkpointPolicy=policy, **FORMS[form])
    write_checkpoint(before, before.tombstones.table, most)
    commit(tmp_path, 3, add("p=0/g", partitionValues={"p": "0"}, stats=stats(9)))
    delete_commits(tmp_path, 3)
    found = DeltaTable(str(tmp_path))
    assert found.version() == 3
    assert sorted(uri.removeprefix(f"{tmp_path}/") for uri in found.file_uris()) == paths(load(before.store))


def files(root: Path) -> list[str]:
    return sorted(path.relative_to(root / "_delta_log").as_posix() for path in (root / "_delta_log").rglob("*.parquet"))


def test_a_v2_checkpoint_has_a_top_level_and_sidecars(tmp_path: Path) -> None:
    snapshot = table(tmp_path, delta_checkpointPolicy="v2")
    write_checkpoint(snapshot, snapshot.tombstones.table, 4)
    pointer = json.loads(snapshot.store.read(LAST_CHECKPOINT))
    (top,) = [name for name in files(tmp_path) if not name.startswith("_sidecars")]
    assert top.startswith(f"{2:020d}.checkpoint.")
    assert pointer["v2Checkpoint"]["path"] == top
    rows = pq.read_table(tmp_path / "_delta_log" / top).to_pylist()
    kinds = [next(kind for kind, value in row.items() if value is not None) for row in rows]
    assert sorted(kinds) == ["checkpointMetadata", "domainMetadata", "metaData", "protocol", *["sidecar"] * 3, "txn"]
    for name in files(tmp_path):
        if name != top:
            assert pq.read_schema(tmp_path / "_delta_log" / name).names == ["add", "remove"]


def test_without_the_feature_there_is_no_v2_checkpoint(tmp_path: Path) -> None:
    commit(tmp_path, 0, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, metadata(), add("a"))
    commit(tmp_path, 1, metadata(properties={"delta.checkpointPolicy": "v2"}))
    checkpoint(load(LocalStore(str(tmp_path))))
    assert files(tmp_path) == [f"{1:020d}.checkpoint.parquet"]


def test_a_large_checkpoint_is_written_in_parts(tmp_path: Path) -> None:
    snapshot = table(tmp_path)
    write_checkpoint(snapshot, snapshot.tombstones.table, 5)
    assert files(tmp_path) == [f"{2:020d}.checkpoint.{number:010d}.{3:010d}.parquet" for number in (1, 2, 3)]
    assert json.loads(snapshot.store.read(LAST_CHECKPOINT))["parts"] == 3


def test_tombstones_have_neither_tags_nor_statistics(tmp_path: Path) -> None:
    snapshot = table(tmp_path)
    write_checkpoint(snapshot, snapshot.tombstones.table)
    schema = pq.read_schema(tmp_path / "_delta_log" / files(tmp_path)[0])
    names = [schema.field("remove").type.field(i).name for i in range(schema.field("remove").type.num_fields)]
    assert "tags" not in names
    assert "stats" not in names
    assert "deletionTimestamp" in names


def test_structs_are_typed(tmp_path: Path) -> None:
    snapshot = table(tmp_path, delta_dataSkippingNumIndexedCols="3")
    write_checkpoint(snapshot, snapshot.tombstones.table)
    rows = pq.read_table(tmp_path / "_delta_log" / files(tmp_path)[0])["add"].to_pylist()
    (row,) = [row for row in rows if row and row["path"] == "p=2/f2"]
    assert row["partitionValues_parsed"] == {"p": 2}
    parsed = row["stats_parsed"]
    assert (parsed["numRecords"], parsed["tightBounds"]) == (5, True)
    assert list(parsed["minValues"]) == list(parsed["nullCount"]) == ["id", "word", "price"]
    assert str(parsed["minValues"]["price"]) == "123456789012345678.25"


def test_partition_values_that_are_none_leave_out_the_structs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table(tmp_path)
    commit(tmp_path, 3, add("p=x/f", partitionValues={"p": "x"}))
    snapshot = load(LocalStore(str(tmp_path)))
    with caplog.at_level(logging.WARNING, "deltamerge.log"):
        write_checkpoint(snapshot, snapshot.tombstones.table)
    adds = pq.read_schema(tmp_path / "_delta_log" / files(tmp_path)[0]).field("add").type
    assert {field.name for field in adds}.isdisjoint({"stats_parsed", "partitionValues_parsed"})
    assert "'x'" in caplog.text
    delete_commits(tmp_path, 4)
    assert paths(load(snapshot.store)) == paths(snapshot)


@pytest.mark.parametrize(
    ("properties", "clustered", "kept"),
    [
        ({"delta.dataSkippingNumIndexedCols": "1"}, ["day"], ["id", "day"]),
        ({"delta.dataSkippingStatsColumns": "WORD, `a.b`"}, [], ["word", "a.b"]),
        ({"delta.dataSkippingStatsColumns": "a"}, ["at"], ["at", "a"]),
        ({"delta.dataSkippingNumIndexedCols": "0"}, [], []),
    ],
)
def test_structs_have_the_columns_that_files_have_statistics_of(
    tmp_path: Path, properties: dict[str, str], clustered: list[str], kept: list[str]
) -> None:
    nested = {"type": "struct", "fields": [{"name": "b", "type": "integer", "nullable": True, "metadata": {}}]}
    schema = schema_text(id="long", word="string", **{"a.b": "integer"}, day="date", at="timestamp", a=nested)
    domain = {"clusteringColumns": [[name] for name in clustered]}
    commit(tmp_path, 0, V2, metadata(schema, properties=properties))
    commit(tmp_path, 1, {"domainMetadata": {"domain": "delta.clustering", "configuration": json.dumps(domain)}})
    snapshot = load(LocalStore(str(tmp_path)))
    write_checkpoint(snapshot, snapshot.tombstones.table)
    type = pq.read_schema(tmp_path / "_delta_log" / files(tmp_path)[0]).field("add").type.field("stats_parsed").type
    found = [] if type.get_field_index("nullCount") < 0 else [field.name for field in type.field("nullCount").type]
    assert found == kept


@pytest.mark.parametrize(("texts", "kept"), [(["2020-01-01T00:00:00.000000Z", None], True), (["2020-01-01 00:00:00"], False)])
def test_partition_moments_are_typed_where_their_texts_say_which_they_are(tmp_path: Path, texts: list[Any], kept: bool) -> None:
    commit(tmp_path, 0, V2, metadata(schema_text(id="long", at="timestamp"), ["at"]))
    commit(tmp_path, 1, *[add(f"f{number}", partitionValues={"at": text}) for number, text in enumerate(texts)])
    snapshot = load(LocalStore(str(tmp_path)))
    write_checkpoint(snapshot, snapshot.tombstones.table)
    adds = pq.read_schema(tmp_path / "_delta_log" / files(tmp_path)[0]).field("add").type
    assert ("partitionValues_parsed" in {field.name for field in adds}) == kept


def test_the_folder_of_sidecars_is_on_the_disk_before_the_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if somebody else has made it a moment ago."""
    made = table(tmp_path, delta_checkpointPolicy="v2")
    (tmp_path / "_delta_log" / "_sidecars").mkdir()
    steps: list[str] = []
    put = LocalStore.put_if_absent
    monkeypatch.setattr("deltamerge.disk._sync", steps.append)
    monkeypatch.setattr(LocalStore, "put_if_absent", lambda *arguments: (steps.append("top"), put(*arguments))[1])
    write_checkpoint(made, made.tombstones.table)
    assert str(tmp_path / "_delta_log") in steps[: steps.index("top")]
