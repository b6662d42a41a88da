"""Tables that track their rows: ids and commit versions are kept by merges, updates and deletes, and shown to nobody."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.exceptions import DeltaCorruptTableException
from deltamerge.log.replay.table import open_log
from deltamerge.protocol.table.actions import DeletionVector
from deltamerge.protocol.table.deletion_vector import deleted_rows, vector_reference
from deltamerge.protocol.table.row_tracking import ID_KEY, VERSION_KEY
from deltamerge.tables import DeltaTable
from tests.e2e.commits import put_commit
from tests.e2e.feeds import FEED, VECTORS, changes
from tests.e2e.refusals import refused
from tests.e2e.tables import parquet_at, source
from tests.e2e.vectors import actions_of

TRACKING = {"delta.enableRowTracking": "true"}
SCHEMA = "id int, name string, p string"

pytestmark = pytest.mark.usefixtures("strategy")


@pytest.fixture(params=[{}, VECTORS], ids=["copy-on-write", "vectors"])
def properties(request: pytest.FixtureRequest) -> dict[str, str]:
    return {**TRACKING, **request.param}


def table(spark: SparkSession, path: Path, properties: dict[str, str], partition_by: tuple[str, ...] = ()) -> DeltaTable:
    """Ten rows in two appends: their ids are those of their places, their versions 0 and 1."""
    for start in (0, 5):
        rows = [(number, f"row {number}", "ab"[number % 2]) for number in range(start, start + 5)]
        frame = spark.createDataFrame(rows, SCHEMA).coalesce(1)
        deltamerge.write(frame, str(path), mode="append", partition_by=partition_by, properties=properties)
    return DeltaTable.forPath(spark, str(path)).alias("t")


def tracked(path: Path) -> dict[int, tuple[int, int]]:
    """Row id and commit version of each row, by its column `id`, as PROTOCOL.md has readers find them."""
    snapshot = open_log(str(path)).snapshot()
    names = [snapshot.metadata.configuration[key] for key in (ID_KEY, VERSION_KEY)]
    found = {}
    for file in snapshot.files.table().to_pylist():
        gone: set[int] = set()
        if file["deletionVector"]:
            vector = DeletionVector.from_json(file["deletionVector"])
            data = snapshot.store.read(vector_reference(vector, file["path"]) or "")
            gone = set(deleted_rows(vector, lambda at, size, data=data: data[at : at + size], "").positions().tolist())
        for place, row in enumerate(parquet_at(path / file["path"]).read().to_pylist()):
            if place not in gone:
                id, version = (row.get(name) for name in names)
                found[row["id"]] = (
                    file["baseRowId"] + place if id is None else id,
                    file["defaultRowCommitVersion"] if version is None else version,
                )
    return found


def test_ids_stay_and_versions_follow_updates(spark: SparkSession, tmp_path: Path, properties: dict[str, str]) -> None:
    path = tmp_path / "t"
    target = table(spark, path, properties)
    before = tracked(path)
    assert before == {id: (id, id // 5) for id in range(10)}
    rows = source(spark, SCHEMA, [(1, "drop", "b"), (2, "new", "b"), (20, "added", "a")])
    merge = target.merge(rows, "t.id = s.id").whenMatchedDelete("s.name = 'drop'").whenMatchedUpdateAll()
    merge.whenNotMatchedInsertAll().execute()
    kept = {id: found for id, found in before.items() if id not in (1, 2)}
    after = tracked(path)
    assert {id: after[id] for id in kept} == kept
    assert after[2] == (2, 2)
    assert (after[20][0] > 9, after[20][1]) == (True, 2)
    assert len({id for id, _ in after.values()}) == len(after) == 10
    target.update("id IN (2, 8)", {"name": "upper(name)"})
    target.delete("id = 3")
    last = tracked(path)
    assert last == {id: (row, 3 if id in (2, 8) else version) for id, (row, version) in after.items() if id != 3}
    assert target.toDF().columns == ["id", "name", "p"]
    assert sorted(row.id for row in target.toDF().collect()) == sorted(last)
    marks = [
        int(json.loads(a["configuration"])["rowIdHighWaterMark"]) for v in range(4) for a in actions_of(path, v, "domainMetadata")
    ]
    assert marks == sorted(set(marks))
    assert max(id for id, _ in last.values()) <= marks[-1]
    for version in range(5):
        assert actions_of(path, version, "commitInfo")[0]["tags"] == {"delta.rowTracking.preserved": "true"}


def test_rows_that_move_to_another_partition(spark: SparkSession, tmp_path: Path, properties: dict[str, str]) -> None:
    path = tmp_path / "t"
    target = table(spark, path, {**properties, **FEED}, ("p",))
    before = tracked(path)
    target.update("id IN (0, 7)", {"p": "'c'"})
    assert tracked(path) == {**before, 0: (before[0][0], 2), 7: (before[7][0], 2)}
    assert [row[2:] for row in changes(spark, path, 2)] == [("c", "update_postimage")] * 2 + [
        ("a", "update_preimage"),
        ("b", "update_preimage"),
    ]
    for action in actions_of(path, 2, "cdc"):
        assert parquet_at(path / action["path"]).schema_arrow.names == ["id", "name", "_change_type"]


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns(spark: SparkSession, tmp_path: Path, properties: dict[str, str], mode: str) -> None:
    path = tmp_path / "t"
    target = table(spark, path, {**properties, "delta.columnMapping.mode": mode})
    for number in (1, 2):
        target.merge(source(spark, "id int", [(number,), (3,)]), "t.id = s.id").whenMatchedUpdate(set={"name": "'x'"}).execute()
    names = {field.physical_name for field in open_log(str(path)).snapshot().schema}
    configuration = open_log(str(path)).snapshot().metadata.configuration
    found = {name for file in path.rglob("*.parquet") for name in parquet_at(file).schema_arrow.names}
    assert found == names | {configuration[ID_KEY], configuration[VERSION_KEY]}
    assert sorted(row.id for row in target.toDF().where("name = 'x'").collect()) == [1, 2, 3]


@pytest.mark.local(reason="the table is moved")
def test_a_file_without_ids_is_refused(spark: SparkSession, tmp_path: Path, properties: dict[str, str]) -> None:
    path = tmp_path / "t"
    table(spark, path, properties)
    first = path / "_delta_log" / f"{0:020d}.json"
    lines: list[dict[str, Any]] = [json.loads(line) for line in first.read_text().splitlines()]
    for line in lines:
        line.get("add", {}).pop("baseRowId", None)
    copied = tmp_path / "copy"
    path.rename(copied)
    put_commit((copied / "_delta_log" / f"{0:020d}.json"), "\n".join(map(json.dumps, lines)) + "\n")
    target = DeltaTable.forPath(spark, str(copied)).alias("t")
    merge = target.merge(source(spark, "id int", [(1,)]), "t.id = s.id").whenMatchedDelete()
    with refused(copied, DeltaCorruptTableException, "DELTAMERGE_FILE_WITHOUT_ROW_IDS", "part-00000"):
        merge.execute()
