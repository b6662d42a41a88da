"""What tasks report, as actions of a commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.protocol.actions import AddFile
from deltamerge.protocol.partitions import encode_path, partition_text
from deltamerge.protocol.schema import StructType
from deltamerge.worker.results import ADD, unpack_partition


def added_files(result: pa.Table, schema: StructType) -> list[tuple[str, AddFile]]:
    """The data files that tasks report, with their names, as add actions."""
    physical = {f.name: f.physical_name for f in schema}
    found = []
    for row in result.filter(pc.equal(result["kind"], ADD)).to_pylist():
        values: Mapping[str, Any] = unpack_partition(row["partition"])
        found.append(
            (
                row["name"],
                AddFile(
                    path=encode_path(row["name"]),
                    partition_values={physical[name]: partition_text(value) for name, value in values.items()},
                    size=row["size"],
                    modification_time=row["modified"],
                    stats=row["stats"],
                ),
            )
        )
    return found
