"""What OPTIMIZE tells of itself: delta-spark's row, and its metrics in the table's history.

Source: delta-spark's OptimizeStats and OptimizeExecutor.createMetrics. Sizes are in bytes, times in ms since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.protocol.table.actions import AddFile

_LONG = pa.int64()
_SIZES = pa.struct(
    [("min", _LONG), ("max", _LONG), ("avg", pa.float64()), ("totalFiles", _LONG), ("totalSize", _LONG)],
)
_NUM_SIZE = pa.struct([("num", _LONG), ("size", _LONG)])
_FILES_SIZE = pa.struct([("numFiles", _LONG), ("size", _LONG)])
_Z_ORDER = pa.struct(
    [
        ("strategyName", pa.string()),
        ("inputCubeFiles", _NUM_SIZE),
        ("inputOtherFiles", _NUM_SIZE),
        ("inputNumCubes", _LONG),
        ("mergedFiles", _NUM_SIZE),
        ("numOutputCubes", _LONG),
        ("mergedNumCubes", _LONG),
    ]
)
_CLUSTERING = pa.struct(
    [
        ("inputZCubeFiles", _FILES_SIZE),
        ("inputOtherFiles", _FILES_SIZE),
        ("inputNumZCubes", _LONG),
        ("mergedFiles", _FILES_SIZE),
        ("numOutputZCubes", _LONG),
    ]
)
_PARALLELISM = pa.struct(
    [(f"{end}{of}ActiveParallelism", _LONG) for of in ("Cluster", "Session") for end in ("max", "min")],
)
METRICS = pa.struct(
    [
        ("numFilesAdded", _LONG),
        ("numFilesRemoved", _LONG),
        ("filesAdded", _SIZES),
        ("filesRemoved", _SIZES),
        ("partitionsOptimized", _LONG),
        ("zOrderStats", _Z_ORDER),
        ("clusteringStats", _CLUSTERING),
        ("numBins", _LONG),
        ("numBatches", _LONG),
        ("totalConsideredFiles", _LONG),
        ("totalFilesSkipped", _LONG),
        ("preserveInsertionOrder", pa.bool_()),
        ("numFilesSkippedToReduceWriteAmplification", _LONG),
        ("numBytesSkippedToReduceWriteAmplification", _LONG),
        ("startTimeMs", _LONG),
        ("endTimeMs", _LONG),
        ("totalClusterParallelism", _LONG),
        ("totalScheduledTasks", _LONG),
        ("autoCompactParallelismStats", _PARALLELISM),
        ("deletionVectorStats", pa.struct([("numDeletionVectorsRemoved", _LONG), ("numDeletionVectorRowsRemoved", _LONG)])),
        ("numTableColumns", _LONG),
        ("numTableColumnsWithStats", _LONG),
    ]
)
OPTIMIZE_SCHEMA = pa.schema([("path", pa.string()), ("metrics", METRICS)])


@dataclass(frozen=True)
class Optimized:
    """What an OPTIMIZE did: the files that it wrote and replaced, of how many that it could choose from, and in how many bins.

    `clustering` has the metrics of cubes for a clustered table.
    """

    added: Sequence[AddFile]
    removed: Sequence[AddFile]
    considered: int
    bins: int
    partitions: int
    started: int
    z_ordered: bool = False
    clustering: Mapping[str, Any] | None = None

    @property
    def vectors(self) -> tuple[int, int]:
        """How many deletion vectors the replaced files had, and how many rows these deleted."""
        found = [file.deletion_vector.cardinality for file in self.removed if file.deletion_vector is not None]
        return len(found), sum(found)

    @property
    def history(self) -> dict[str, int]:
        """The operation's metrics in the table's history."""
        sizes = sorted(file.size for file in self.added)
        shown = {"min": 0, "p25": len(sizes) // 4, "p50": len(sizes) // 2, "p75": len(sizes) * 3 // 4, "max": len(sizes) - 1}
        return {
            **{f"{name}FileSize": sizes[at] for name, at in shown.items()},
            "numAddedFiles": len(self.added),
            "numRemovedFiles": len(self.removed),
            "numAddedBytes": sum(sizes),
            "numRemovedBytes": sum(file.size for file in self.removed),
            "numDeletionVectorsRemoved": self.vectors[0],
        }


def optimize_row(snapshot: Snapshot, path: str, done: Optimized) -> pa.Table:
    """The one row of OPTIMIZE_SCHEMA that delta-spark returns. The parallelism of the cluster, which is not asked for, is 0."""
    columns = len(snapshot.schema)
    vectors, rows = done.vectors
    metrics: dict[str, Any] = {
        "numFilesAdded": len(done.added),
        "numFilesRemoved": len(done.removed),
        "filesAdded": _sizes(done.added),
        "filesRemoved": _sizes(done.removed),
        "partitionsOptimized": done.partitions,
        "zOrderStats": _z_order(done) if done.z_ordered else None,
        "clusteringStats": done.clustering,
        "numBins": done.bins,
        "numBatches": 1,
        "totalConsideredFiles": done.considered,
        "totalFilesSkipped": done.considered - len(done.removed),
        "preserveInsertionOrder": False,
        "numFilesSkippedToReduceWriteAmplification": 0,
        "numBytesSkippedToReduceWriteAmplification": 0,
        "startTimeMs": done.started,
        "endTimeMs": 0,
        "totalClusterParallelism": 0,
        "totalScheduledTasks": 0,
        "deletionVectorStats": {"numDeletionVectorsRemoved": vectors, "numDeletionVectorRowsRemoved": rows} if vectors else None,
        "numTableColumns": columns,
        "numTableColumnsWithStats": min(snapshot.properties.indexed_columns, columns),
    }
    return pa.Table.from_pylist([{"path": path, "metrics": metrics}], OPTIMIZE_SCHEMA)


def _sizes(files: Sequence[AddFile]) -> dict[str, Any]:
    sizes = [file.size for file in files]
    if not sizes:
        return {"min": None, "max": None, "avg": 0.0, "totalFiles": 0, "totalSize": 0}
    return {
        "min": min(sizes),
        "max": max(sizes),
        "avg": sum(sizes) / len(sizes),
        "totalFiles": len(sizes),
        "totalSize": sum(sizes),
    }


def _z_order(done: Optimized) -> dict[str, Any]:
    files = {"num": len(done.removed), "size": sum(file.size for file in done.removed)}
    return {
        "strategyName": "all",
        "inputCubeFiles": {"num": 0, "size": 0},
        "inputOtherFiles": files,
        "inputNumCubes": 0,
        "mergedFiles": files,
        "numOutputCubes": done.partitions,
        "mergedNumCubes": None,
    }
