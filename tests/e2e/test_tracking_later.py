"""Rows of a table that has files are tracked from now on: they get ids, some files in each commit, beside other writers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.commands.table import row_ids
from deltamerge.exceptions import (
    AnalysisException,
    DeltaIllegalArgumentException,
    DeltaUnsupportedTableFeatureException,
    MetadataChangedException,
)
from deltamerge.log.commit.proposal import Proposal
from deltamerge.log.commit.transaction import Committed
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.log.replay.table import open_log
from deltamerge.tables import DeltaTable
from tests.e2e.feeds import VECTORS
from tests.e2e.refusals import refused
from tests.e2e.tables import conf, content, make, source, version
from tests.e2e.test_row_tracking import tracked
from tests.e2e.vectors import actions_of

SCHEMA = "id int, name string, p string"
ROWS = [(id, f"row {id}", "ab"[id % 2]) for id in range(12)]
MOST_FILES = "spark.databricks.delta.backfill.maxNumFiles"
OPERATIONS = ("UPGRADE PROTOCOL", "ROW TRACKING BACKFILL", "SET TBLPROPERTIES")


@pytest.fixture(params=[{}, VECTORS], ids=["copy-on-write", "vectors"])
def properties(request: pytest.FixtureRequest) -> dict[str, str]:
    return dict(request.param)


def switch(spark: SparkSession, path: Path, **values: str) -> None:
    """Set properties, `enableRowTracking` to true if none are given."""
    given = ", ".join(f"'delta.{name}' = '{value}'" for name, value in (values or {"enableRowTracking": "true"}).items())
    deltamerge.sql(spark, f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ({given})")


def operations(path: Path, start: int) -> list[str]:
    return [actions_of(path, number, "commitInfo")[0]["operation"] for number in range(start, version(path) + 1)]


@pytest.mark.parametrize("partition_by", [(), ("p",)], ids=["flat", "partitions"])
def test_rows_get_ids_some_files_at_a_time(
    spark: SparkSession, tmp_path: Path, properties: dict[str, str], partition_by: tuple[str, ...]
) -> None:
    path = tmp_path / "t"
    table = make(spark, path, SCHEMA, ROWS, files=3, partition_by=partition_by, properties=properties)
    table.delete("id = 5")
    before, rows, files = version(path), content(spark, path), len(open_log(str(path)).snapshot().files)
    with conf(spark, {MOST_FILES: "2"}):
        switch(spark, path)
    batches = -(-files // 2)
    assert operations(path, before + 1) == [OPERATIONS[0], *OPERATIONS[1:2] * batches, OPERATIONS[2]]
    named = [add["path"] for number in range(batches) for add in actions_of(path, before + 2 + number, "add")]
    assert len(set(named)) == len(named) == files
    for number in range(batches):
        (info,) = actions_of(path, before + 2 + number, "commitInfo")
        assert info["operationParameters"] == {"batchId": str(number)}
        assert not any(add["dataChange"] for add in actions_of(path, before + 2 + number, "add"))
        assert not actions_of(path, before + 2 + number, "remove")
    assert actions_of(path, version(path), "commitInfo")[0]["tags"] == {"rowTrackingEnablementOnly": "true"}
    assert content(spark, path) == rows
    found = tracked(path)
    assert len({id for id, _ in found.values()}) == len(found) == len(rows)
    assert {made for _, made in found.values()} == set(range(before + 2, before + 2 + batches))
    table.update("id = 7", {"name": "'new'"})
    assert tracked(path) == {**found, 7: (found[7][0], version(path))}


def test_it_can_be_switched_off_and_on(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = make(spark, path, SCHEMA, ROWS, files=2)
    switch(spark, path)
    found, columns = tracked(path), actions_of(path, version(path), "metaData")[0]["configuration"]
    switch(spark, path, enableRowTracking="false")
    deltamerge.write(spark.createDataFrame([(90, "x", "a")], SCHEMA), str(path), mode="append")
    table.update("id = 0", {"name": "'new'"})
    switch(spark, path)
    assert operations(path, 5) == ["SET TBLPROPERTIES", "WRITE", "UPDATE", "SET TBLPROPERTIES"]
    assert actions_of(path, version(path), "metaData")[0]["configuration"] == columns
    after = tracked(path)
    assert {id: row for id, row in after.items() if id in range(6, 12)} == {id: found[id] for id in range(6, 12)}
    assert len({id for id, _ in after.values()}) == len(after) == 13
    deltamerge.sql(spark, f"ALTER TABLE delta.`{path}` UNSET TBLPROPERTIES ('delta.enableRowTracking')")
    assert open_log(str(path)).snapshot().properties.flag("delta.enableRowTracking") is False


def test_a_table_with_the_feature_gets_what_is_missing(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(spark, path, SCHEMA, ROWS[:6])
    DeltaTable.forPath(spark, str(path)).addFeatureSupport("rowTracking")
    deltamerge.write(spark.createDataFrame(ROWS[6:], SCHEMA).coalesce(1), str(path), mode="append")
    switch(spark, path)
    assert operations(path, 3) == ["ROW TRACKING BACKFILL", "SET TBLPROPERTIES"]
    assert len(actions_of(path, 3, "add")) == 1
    assert tracked(path) == {id: (id - 6, 2) if id > 5 else (id + 6, 3) for id in range(12)}


def test_an_empty_table(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(spark, path, SCHEMA, [])
    before = version(path)
    switch(spark, path, enableRowTracking="true", appendOnly="true")
    assert operations(path, before + 1)[-1] == "SET TBLPROPERTIES"
    assert "rowTrackingEnablementOnly" not in (actions_of(path, version(path), "commitInfo")[0].get("tags") or {})


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, Callable[[], Any]], None]:
    """Have something done right before one of the commits, by its number."""
    own = row_ids.commit

    def plan(number: int, act: Callable[[], Any]) -> None:
        seen = []

        def committed(before: Snapshot, proposal: Proposal) -> Committed:
            seen.append(proposal)
            if len(seen) == number:
                act()
            return own(before, proposal)

        monkeypatch.setattr(row_ids, "commit", committed)

    return plan


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("act", ["append", "delete", "merge", "the same"])
def test_other_writers_go_on(
    spark: SparkSession,
    tmp_path: Path,
    properties: dict[str, str],
    meanwhile: Callable[[int, Callable[[], Any]], None],
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    act: str,
) -> None:
    path = tmp_path / "t"
    table = make(spark, path, SCHEMA, ROWS, files=4, properties=properties)
    expected = {id: name for id, name, _ in ROWS}

    def done() -> None:
        if act == "append":
            deltamerge.write(spark.createDataFrame([(90, "x", "a")], SCHEMA), str(path), mode="append")
        elif act == "delete":
            table.delete("id IN (1, 4, 7, 8, 10)")
        elif act == "merge":
            rows = source(spark, SCHEMA, [(2, "new", "a"), (11, "new", "b"), (90, "x", "a")])
            table.merge(rows, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
        else:
            monkeypatch.undo()
            switch(spark, path)

    meanwhile(number, done)
    with conf(spark, {MOST_FILES: "2"}):
        switch(spark, path)
    if act in ("append", "merge"):
        expected |= {90: "x"}
    if act == "merge":
        expected |= {2: "new", 11: "new"}
    if act == "delete":
        expected = {id: name for id, name in expected.items() if id not in (1, 4, 7, 8, 10)}
    assert {row[0]: row[1] for row in content(spark, path)} == expected
    found = tracked(path)
    assert len({id for id, _ in found.values()}) == len(found) == len(expected)
    assert open_log(str(path)).snapshot().properties.flag("delta.enableRowTracking")


def test_rows_keep_the_ids_that_they_were_given(
    spark: SparkSession, tmp_path: Path, meanwhile: Callable[[int, Callable[[], Any]], None]
) -> None:
    path = tmp_path / "t"
    make(spark, path, SCHEMA, ROWS, files=4)

    def stop() -> None:
        raise KeyboardInterrupt

    meanwhile(3, stop)
    with conf(spark, {MOST_FILES: "1"}):
        with pytest.raises(KeyboardInterrupt):
            switch(spark, path)
        assert open_log(str(path)).snapshot().properties.flag("delta.enableRowTracking") is False
        (first,) = actions_of(path, version(path), "add")
        assert sorted(row[0] for row in content(spark, path)) == list(range(12))
        meanwhile(9, stop)
        switch(spark, path)
    files = {row["path"]: row["baseRowId"] for row in open_log(str(path)).snapshot().files.table().to_pylist()}
    assert (files[first["path"]], sorted(files.values())) == (0, [0, 3, 6, 9])


def test_a_change_of_metadata_meanwhile_is_a_conflict(
    spark: SparkSession, tmp_path: Path, meanwhile: Callable[[int, Callable[[], Any]], None]
) -> None:
    path = tmp_path / "t"
    make(spark, path, SCHEMA, ROWS, files=2)
    meanwhile(2, lambda: switch(spark, path, rowTrackingSuspended="true"))
    with pytest.raises(MetadataChangedException):
        switch(spark, path)


@pytest.mark.local(reason="the table is copied")
def test_what_can_not_be_tracked_is_refused_before_anything_is_done(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(spark, path, SCHEMA, ROWS)
    with (
        conf(spark, {"spark.databricks.delta.rowTracking.backfill.enabled": "false"}),
        refused(path, DeltaUnsupportedTableFeatureException, "DELTAMERGE_ROW_IDS_NOT_ALLOWED", "rowTracking.backfill.enabled"),
    ):
        switch(spark, path)
    with (
        conf(spark, {MOST_FILES: "0"}),
        refused(path, DeltaIllegalArgumentException, "DELTAMERGE_INVALID_SETTING", MOST_FILES),
    ):
        switch(spark, path)
    both = "DELTA_ROW_TRACKING_ILLEGAL_PROPERTY_COMBINATION"
    with refused(path, DeltaUnsupportedTableFeatureException, both, hint="Unset one"):
        switch(spark, path, enableRowTracking="true", rowTrackingSuspended="true")
    switch(spark, path, rowTrackingSuspended="true")
    with refused(path, DeltaUnsupportedTableFeatureException, both, hint="Unset one"):
        switch(spark, path)
    with refused(path, DeltaUnsupportedTableFeatureException, both, hint="by a statement of its own"):
        switch(spark, path, enableRowTracking="true", rowTrackingSuspended="false")
    switch(spark, path, rowTrackingSuspended="false")
    switch(spark, path)
    with refused(path, DeltaUnsupportedTableFeatureException, both, hint="Unset one"):
        switch(spark, path, rowTrackingSuspended="true")


@pytest.mark.local(reason="a commit is written by hand")
def test_a_file_whose_rows_nobody_has_counted(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(spark, path, SCHEMA, ROWS)
    (add,) = actions_of(path, 0, "add")
    uncounted = {**add, "path": "other.parquet", "stats": "{}"}
    (path / "_delta_log" / f"{1:020d}.json").write_text(
        '{"add":' + str(uncounted).replace("'", '"').replace("True", "true") + "}\n"
    )
    with refused(path, AnalysisException, "DELTA_ROW_ID_ASSIGNMENT_WITHOUT_STATS", "other.parquet"):
        switch(spark, path)
