"""The change data feed as a lazy DataFrame: one Arrow scan in which a file's version, time and kind of change are constants."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from pyspark.sql import functions as F

from deltamerge.errors import AnalysisError
from deltamerge.log.feed.feed import Feed, feed_of
from deltamerge.log.feed.range import MAY_EXCEED, FeedBounds
from deltamerge.log.replay.table import DeltaLog
from deltamerge.protocol.schema.types import StructType
from deltamerge.protocol.table.actions import Metadata
from deltamerge.protocol.table.properties import Properties
from deltamerge.spark.expressions.analysis import empty_frame
from deltamerge.spark.plans.attributes import quoted
from deltamerge.spark.session.delta_check import check_delta
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.schema import shown_schema, to_spark
from deltamerge.spark.session.settings import flag, pads_chars, time_zone
from deltamerge.spark.stages.changed import FEED_COLUMNS, Places, changed_tasks, with_changes
from deltamerge.spark.stages.scan import scan_frame
from deltamerge.spark.stages.target import file_place, scan_spec, vector_at


def changes_frame(spark: Session, log: DeltaLog, bounds: FeedBounds) -> Frame:
    """The changes of a table within bounds, lazily, as `feed_frame`; the session says whether they may be after its versions.

    Raises AnalysisError, InvalidArgumentError, UnsupportedTableError, CorruptTableError.
    """
    check_delta(spark, "CHANGES")
    return feed_frame(spark, feed_of(log, replace(bounds, may_exceed=flag(spark, MAY_EXCEED))))


def feed_frame(spark: Session, feed: Feed) -> Frame:
    """The rows of a feed: the table's columns, then `_change_type`, `_commit_version`, `_commit_timestamp`; nothing runs yet.

    Raises CorruptTableError for a partition value or a deletion vector's descriptor that can't be.
    """
    schema = StructType((*shown_schema(feed.snapshot.schema), *FEED_COLUMNS))
    if not feed.files:
        return empty_frame(spark, schema)
    places = Places(partial(file_place, feed.snapshot.store), partial(vector_at, feed.snapshot.store))
    tasks = changed_tasks(feed.files, feed.snapshot.schema, time_zone(spark), places, is_feed=True)
    spec = with_changes(scan_spec(feed.snapshot, feed.snapshot.schema, None, padded=pads_chars(spark, feed.snapshot.schema)))
    frame = scan_frame(spark, spec, to_spark(schema), tasks, [file.size for file in feed.files])
    return frame.select(*[F.col(quoted(name)) for name in schema.names])


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
