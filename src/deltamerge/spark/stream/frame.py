"""A table as a streaming DataFrame."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import replace
from weakref import WeakKeyDictionary

from deltamerge.errors import AnalysisError, InvalidArgumentError
from deltamerge.log.stream.options import StreamOptions
from deltamerge.log.stream.schemas import Analyzed, check_feed
from deltamerge.protocol.schema.types import StructType
from deltamerge.spark.pyspark.adapter import extended_plan
from deltamerge.spark.pyspark.older import refuse_older
from deltamerge.spark.pyspark.plain import plain_stream_reader
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.schema import shown_schema, to_spark
from deltamerge.spark.session.settings import pads_chars, time_zone
from deltamerge.spark.session.storage import open_table
from deltamerge.spark.stages.changed import FEED_COLUMNS, with_changes
from deltamerge.spark.stages.target import scan_spec
from deltamerge.spark.stream.planner import StreamSpec
from deltamerge.spark.stream.shipping import by_value, packed_planner
from deltamerge.spark.stream.store import PlannerStore

PREFIX, LIMITED = "deltamerge_stream_", "deltamerge_limited_stream_"
# Names of sources tell of secrets nothing that could be tried out.
_SALT = secrets.token_bytes(16)
_REGISTERED: WeakKeyDictionary[Session, set[str]] = WeakKeyDictionary()


# From here on Spark asks a source for what its limits allow until all is read that was there.
_DRAINING = (4, 2)


def check_drained(frame: Frame) -> None:
    """Raise InvalidArgumentError for a frame of a limited stream that is to be read to its end, where Spark asks it only once."""
    version = tuple(int(part) for part in frame.sparkSession.version.split(".")[:2])
    if version < _DRAINING and LIMITED in extended_plan(frame):
        raise InvalidArgumentError(
            "DELTAMERGE_LIMITED_STREAM",
            f"With the trigger availableNow or once Spark {frame.sparkSession.version} ends a query after one batch, which "
            "has not all rows, by the limit of the stream.",
            parameters={"options": ["maxFilesPerTrigger", "maxBytesPerTrigger"]},
            hint="Leave out maxFilesPerTrigger and maxBytesPerTrigger: one batch has all rows. Or use Spark 4.2 or later.",
        )


def stream_frame(spark: Session, location: str, options: StreamOptions, stores: Mapping[str, str] | None = None) -> Frame:
    """The rows of the table at a path, or its changes, as a stream. `stores` are the options that open an object store.

    Raises DeltaMergeError.
    """
    refuse_older("A Delta table as the source of a stream", "Use PySpark 4.0 or later, or read its change data feed in batches.")
    from deltamerge.spark.stream.source import source_class  # an older PySpark has no sources in Python

    snapshot = open_table(spark, location, stores).snapshot()
    if not snapshot.schema:
        raise AnalysisError(
            "DELTA_SCHEMA_NOT_SET",
            f"The table {snapshot.store.url} has no columns yet, which a stream could have.",
            parameters={"table": snapshot.store.url},
            hint="Write rows into it before it is read as a stream.",
        )
    scan = scan_spec(snapshot, snapshot.schema, None, padded=pads_chars(spark, snapshot.schema))
    columns = shown_schema(snapshot.schema)
    if options.feed:
        check_feed(snapshot.metadata, snapshot.version)
        scan, columns = with_changes(scan), StructType((*columns, *FEED_COLUMNS))
    store = PlannerStore(snapshot.store.url, replace(scan.store))
    analyzed = Analyzed(snapshot.version, snapshot.protocol, snapshot.metadata)
    planner = packed_planner(StreamSpec(store, analyzed, options, time_zone(spark)))
    name = (LIMITED if options.is_limited else PREFIX) + hmac.new(_SALT, planner, hashlib.sha256).hexdigest()[:16]
    known = _REGISTERED.setdefault(spark, set())
    if name not in known:
        source = source_class(name, to_spark(columns), planner, scan)
        by_value(lambda: spark.dataSource.register(source))
        known.add(name)
    frame: Frame = plain_stream_reader(spark).format(name).load()
    return frame
