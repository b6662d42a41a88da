"""What the log of a clone says."""

from __future__ import annotations

import json
from pathlib import Path

from deltamerge.commands.table.clone import Clone, clone_table
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.log.replay.table import DeltaLog
from tests.unit.commands.table.tables import SPARK, column, protocol, schema, table
from tests.unit.log.building import Json, add

NAMES = ("delta.rowTracking.materializedRowIdColumnName", "delta.rowTracking.materializedRowCommitVersionColumnName")
TRACKED = protocol("rowTracking", "domainMetadata", "inCommitTimestamp", "appendOnly", "invariants")


def cloned(source: DeltaLog, target: Path, replaces: bool = False) -> Snapshot:
    """The clone of a table."""
    log, _ = clone_table(SPARK, Clone(source.snapshot(), "src", ("delta", str(target)), replaces=replaces))
    return log.snapshot()


def domain(name: str, **value: object) -> Json:
    """A `domainMetadata` action."""
    return {"domainMetadata": {"domain": name, "configuration": json.dumps(value), "removed": False}}


def tracked(root: Path, suffix: str, *actions: Json) -> DeltaLog:
    """A table whose files keep row ids in a column of that name."""
    properties = {"delta.enableRowTracking": "true", NAMES[0]: f"id-{suffix}", NAMES[1]: f"version-{suffix}"}
    return table(root, TRACKED, *actions, properties=properties)


def test_a_clone_does_not_read_the_row_ids_that_files_keep_for_the_source(tmp_path: Path) -> None:
    source = tracked(
        tmp_path / "source",
        "x",
        add("new", baseRowId=20, defaultRowCommitVersion=2, stats='{"numRecords":10}'),
        add("moved", baseRowId=10, defaultRowCommitVersion=1, stats='{"numRecords":10}'),
        domain("delta.rowTracking", rowIdHighWaterMark=29),
    )
    found = cloned(source, tmp_path / "fresh").metadata.configuration
    assert found["delta.enableRowTracking"] == "true"
    assert found[NAMES[0]].startswith("_row-id-col-")
    assert found[NAMES[1]].startswith("_row-commit-version-col-")
    tracked(tmp_path / "target", "y", domain("delta.rowTracking", rowIdHighWaterMark=99))
    target = cloned(source, tmp_path / "target", replaces=True)
    assert [target.metadata.configuration[name] for name in NAMES] == ["id-y", "version-y"]
    assert sorted(target.files.column("baseRowId").to_pylist()) == [100, 110]


def test_a_clone_has_its_own_beginning_of_in_commit_timestamps(tmp_path: Path) -> None:
    since = {"delta.inCommitTimestampEnablementVersion": "17", "delta.inCommitTimestampEnablementTimestamp": "1700000000000"}
    properties = {"delta.enableInCommitTimestamps": "true", **since}
    source = table(tmp_path / "source", TRACKED, properties=properties)
    clone = cloned(source, tmp_path / "clone")
    assert set(since).isdisjoint(clone.metadata.configuration)
    table(tmp_path / "target", protocol("appendOnly", "invariants"))
    target = cloned(source, tmp_path / "target", replaces=True)
    assert target.metadata.configuration["delta.inCommitTimestampEnablementVersion"] == "1"
