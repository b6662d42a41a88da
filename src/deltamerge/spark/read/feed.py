"""The change data feed as a lazy DataFrame: one Arrow scan in which a file's version, time and kind of change are constants."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F

from deltamerge.errors import AnalysisError
from deltamerge.log.feed.feed import Feed, FeedFile
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.protocol.schema.types import PrimitiveType, StructField, StructType, arrow_schema, arrow_type
from deltamerge.protocol.table.actions import Metadata
from deltamerge.protocol.table.properties import Properties
from deltamerge.protocol.values.partitions import parse_partition_values
from deltamerge.spark.expressions.analysis import empty_frame
from deltamerge.spark.session.attributes import quoted
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.schema import shown_schema, to_spark
from deltamerge.spark.session.settings import pads_chars, time_zone
from deltamerge.spark.stages.scan import scan_frame
from deltamerge.spark.stages.target import file_place, scan_spec, vector_at
from deltamerge.worker.scan.scan import FileTask
from deltamerge.worker.write.feed import CHANGE_TYPE

_TYPES = {CHANGE_TYPE: "string", "_commit_version": "long", "_commit_timestamp": "timestamp"}
FEED_COLUMNS = StructType(tuple(StructField(name, PrimitiveType(type)) for name, type in _TYPES.items()))
_KIND, _VERSION, _TIME = arrow_schema(FEED_COLUMNS)


def feed_frame(spark: Session, feed: Feed) -> Frame:
    """The rows of a feed: the table's columns, then `_change_type`, `_commit_version`, `_commit_timestamp`; nothing runs yet.

    Raises CorruptTableError for a partition value or a deletion vector's descriptor that can't be.
    """
    schema = StructType((*shown_schema(feed.snapshot.schema), *FEED_COLUMNS))
    if not feed.files:
        return empty_frame(spark, schema)
    partitions = _Partitions(feed.snapshot, time_zone(spark))
    tasks = [_task(number, file, feed.snapshot, partitions) for number, file in enumerate(feed.files)]
    stored = scan_spec(feed.snapshot, feed.snapshot.schema, None, padded=pads_chars(spark, feed.snapshot.schema))
    spec = replace(stored, schema=pa.schema([*stored.schema, _KIND, _VERSION, _TIME]))
    frame = scan_frame(spark, spec, to_spark(schema), tasks, [file.size for file in feed.files])
    return frame.select(*[F.col(quoted(name)) for name in schema.names])


def _task(number: int, file: FeedFile, snapshot: Snapshot, partitions: _Partitions) -> FileTask:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=file.timestamp)
    constants = {_VERSION.name: pa.scalar(file.version, _VERSION.type), _TIME.name: pa.scalar(moment, _TIME.type)}
    if file.kind is not None:
        constants[_KIND.name] = pa.scalar(file.kind, _KIND.type)
    name, store = file_place(snapshot.store, file.path)
    return FileTask(
        number,
        name,
        {**partitions.values(file), **constants},
        size=file.size or None,
        store=store,
        vector=vector_at(snapshot.store, file.vector, file.path),
        among=vector_at(snapshot.store, file.among, file.path),
    )


class _Partitions:
    """Typed partition values, each text parsed once. A file's own values say by which columns it was partitioned."""

    def __init__(self, snapshot: Snapshot, zone: str) -> None:
        self._columns = {field.physical_name: field for field in snapshot.schema}
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


def check_feed_columns(schema: StructType, metadata: Metadata) -> None:
    """Raise AnalysisError for columns that the change data feed needs for itself."""
    kept = [name for name in FEED_COLUMNS.names if schema.find(name) is not None]
    if kept and Properties(metadata.configuration).change_data_feed:
        raise AnalysisError(
            "DELTA_TABLE_ALREADY_CONTAINS_CDC_COLUMNS",
            f"The table can't have a change data feed: the data has columns {', '.join(kept)}, which the feed adds.",
            parameters={"columnList": kept},
            hint="Rename or drop these columns.",
        )
