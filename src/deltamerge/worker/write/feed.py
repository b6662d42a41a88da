"""The change data feed as tasks write it: the rows that a commit changes, as they were and as they are.

Source: PROTOCOL.md, "Change Data Files".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from deltamerge.worker.write.write import PartitionWriters, WriteSpec, WrittenFile

CHANGE_TYPE = "_change_type"
INSERT, DELETE, PREIMAGE, POSTIMAGE = "insert", "delete", "update_preimage", "update_postimage"
_FOLDER = "_change_data"


def change_file_spec(spec: WriteSpec) -> WriteSpec:
    """How change data files of a table are written whose data files are written by `spec`."""
    kind = pa.field(CHANGE_TYPE, pa.string())
    return replace(
        spec,
        schema=spec.schema.append(kind),
        stored=spec.stored.append(kind),
        stats=(),
        required=(),
        lengths=(),
        base=_FOLDER,
        stem="cdc",
    )


class FeedWriter:
    """The change data files of one task, written as `change_file_spec` says."""

    def __init__(self, spec: WriteSpec, number: int) -> None:
        self._spec = spec
        self._columns = [name for name in spec.schema.names if name != CHANGE_TYPE]
        self._writers = PartitionWriters(spec, number)

    def write(self, rows: pa.Table, kinds: str | Sequence[str] | np.ndarray[Any, Any]) -> None:
        """Take rows that have the table's columns, all of one kind of change or each of its own."""
        if rows.num_rows:
            column = pa.repeat(kinds, rows.num_rows) if isinstance(kinds, str) else pa.array(kinds, pa.string())
            self._writers.write(pa.table([*rows.select(self._columns).columns, column], schema=self._spec.schema))

    def close(self) -> list[WrittenFile]:
        """Finish all files and return them."""
        return self._writers.close()

    def discard(self) -> None:
        """Delete everything that was written."""
        self._writers.discard()
