"""Row ids and row commit versions: two more columns that rows keep when they are written again.

Source: PROTOCOL.md, "Row Tracking". Null says that the id is the one of the row's place, the version that of its file.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.protocol.table.column_mapping import PHYSICAL
from deltamerge.protocol.table.row_tracking import TrackingColumns
from deltamerge.worker.scan.scan import FileTask
from deltamerge.worker.write.write import WriteSpec

ROW_ID = "__deltamerge_row_id"
ROW_VERSION = "__deltamerge_row_version"
TRACKED = (ROW_ID, ROW_VERSION)


def tracking_spec(spec: WriteSpec, columns: TrackingColumns) -> WriteSpec:
    """How data files are written whose rows keep their ids and commit versions."""
    names = {ROW_ID: columns.row_id, ROW_VERSION: columns.row_version}
    logical = [pa.field(name, pa.int64(), metadata={PHYSICAL: physical.encode()}) for name, physical in names.items()]
    stored = [pa.field(physical, pa.int64()) for physical in names.values()]
    return replace(spec, schema=pa.schema([*spec.schema, *logical]), stored=pa.schema([*spec.stored, *stored]))


def tracked(rows: pa.Table, task: FileTask, first: int) -> pa.Table:
    """Rows of a file, from position `first` on, with the ids and commit versions that they have; as they are if not tracked."""
    if ROW_ID in rows.column_names:
        assert task.base_row_id is not None
        ids = pa.array(np.arange(first, first + rows.num_rows, dtype=np.int64) + task.base_row_id)
        rows = _filled(rows, ROW_ID, ids)
    if ROW_VERSION in rows.column_names:
        rows = _filled(rows, ROW_VERSION, pa.scalar(task.row_version, pa.int64()))
    return rows


def _filled(rows: pa.Table, name: str, values: pa.Array | pa.Scalar) -> pa.Table:
    at = rows.column_names.index(name)
    return rows.set_column(at, rows.schema.field(at), pc.coalesce(rows.column(at), values))
