"""What tasks report, as actions of a commit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.protocol.schema.types import StructType
from deltamerge.protocol.table.actions import AddFile, CdcFile
from deltamerge.protocol.values.partitions import encode_path, partition_text
from deltamerge.worker.write.results import ADD, CHANGE, unpack_partition


def added_files(result: pa.Table, schema: StructType) -> list[tuple[str, AddFile]]:
    """The data files that tasks report, with their names, as add actions."""
    return [
        (
            row["name"],
            AddFile(
                path=encode_path(row["name"]),
                partition_values=partition_values,
                size=row["size"],
                modification_time=row["modified"],
                stats=row["stats"],
            ),
        )
        for row, partition_values in _written(result, schema, ADD)
    ]


def change_files(result: pa.Table, schema: StructType) -> list[tuple[str, CdcFile]]:
    """The change data files that tasks report, with their names, as cdc actions."""
    written = _written(result, schema, CHANGE)
    return [(row["name"], CdcFile(encode_path(row["name"]), values, row["size"])) for row, values in written]


def _written(result: pa.Table, schema: StructType, kind: str) -> Iterator[tuple[dict[str, Any], dict[str, str | None]]]:
    """The result rows of written files, each with its partition values as the log has them."""
    physical = {f.name: f.physical_name for f in schema}
    for row in result.filter(pc.equal(result["kind"], kind)).to_pylist():
        values = unpack_partition(row["partition"])
        yield row, {physical[name]: partition_text(value) for name, value in values.items()}
