"""By which columns a table is clustered.

Source: PROTOCOL.md, "Clustered Table"; delta-spark's ClusteringMetadataDomain.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from deltamerge.errors import AnalysisError, CorruptTableError, restore_action
from deltamerge.log.commit.stats_columns import bound_type, indexed_fields
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.protocol.formats.json_text import json_value
from deltamerge.protocol.schema.types import PrimitiveType, StructField, StructType, has_variant
from deltamerge.protocol.table.actions import DomainMetadata, Metadata
from deltamerge.protocol.table.properties import Properties
from deltamerge.protocol.values.values import texts

DOMAIN = "delta.clustering"
_MOST_COLUMNS = 4


def clustering_columns(snapshot: Snapshot) -> list[tuple[str, ...]]:
    """The paths of the clustering columns, by physical names as the log has them; [] for a table that is not clustered.

    Raises CorruptTableError when the log does not tell them.
    """
    domain = snapshot.domains.get(DOMAIN)
    if domain is None:
        return []
    try:
        return [_path(name) for name in _listed(json_value(domain.configuration)["clusteringColumns"])]
    except (ValueError, LookupError, TypeError) as error:
        raise _unreadable(snapshot) from error


def _path(name: object) -> tuple[str, ...]:
    """The parts of a column's name, given as a text or a list of texts. Raises TypeError for what is neither, ValueError."""
    parts = texts([name] if isinstance(name, str) else _listed(name))
    if not parts:
        raise TypeError("a column has no name")
    return parts


def _listed(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{value} is no list")
    return value


def _unreadable(snapshot: Snapshot) -> CorruptTableError:
    text = snapshot.domains[DOMAIN].configuration
    return CorruptTableError(
        "DELTAMERGE_CORRUPT_CLUSTERING",
        f"The clustering columns of {snapshot.store.url} can't be read: {text[:200]}.",
        parameters={"domain": DOMAIN, "configuration": text},
        hint=restore_action("domainMetadata"),
    )


def clustering_names(snapshot: Snapshot) -> list[str]:
    """The clustering columns by logical names, as SQL has them. Raises CorruptTableError."""
    return [".".join(path) for path in clustering_paths(snapshot)]


def clustering_paths(snapshot: Snapshot) -> list[tuple[str, ...]]:
    """The paths of the clustering columns by logical names. Raises CorruptTableError."""
    return [tuple(_logical(snapshot.schema, path)) for path in clustering_columns(snapshot)]


def layout_paths(snapshot: Snapshot) -> list[tuple[str, ...]]:
    """The clustering columns as paths to lay out rows by. Raises CorruptTableError for one that is no column of single values."""
    found = clustering_paths(snapshot)
    for path in found:
        type: object = snapshot.schema
        for part in path:
            field = type.find(part, case_sensitive=True) if isinstance(type, StructType) else None
            type = None if field is None else field.type
        if not isinstance(type, PrimitiveType) or has_variant(type) or path[0] in snapshot.partition_columns:
            raise _unreadable(snapshot)
    return found


def clustering_changes(newest: Snapshot, target: Snapshot) -> list[DomainMetadata]:
    """What makes a table clustered as it was in another version; [] where neither says anything. Raises CorruptTableError."""
    if DOMAIN not in newest.domains and DOMAIN not in target.domains:
        return []
    names = [list(path) for path in clustering_columns(target)]
    value = {"clusteringColumns": names, "domainName": DOMAIN}
    return [DomainMetadata(DOMAIN, json.dumps(value, separators=(",", ":"), ensure_ascii=False))]


def _logical(schema: StructType, path: tuple[str, ...]) -> list[str]:
    found: list[str] = []
    fields: object = schema
    for part in path:
        field = next((f for f in fields if f.physical_name == part), None) if isinstance(fields, StructType) else None
        found.append(field.name if isinstance(field, StructField) else part)
        fields = field.type if field is not None else None
    return found


def clustering_domain(
    schema: StructType, columns: Sequence[tuple[str, ...]], metadata: Metadata, partition_by: Sequence[str] = ()
) -> DomainMetadata:
    """What a commit says to cluster a table by these columns, given by the parts of their logical names; () for by none.

    Raises AnalysisError for a column that is not there, has no statistics, or is one too many.
    """
    if columns and partition_by:
        raise AnalysisError(
            "DELTA_CLUSTER_BY_WITH_PARTITIONED_BY",
            "Clustering and partitioning cannot both be specified.",
            hint="Leave one of the two out.",
        )
    if len(columns) > _MOST_COLUMNS:
        raise AnalysisError(
            "DELTA_CLUSTER_BY_INVALID_NUM_COLUMNS",
            f"CLUSTER BY supports up to {_MOST_COLUMNS} clustering columns, but the table has {len(columns)}.",
            parameters={"numColumnsLimit": _MOST_COLUMNS, "actualNumColumns": len(columns)},
            hint="Name those that queries filter by most often.",
        )
    paths = [_physical(schema, name) for name in columns]
    indexed = dict(indexed_fields(schema, Properties(metadata.configuration)))
    bounded = {path for path, field in indexed.items() if bound_type(field) is not None}
    variants = [".".join(name) for name, path in zip(columns, map(tuple, paths), strict=True) if _is_variant(indexed.get(path))]
    if variants:
        raise AnalysisError(
            "DELTA_CLUSTERING_COLUMNS_DATATYPE_NOT_SUPPORTED",
            f"CLUSTER BY is not supported because these columns don't support data skipping: {', '.join(variants)} : VARIANT.",
            parameters={"columnsWithDataTypes": variants},
            hint="Name columns of single values that have an order.",
        )
    missing = [".".join(name) for name, path in zip(columns, paths, strict=True) if tuple(path) not in bounded]
    if missing:
        raise AnalysisError(
            "DELTA_CLUSTERING_COLUMN_MISSING_STATS",
            f"Liquid clustering requires clustering columns to have stats. Couldn't find them in: {', '.join(missing)}.",
            parameters={"columns": missing},
            hint="Name them in delta.dataSkippingStatsColumns. Structs, arrays and maps have no statistics.",
        )
    value = {"clusteringColumns": paths, "domainName": DOMAIN}
    return DomainMetadata(DOMAIN, json.dumps(value, separators=(",", ":"), ensure_ascii=False))


def _physical(schema: StructType, name: tuple[str, ...]) -> list[str]:
    found: list[str] = []
    within: object = schema
    for part in name:
        field = within.find(part) if isinstance(within, StructType) else None
        if field is None:
            raise AnalysisError(
                "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA",
                f"Unable to find the column {'.'.join(name)} of {schema}.",
                parameters={"columnName": ".".join(name), "tableSchema": str(schema)},
            )
        found.append(field.physical_name)
        within = field.type
    return found


def _is_variant(field: StructField | None) -> bool:
    return field is not None and has_variant(field.type)
