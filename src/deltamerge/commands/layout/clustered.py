"""Which files of a clustered table OPTIMIZE lays out again, and the tags by which it and others know what is laid out.

Files that were laid out together make a cube. Source: delta-spark's ClusteringStrategy, ZCube and ZCubeInfo. Sizes are in bytes.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from deltamerge.errors import AnalysisError, UnsupportedTableError
from deltamerge.log.commit.clustering import clustering_names
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.protocol.formats.json_text import json_value
from deltamerge.protocol.table.actions import AddFile
from deltamerge.protocol.table.features import named_features

_PROVIDER = "liquid"
_ID, _COLUMNS = "ZCUBE_ID", "ZCUBE_ZORDER_BY"
_LARGE_CUBE = 100 << 30
FULL_CUBE = 150 << 30


@dataclass(frozen=True)
class ClusteredFiles:
    """The files of a clustered table that are laid out again, in order, and all that were considered."""

    chosen: Sequence[AddFile]
    considered: Sequence[AddFile]


def check_clustering(snapshot: Snapshot, predicates: Sequence[str], z_order: Sequence[str], full: bool) -> list[str]:
    """The clustering columns, [] for a table without them. Raises for what such a table, or another one, has no use for."""
    is_clustered = "clustering" in named_features(snapshot.protocol)
    names = clustering_names(snapshot) if is_clustered else []
    if is_clustered and predicates:
        raise UnsupportedTableError(
            "DELTA_CLUSTERING_WITH_PARTITION_PREDICATE",
            "OPTIMIZE of a clustered table takes no predicates about partitions: there are none.",
            parameters={"predicates": list(predicates)},
            hint="Leave the predicate out.",
        )
    if is_clustered and z_order:
        raise AnalysisError(
            "DELTA_CLUSTERING_WITH_ZORDER_BY",
            "OPTIMIZE of a clustered table can't be told other columns by ZORDER BY.",
            parameters={"zOrderBy": list(z_order)},
            hint="Leave ZORDER BY out, or change the clustering columns.",
        )
    if full and not names:
        raise UnsupportedTableError(
            "DELTA_OPTIMIZE_FULL_NOT_SUPPORTED",
            "OPTIMIZE FULL is only supported for clustered tables with non-empty clustering columns.",
            hint="Leave FULL out.",
        )
    return names


def clustered_files(files: Sequence[AddFile], names: Sequence[str], full: bool) -> ClusteredFiles:
    """The files that are not laid out by these columns, with the cubes that are not large.

    Files that another tool, or other columns, laid out stay as they are unless the statement is FULL. One cube alone does, too.
    """
    ordered = sorted(files, key=lambda file: cube_of(file) or "")
    ours = [file for file in ordered if _is_ours(file, names)]
    others = [file for file in ordered if not _is_ours(file, names)]
    sizes: dict[str, int] = {}
    for file in ours:
        if cube := cube_of(file):
            sizes[cube] = sizes.get(cube, 0) + file.size
    small = [file for file in ours if sizes.get(cube_of(file) or "", 0) < _LARGE_CUBE]
    if full and others:
        return ClusteredFiles([*small, *others], ordered)
    cubes = {cube_of(file) for file in small}
    return ClusteredFiles([] if len(cubes) == 1 and None not in cubes else small, ordered)


def clustering_metrics(found: ClusteredFiles, names: Sequence[str], full: bool, cubes: int) -> dict[str, Any]:
    """What delta-spark tells of files in cubes, of others, and of those that are laid out again."""
    known = [file for file in found.considered if cube_of(file) is not None and (full or _is_ours(file, names))]
    inside = set(map(id, known))
    others = [file for file in found.considered if id(file) not in inside]
    return {
        "inputZCubeFiles": _sizes(known),
        "inputOtherFiles": _sizes(others),
        "inputNumZCubes": len({cube_of(file) for file in known}),
        "mergedFiles": _sizes(found.chosen),
        "numOutputZCubes": cubes,
    }


def _sizes(files: Sequence[AddFile]) -> dict[str, int]:
    return {"numFiles": len(files), "size": sum(file.size for file in files)}


def cube_of(file: AddFile) -> str | None:
    """The id of the cube that a file belongs to."""
    tags: Mapping[str, str] = file.tags or {}
    return tags.get(_ID) if _COLUMNS in tags else None


def as_cube(files: Sequence[AddFile], names: Sequence[str]) -> list[AddFile]:
    """The files of a bin, which were laid out together, as a cube."""
    tags = {_ID: str(uuid.uuid4()), _COLUMNS: json.dumps(list(names), separators=(",", ":"), ensure_ascii=False)}
    return [replace(file, tags=tags, clustering_provider=_PROVIDER) for file in files]


def _is_ours(file: AddFile, names: Sequence[str]) -> bool:
    if file.clustering_provider not in (None, _PROVIDER):
        return False
    if cube_of(file) is None:
        return True
    try:
        return bool(json_value((file.tags or {})[_COLUMNS]) == list(names))
    except ValueError:
        return False
