"""How far a stream has read a table: the offsets that its checkpoint keeps, in the form in which delta-spark writes them.

Source: delta-spark's DeltaSourceOffset, so that a query can go on from a checkpoint that the other one has written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deltamerge.errors import InvalidArgumentError

BASE = -1
_VERSION, _NEWEST = 1, 3


@dataclass(frozen=True, slots=True)
class Offset:
    """All before this point is read: of `version` the changes up to the one numbered `index`, BASE for none.

    With `is_snapshot` the number is among the files of the table as it was in `version`, sorted.
    """

    table: str
    version: int
    index: int = BASE
    is_snapshot: bool = False

    @property
    def place(self) -> tuple[int, int]:
        """By which offsets of a table are ordered."""
        return self.version, self.index

    def to_json(self) -> dict[str, Any]:
        """The value that a checkpoint keeps."""
        return {
            "sourceVersion": _VERSION,
            "reservoirId": self.table,
            "reservoirVersion": self.version,
            "index": self.index,
            "isStartingVersion": self.is_snapshot,
        }


def parse_offset(value: Mapping[str, Any], table: str) -> Offset:
    """The offset that a checkpoint has kept. Raises InvalidArgumentError for what is none, or another table's."""
    try:
        source, id = int(value["sourceVersion"]), str(value["reservoirId"])
        # Numbers below 0 stand before the first file: newer versions of delta-spark have several of them.
        found = Offset(id, int(value["reservoirVersion"]), max(BASE, int(value["index"])), bool(value["isStartingVersion"]))
    except (LookupError, TypeError, ValueError) as error:
        raise InvalidArgumentError(
            "DELTA_INVALID_SOURCE_OFFSET_FORMAT",
            f"The checkpoint's offset {dict(value)} is none of a Delta table.",
            hint=_ANEW,
        ) from error
    if source > _NEWEST:
        raise InvalidArgumentError(
            "DELTA_INVALID_FORMAT_FROM_SOURCE_VERSION",
            f"The checkpoint's offset has the format {source}; formats up to {_NEWEST} are known.",
            parameters={"expectedVersion": _NEWEST, "realVersion": source},
            hint=_ANEW,
        )
    if id != table:
        raise other_table(table, id)
    return found


def other_table(found: str, expected: str) -> InvalidArgumentError:
    """The error for another table in the place of the one that the stream has read."""
    return InvalidArgumentError(
        "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE",
        f"The stream reads the table with the id {found}; up to here it has read the one with the id {expected}.",
        parameters={"newTableId": found, "oldTableId": expected},
        hint=f"Another path was given, or the table was made anew. {_ANEW}",
    )


_ANEW = "Start the query with a new checkpointLocation to read the table from its beginning."
