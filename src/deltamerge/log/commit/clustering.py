"""By which columns a table is clustered.

Source: PROTOCOL.md, "Clustered Table"; delta-spark's ClusteringMetadataDomain.
"""

from __future__ import annotations

import json

from deltamerge.errors import CorruptTableError, restore_action
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.protocol.schema.types import StructField, StructType
from deltamerge.protocol.table.actions import DomainMetadata

_DOMAIN = "delta.clustering"


def clustering_columns(snapshot: Snapshot) -> list[tuple[str, ...]]:
    """The paths of the clustering columns, by physical names as the log has them; [] for a table that is not clustered.

    Raises CorruptTableError when the log does not tell them.
    """
    domain = snapshot.domains.get(_DOMAIN)
    if domain is None:
        return []
    try:
        names = json.loads(domain.configuration)["clusteringColumns"]
        return [(name,) if isinstance(name, str) else tuple(str(part) for part in name) for name in names]
    except (ValueError, LookupError, TypeError) as error:
        raise CorruptTableError(
            "DELTAMERGE_CORRUPT_CLUSTERING",
            f"The clustering columns of {snapshot.store.url} can't be read: {domain.configuration[:200]}.",
            parameters={"domain": _DOMAIN, "configuration": domain.configuration},
            hint=restore_action("domainMetadata"),
        ) from error


def clustering_names(snapshot: Snapshot) -> list[str]:
    """The clustering columns by logical names, as SQL has them. Raises CorruptTableError."""
    return [".".join(path) for path in clustering_paths(snapshot)]


def clustering_paths(snapshot: Snapshot) -> list[tuple[str, ...]]:
    """The paths of the clustering columns by logical names. Raises CorruptTableError."""
    return [tuple(_logical(snapshot.schema, path)) for path in clustering_columns(snapshot)]


def clustering_changes(newest: Snapshot, target: Snapshot) -> list[DomainMetadata]:
    """What makes a table clustered as it was in another version; [] where neither says anything. Raises CorruptTableError."""
    if _DOMAIN not in newest.domains and _DOMAIN not in target.domains:
        return []
    names = [list(path) for path in clustering_columns(target)]
    value = {"clusteringColumns": names, "domainName": _DOMAIN}
    return [DomainMetadata(_DOMAIN, json.dumps(value, separators=(",", ":"), ensure_ascii=False))]


def _logical(schema: StructType, path: tuple[str, ...]) -> list[str]:
    found: list[str] = []
    fields: object = schema
    for part in path:
        field = next((f for f in fields if f.physical_name == part), None) if isinstance(fields, StructType) else None
        found.append(field.name if isinstance(field, StructField) else part)
        fields = field.type if field is not None else None
    return found
