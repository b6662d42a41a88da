"""A session's `DataStreamReader` that reads Delta tables by this library, and all else as Spark's does."""

from __future__ import annotations

from typing import Any

from deltamerge.activation.reader import Asking
from deltamerge.activation.reading import path_of, schema_given, stores_of
from deltamerge.errors import AnalysisError
from deltamerge.exceptions import catchable
from deltamerge.log.feed.range import MAY_EXCEED
from deltamerge.log.stream.options import stream_options
from deltamerge.spark.read.catalog import source_named
from deltamerge.spark.read.travel import marked
from deltamerge.spark.session.frames import Frame
from deltamerge.spark.session.settings import flag, time_zone
from deltamerge.spark.session.storage import open_table
from deltamerge.spark.sql.text import name_parts_of
from deltamerge.spark.stream.frame import stream_frame


class ReadingStream(Asking):
    """What a reader of streams does otherwise for Delta tables.

    What it was told does not come to Spark: options may be secrets, and Spark shows those of a source.
    """

    def load(self, path: str | None = None, format: str | None = None, schema: Any = None, **options: Any) -> Frame:
        if not self._is_delta(format):
            found: Frame = super().load(path, format, schema, **options)  # type: ignore[misc]
            return found
        self._keep(options)
        return self._loaded(path, schema)

    def table(self, tableName: str) -> Frame:
        return self._named(tableName, super().table)  # type: ignore[misc]

    @catchable
    def _loaded(self, path: str | None, schema: Any) -> Frame:
        if self.deltamerge_schema or schema is not None:
            raise schema_given()
        return self._frame(path_of(path, self.deltamerge_options))

    @catchable
    def _named(self, name: str, plain: Any) -> Frame:
        parts = name_parts_of(name) if isinstance(name, str) else None
        found = source_named(self.deltamerge_session, parts) if parts else None
        frame: Frame = plain(name) if found is None else self._frame(found.location)
        return frame

    def _frame(self, location: str) -> Frame:
        spark, stores = self.deltamerge_session, stores_of(self.deltamerge_options)
        others = {name: text for name, text in self.deltamerge_options.items() if name not in (stores or {}) and name != "path"}
        if marked(location) and not open_table(spark, location, stores).exists():
            raise AnalysisError(
                "DELTA_UNSUPPORTED_TIME_TRAVEL_VIEWS",
                "A stream can't be read as of a version or a time.",
                hint="Say where it begins: startingVersion, startingTimestamp.",
            )
        return stream_frame(spark, location, stream_options(others, time_zone(spark), flag(spark, MAY_EXCEED)), stores)
