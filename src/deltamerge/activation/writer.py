"""The `DataFrameWriter` of an active session's DataFrames: it writes Delta tables by this library, and all else as Spark's does.

It is Spark's own writer, whose class is a subclass of Spark's: whatever else it has goes on to work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from deltamerge.activation.saving import save_as_table
from deltamerge.activation.writing import Told
from deltamerge.commands.rows.request import WriteRequest
from deltamerge.commands.rows.write import write_table
from deltamerge.errors import AnalysisError, InvalidArgumentError
from deltamerge.exceptions import catchable
from deltamerge.spark.expressions.queries import NO_SOURCE, asking_for_formats
from deltamerge.spark.read.catalog import is_path, target_named
from deltamerge.spark.session.frames import Frame
from deltamerge.spark.sql.text import name_parts_of

_DEFAULT_FORMAT = "spark.sql.sources.default"


def with_delta(frame: Frame, writer: Any, mixin: type, **known: Any) -> Any:
    """A writer of a frame, which from now on writes Delta tables, too."""
    writer.__class__ = _class_of(type(writer), mixin)
    writer.deltamerge_frame, writer.deltamerge_told = frame, Told()
    for name, value in known.items():
        setattr(writer, name, value)
    return writer


def written_by_name(frame: Frame, name: str, plain: Callable[[], None], write: Callable[[str], None], operation: str) -> None:
    """Let Spark write into the table of a name; where it lacks the format, let `write` write into the Delta table there."""
    parts = name_parts_of(name)
    if not is_path(parts):
        try:
            with asking_for_formats(frame.sparkSession):
                return plain()
        except AnalysisError as error:
            if error.condition != NO_SOURCE:
                raise
    return write(target_named(frame.sparkSession, parts or (name,), operation).location)


def is_delta(frame: Frame, format: str | None) -> bool:
    """Whether a format, or the session's own if none is given, is Delta's."""
    chosen = format or frame.sparkSession.conf.get(_DEFAULT_FORMAT, None) or ""
    return chosen.lower() == "delta"


class Telling:
    """What writers of both kinds are told."""

    deltamerge_frame: Frame
    deltamerge_told: Told

    def option(self, key: str, value: Any) -> Any:
        self._keep({key: value})
        return super().option(key, value)  # type: ignore[misc]

    def options(self, **options: Any) -> Any:
        self._keep(options)
        return super().options(**options)  # type: ignore[misc]

    def _keep(self, options: Mapping[str, Any]) -> None:
        texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}
        given = {name: text for name, text in texts.items() if options[name] is not None}
        kept = {name: text for name, text in self.deltamerge_told.options.items() if name.lower() not in map(str.lower, given)}
        self._tell(options={**kept, **given})

    def _tell(self, **changes: Any) -> None:
        self.deltamerge_told = replace(self.deltamerge_told, **changes)

    def _into_table(self, location: str, request: WriteRequest) -> None:
        write_table(self.deltamerge_frame, location, request, self.deltamerge_told.stores)


class Writing(Telling):
    """What `df.write` does otherwise for Delta tables."""

    deltamerge_format: str | None = None

    def format(self, source: str) -> Any:
        self.deltamerge_format = source
        return super().format(source)  # type: ignore[misc]

    def mode(self, saveMode: str | None) -> Any:
        if saveMode is not None:
            self._tell(mode=saveMode)
        return super().mode(saveMode)  # type: ignore[misc]

    def partitionBy(self, *cols: Any) -> Any:
        self._tell(partition_by=names_of(cols))
        return super().partitionBy(*cols)  # type: ignore[misc]

    def clusterBy(self, *cols: Any) -> Any:
        self._tell(cluster_by=names_of(cols))
        return super().clusterBy(*cols)  # type: ignore[misc]

    def bucketBy(self, *given: Any, **named: Any) -> Any:
        self._tell(buckets=True)
        return super().bucketBy(*given, **named)  # type: ignore[misc]

    def save(
        self,
        path: str | None = None,
        format: str | None = None,
        mode: str | None = None,
        partitionBy: Any = None,
        **options: Any,
    ) -> None:
        if not self._is_delta(format):
            super().save(path, format, mode, partitionBy, **options)  # type: ignore[misc]
            return
        self._hear(mode, partitionBy, options)
        self._save(path)

    def insertInto(self, tableName: str, overwrite: bool | None = None) -> None:
        if overwrite is not None:
            self._tell(mode="overwrite" if overwrite else "append")
        plain = super().insertInto  # type: ignore[misc]
        self._insert(tableName, lambda: plain(tableName, overwrite))

    def saveAsTable(
        self,
        name: str,
        format: str | None = None,
        mode: str | None = None,
        partitionBy: Any = None,
        **options: Any,
    ) -> None:
        if not self._is_delta(format):
            super().saveAsTable(name, format, mode, partitionBy, **options)  # type: ignore[misc]
            return
        self._hear(mode, partitionBy, options)
        self._save_table(name)

    def _hear(self, mode: str | None, partition_by: Any, options: Mapping[str, Any]) -> None:
        if mode is not None:
            self._tell(mode=mode)
        if partition_by is not None:
            self._tell(partition_by=names_of((partition_by,)))
        self._keep(options)

    @catchable
    def _save(self, path: str | None) -> None:
        told = self.deltamerge_told
        given = path or told.path
        if given is None:
            raise InvalidArgumentError(
                "DELTAMERGE_NO_PATH", "'path' is not specified.", hint='df.write.format("delta").save(path)'
            )
        self._into_table(given, told.request())

    @catchable
    def _insert(self, name: str, plain: Callable[[], None]) -> None:
        told = self.deltamerge_told

        def write(location: str) -> None:
            if told.partition_by:
                raise AnalysisError(
                    "PARTITION_BY_NOT_ALLOWED_WITH_INSERT_INTO",
                    "insertInto() can't be used together with partitionBy(): the table has its own partitioning.",
                    hint="Leave partitionBy() out.",
                )
            mode = "overwrite" if (told.mode or "").lower() == "overwrite" else "append"
            self._into_table(location, told.request(mode=mode, by_position=True))

        written_by_name(self.deltamerge_frame, name, plain, write, "INSERT")

    @catchable
    def _save_table(self, name: str) -> None:
        save_as_table(self.deltamerge_frame, self.deltamerge_told, name_parts_of(name) or (name,))

    def _is_delta(self, format: str | None) -> bool:
        return is_delta(self.deltamerge_frame, format or self.deltamerge_format)


def names_of(given: tuple[Any, ...]) -> tuple[str, ...]:
    """Names given one by one or as a list."""
    if len(given) == 1 and isinstance(given[0], list | tuple):
        given = tuple(given[0])
    return given


_CLASSES: dict[tuple[type, type], type] = {}


def _class_of(kind: type, mixin: type) -> type:
    if issubclass(kind, mixin):
        return kind
    return _CLASSES.setdefault((kind, mixin), type(kind.__name__, (mixin, kind), {"__doc__": kind.__doc__}))
