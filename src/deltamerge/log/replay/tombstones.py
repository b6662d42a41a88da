"""The removed files that a checkpoint keeps until they expire, worked out only when somebody asks for them.

Source: PROTOCOL.md, "Action Reconciliation".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.log.replay.files import TOMBSTONE_SCHEMA, file_keys

_MOST_PENDING = 64
_IDENTITY = ["path", "deletionVector"]


@dataclass(frozen=True)
class Tombstones:
    """The tombstones of a checkpoint, and what later versions added and removed, oldest first."""

    base: pa.Table = field(default_factory=TOMBSTONE_SCHEMA.empty_table)
    pending: tuple[tuple[pa.Table, pa.Table], ...] = ()

    def after(self, adds: pa.Table, removes: pa.Table) -> Tombstones:
        """The tombstones after a version that added and removed these files."""
        if not adds.num_rows and not removes.num_rows:
            return self
        later = Tombstones(self.base, (*self.pending, (adds.select(_IDENTITY), removes)))
        # A session's merges go on for weeks: each chunk takes some 20 KB, whatever is in it.
        return Tombstones(later.table.combine_chunks()) if len(later.pending) > _MOST_PENDING else later

    @cached_property
    def table(self) -> pa.Table:
        """One row of TOMBSTONE_SCHEMA a removed file: the newest of each, and none that was added again later."""
        kept = []
        seen = pa.array([], pa.string())
        for adds, removes in reversed([(self.base.slice(0, 0).select(_IDENTITY), self.base), *self.pending]):
            again = pa.concat_arrays([seen, file_keys(adds)])
            keys = file_keys(removes)
            kept.append(removes.filter(pc.invert(pc.is_in(keys, again))) if len(again) else removes)
            seen = pa.concat_arrays([again, keys])
        return pa.concat_tables(kept[::-1])
