"""Files of several versions as tasks of one scan, in which a file's version, time and kind of change are constants.

Imports no session: the source of a stream does this beside Spark's driver, where this library may not be installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from deltamerge.log.feed.feed import FeedFile
from deltamerge.protocol.schema.types import PrimitiveType, StructField, StructType, arrow_schema, arrow_type
from deltamerge.protocol.table.actions import DeletionVector
from deltamerge.protocol.values.partitions import parse_partition_values
from deltamerge.worker.scan.scan import FileTask, ScanSpec
from deltamerge.worker.scan.store import DataStore
from deltamerge.worker.scan.vectors import Vector
from deltamerge.worker.write.feed import CHANGE_TYPE

_TYPES = {CHANGE_TYPE: "string", "_commit_version": "long", "_commit_timestamp": "timestamp"}
FEED_COLUMNS = StructType(tuple(StructField(name, PrimitiveType(type)) for name, type in _TYPES.items()))
_KIND, _VERSION, _TIME = arrow_schema(FEED_COLUMNS)


@dataclass(frozen=True, slots=True)
class Places:
    """Where a worker finds the data file of a path of the log, and a deletion vector of one."""

    of_file: Callable[[str], tuple[str, DataStore | None]]
    of_vector: Callable[[DeletionVector | None, str], Vector | None]


def with_changes(spec: ScanSpec) -> ScanSpec:
    """The scan of a table, with the columns of its change data feed."""
    return replace(spec, schema=pa.schema([*spec.schema, _KIND, _VERSION, _TIME]))


def changed_tasks(files: Iterable[FeedFile], schema: StructType, zone: str, places: Places, is_feed: bool) -> list[FileTask]:
    """A task per file. Raises CorruptTableError for a partition value or a deletion vector's descriptor that can't be."""
    partitions = _Partitions(schema, zone)
    return [
        FileTask(
            number,
            name,
            {**partitions.values(file), **(_constants(file) if is_feed else {})},
            size=file.size or None,
            store=store,
            vector=places.of_vector(file.vector, file.path),
            among=places.of_vector(file.among, file.path),
        )
        for number, file in enumerate(files)
        for name, store in (places.of_file(file.path),)
    ]


def _constants(file: FeedFile) -> dict[str, pa.Scalar]:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=file.timestamp)
    found = {_VERSION.name: pa.scalar(file.version, _VERSION.type), _TIME.name: pa.scalar(moment, _TIME.type)}
    return found if file.kind is None else {**found, _KIND.name: pa.scalar(file.kind, _KIND.type)}


class _Partitions:
    """Typed partition values, each text parsed once. A file's own values say by which columns it was partitioned."""

    def __init__(self, schema: StructType, zone: str) -> None:
        self._columns = {field.physical_name: field for field in schema}
        self._zone = zone
        self._known: dict[tuple[str, str | None], Any] = {}

    def values(self, file: FeedFile) -> dict[str, Any]:
        """The values of one file by logical name."""
        return {
            self._columns[name].name: self._value(name, text)
            for name, text in (file.partition_values or {}).items()
            if name in self._columns
        }

    def _value(self, name: str, text: str | None) -> Any:
        if (name, text) not in self._known:
            texts = pa.array([text], pa.string())
            self._known[name, text] = parse_partition_values(texts, arrow_type(self._columns[name].type), self._zone)[0]
        return self._known[name, text]
