"""What the log of a clone says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deltamerge.commands.table.clone import Clone, clone_table
from deltamerge.errors import AnalysisError
from deltamerge.log.commit.clustering import clustering_columns
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.log.replay.table import DeltaLog
from tests.unit.commands.table.tables import SPARK, column, legacy, mapped, protocol, schema, table
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


def test_an_emptied_target_forgets_its_clustering_and_no_number_that_it_gave(tmp_path: Path) -> None:
    features = protocol("identityColumns", "clustering", "domainMetadata", "appendOnly", "invariants")
    identity = {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.allowExplicitInsert": False}

    def numbered(name: str, mark: int, *actions: Json) -> DeltaLog:
        text = schema(column("id", **identity, **{"delta.identity.highWaterMark": mark}))
        return table(tmp_path / name, features, *actions, schema=text)

    source = numbered("source", 3)
    numbered("target", 900, domain("delta.clustering", clusteringColumns=[["k"]]))
    target = cloned(source, tmp_path / "target", replaces=True)
    assert clustering_columns(target) == []
    assert "delta.clustering" in target.domains
    (found,) = target.schema
    assert found.metadata["delta.identity.highWaterMark"] == 900
    clustered = table(tmp_path / "clustered", features, domain("delta.clustering", clusteringColumns=[["id"]]))
    assert clustering_columns(cloned(clustered, tmp_path / "fresh")) == [("id",)]
    assert clustering_columns(cloned(clustered, tmp_path / "target", replaces=True)) == [("id",)]
    assert "delta.clustering" not in cloned(source, tmp_path / "other").domains


def test_ids_of_columns_go_on_where_the_target_is(tmp_path: Path) -> None:
    def highest(name: str, value: int) -> DeltaLog:
        properties = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": str(value)}
        return table(tmp_path / name, legacy(2, 5), schema=schema(column("a", **mapped(1, "a"))), properties=properties)

    highest("target", 7)
    target = cloned(highest("source", 1), tmp_path / "target", replaces=True)
    assert target.metadata.configuration["delta.columnMapping.maxColumnId"] == "7"


def test_a_target_does_not_lie_at_two_places(tmp_path: Path) -> None:
    source = table(tmp_path / "source", TRACKED).snapshot()
    path = str(tmp_path / "target")
    with pytest.raises(AnalysisError, match="DELTA_AMBIGUOUS_PATHS_IN_CREATE_TABLE"):
        clone_table(SPARK, Clone(source, "src", ("delta", path), location=f"{path}2"))
    assert not Path(path).exists()
    clone_table(SPARK, Clone(source, "src", ("delta", path), location=f"file:{path}/"))
