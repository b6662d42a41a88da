"""The clustering columns that a table's log names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deltamerge.commands.table.describe import detail_table
from deltamerge.errors import AnalysisError, CorruptTableError
from deltamerge.log.commit.clustering import (
    clustering_changes,
    clustering_columns,
    clustering_domain,
    clustering_names,
    layout_paths,
)
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.protocol.schema.types import PrimitiveType, StructField, StructType, schema_json
from deltamerge.protocol.table.actions import Metadata
from tests.unit.log.building import create, load

FIELDS = [
    {"name": "a", "type": "long", "nullable": True, "metadata": {}},
    {
        "name": "s",
        "type": {"type": "struct", "fields": [{"name": "x", "type": "long", "nullable": True, "metadata": {}}]},
        "nullable": True,
        "metadata": {},
    },
]
DEEP = "[" * 100_000 + "]" * 100_000
SCHEMA = json.dumps({"type": "struct", "fields": FIELDS})


def clustered(root: Path, configuration: Any, removed: bool = False) -> Snapshot:
    text = configuration if isinstance(configuration, str) else json.dumps(configuration)
    domain = {"domainMetadata": {"domain": "delta.clustering", "configuration": text, "removed": removed}}
    return load(create(root, domain, schema=SCHEMA))


@pytest.mark.parametrize(
    ("names", "paths"),
    [([], []), ([["s", "x"], ["a"]], [("s", "x"), ("a",)]), (["a", "gone"], [("a",), ("gone",)])],
)
def test_names_are_lists_of_parts_or_texts(tmp_path: Path, names: list[Any], paths: list[tuple[str, ...]]) -> None:
    snapshot = clustered(tmp_path, {"clusteringColumns": names, "domainName": "delta.clustering"})
    assert clustering_columns(snapshot) == paths
    assert clustering_names(snapshot) == [".".join(path) for path in paths]
    assert detail_table(snapshot)["clusteringColumns"].to_pylist() == [clustering_names(snapshot)]


@pytest.mark.parametrize("path", [["gone"], ["s"], ["s", "gone"], ["a", "x"]])
def test_rows_are_laid_out_by_columns_of_single_values_alone(tmp_path: Path, path: list[str]) -> None:
    snapshot = clustered(tmp_path, {"clusteringColumns": [["s", "x"], path]})
    with pytest.raises(CorruptTableError, match="DELTAMERGE_CORRUPT_CLUSTERING"):
        layout_paths(snapshot)
    assert layout_paths(clustered(tmp_path / "good", {"clusteringColumns": [["s", "x"], ["a"]]})) == [("s", "x"), ("a",)]


def test_a_table_without_the_domain_is_not_clustered(tmp_path: Path) -> None:
    assert clustering_columns(clustered(tmp_path, {"clusteringColumns": [["a"]]}, removed=True)) == []


def test_another_version_s_clustering_is_written_where_either_has_one(tmp_path: Path) -> None:
    by_a = clustered(tmp_path / "a", {"clusteringColumns": [["a"]]})
    plain = clustered(tmp_path / "p", {"clusteringColumns": [["a"]]}, removed=True)
    domain = {"clusteringColumns": [["a"]], "domainName": "delta.clustering"}
    assert clustering_changes(plain, plain) == []
    assert [json.loads(change.configuration) for change in clustering_changes(plain, by_a)] == [domain]
    assert [json.loads(change.configuration) for change in clustering_changes(by_a, plain)] == [
        {**domain, "clusteringColumns": []}
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        *(f'{{"clusteringColumns": {names}}}' for names in (r'[["a\ud800"]]', "[5]", "5", '"a"', "[[]]", "[[5]]", DEEP)),
        DEEP,
    ],
)
def test_a_damaged_domain_is_named(tmp_path: Path, text: str) -> None:
    with pytest.raises(CorruptTableError, match="DELTAMERGE_CORRUPT_CLUSTERING"):
        clustering_columns(clustered(tmp_path, text))


CLUSTERED = StructType(
    (
        StructField("id", PrimitiveType("integer"), True, {"delta.columnMapping.physicalName": "c1"}),
        StructField("s", StructType((StructField("x.y", PrimitiveType("string")),))),
        StructField("flag", PrimitiveType("boolean")),
    )
)


def test_the_columns_that_cluster_a_table_are_told_by_physical_names() -> None:
    metadata = Metadata("0", schema_json(CLUSTERED), (), {})
    found = clustering_domain(CLUSTERED, [("S", "x.y"), ("ID",)], metadata)
    assert json.loads(found.configuration)["clusteringColumns"] == [["s", "x.y"], ["c1"]]
    assert json.loads(clustering_domain(CLUSTERED, [], metadata, ["id"]).configuration)["clusteringColumns"] == []


@pytest.mark.parametrize(
    ("columns", "partition_by", "condition"),
    [
        ([("none",)], [], "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA"),
        ([("flag",)], [], "DELTA_CLUSTERING_COLUMN_MISSING_STATS"),
        ([("s",)], [], "DELTA_CLUSTERING_COLUMN_MISSING_STATS"),
        ([("id",)] * 5, [], "DELTA_CLUSTER_BY_INVALID_NUM_COLUMNS"),
        ([("id",)], ["flag"], "DELTA_CLUSTER_BY_WITH_PARTITIONED_BY"),
    ],
)
def test_columns_that_can_not_cluster_a_table(columns: list[tuple[str, ...]], partition_by: list[str], condition: str) -> None:
    with pytest.raises(AnalysisError) as caught:
        clustering_domain(CLUSTERED, columns, Metadata("0", schema_json(CLUSTERED), (), {}), partition_by)
    assert caught.value.condition == condition
