"""A session's `DataFrameReader` that reads Delta tables by this library, and all else as Spark's does.

It is Spark's own reader, whose class is a subclass of Spark's: whatever else it has goes on to work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deltamerge.activation.reading import Options, asks_of_delta, delta_frame, path_of, schema_given
from deltamerge.errors import AnalysisError
from deltamerge.exceptions import catchable
from deltamerge.spark.expressions.queries import NO_SOURCE, asking_for_formats
from deltamerge.spark.pyspark.adapter import is_connect
from deltamerge.spark.pyspark.plain import plain_table
from deltamerge.spark.read.catalog import is_path, source_named
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.sql.text import name_parts_of
from deltamerge.statements.temp_views import refresh_view

_DEFAULT_FORMAT = "spark.sql.sources.default"


def with_delta(spark: Session, reader: Any, mixin: type | None = None) -> Any:
    """The reader, which from now on reads Delta tables of this session."""
    reader.__class__ = _class_of(type(reader), mixin or _Reading)
    reader.deltamerge_session = spark
    reader.deltamerge_options = {}
    return reader


def read_table(spark: Session, name: str, options: Options, plain: Any) -> Frame:
    """The rows of a table or view by name: `plain` is what Spark makes of it, where it is no Delta table that only we read."""
    parts = name_parts_of(name)
    if parts:
        refresh_view(spark, parts)
    if not (is_path(parts) or asks_of_delta(options)):
        try:
            with asking_for_formats(spark):
                return _analyzed(spark, plain())
        except AnalysisError as error:
            if error.condition != NO_SOURCE:
                raise
    found = source_named(spark, parts) if parts else None
    return plain() if found is None else delta_frame(spark, found.location, options)


def _analyzed(spark: Session, frame: Frame) -> Frame:
    """The frame, of which Spark knows by now that it has the format: a Connect client asks only for what is wanted."""
    if is_connect(spark):
        try:
            frame.schema  # noqa: B018
        except Exception as error:
            if NO_SOURCE in str(error):
                raise
    return frame


class Asking:
    """What readers of both kinds, of rows and of streams, are told."""

    deltamerge_session: Session
    deltamerge_options: dict[str, str]
    deltamerge_format: str | None = None
    deltamerge_schema = False

    def format(self, source: str) -> Any:
        self.deltamerge_format = source
        return super().format(source)  # type: ignore[misc]

    def schema(self, schema: Any) -> Any:
        self.deltamerge_schema = True
        return super().schema(schema)  # type: ignore[misc]

    def option(self, key: str, value: Any) -> Any:
        self._keep({key: value})
        return super().option(key, value)  # type: ignore[misc]

    def options(self, **options: Any) -> Any:
        self._keep(options)
        return super().options(**options)  # type: ignore[misc]

    def _is_delta(self, format: str | None) -> bool:
        chosen = format or self.deltamerge_format or self.deltamerge_session.conf.get(_DEFAULT_FORMAT, None) or ""
        return chosen.lower() == "delta"

    def _keep(self, options: dict[str, Any]) -> None:
        for name, value in options.items():
            if value is not None:
                text = str(value)
                self.deltamerge_options[name.lower()] = text.lower() if isinstance(value, bool) else text


class _Reading(Asking):
    """What a reader does otherwise for Delta tables."""

    def load(
        self,
        path: str | Sequence[str] | None = None,
        format: str | None = None,
        schema: Any = None,
        **options: Any,
    ) -> Frame:
        if not self._is_delta(format):
            found: Frame = super().load(path, format, schema, **options)  # type: ignore[misc]
            return found
        self._keep(options)
        return self._loaded(path, schema)

    def table(self, tableName: str) -> Frame:
        if not isinstance(tableName, str):
            found: Frame = super().table(tableName)
            return found
        return self._named(tableName, super().table)  # type: ignore[misc]

    @catchable
    def _loaded(self, path: str | Sequence[str] | None, schema: Any) -> Frame:
        if self.deltamerge_schema or schema is not None:
            raise schema_given()
        return delta_frame(self.deltamerge_session, path_of(path, self.deltamerge_options), self.deltamerge_options)

    @catchable
    def _named(self, name: str, plain: Any) -> Frame:
        return read_table(self.deltamerge_session, name, self.deltamerge_options, lambda: plain(name))


_CLASSES: dict[type, type] = {}


def _class_of(kind: type, mixin: type) -> type:
    """The subclass of a reader's class that reads Delta tables."""
    if issubclass(kind, mixin):
        return kind
    return _CLASSES.setdefault(kind, type(kind.__name__, (mixin, kind), {"__doc__": kind.__doc__}))


@catchable
def table_of_session(spark: Session, name: str) -> Frame:
    """What `spark.table` gives for a name."""
    return read_table(spark, name, {}, lambda: plain_table(spark, name))
