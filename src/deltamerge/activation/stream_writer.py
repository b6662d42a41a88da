"""The `DataStreamWriter` of an active session's DataFrames: it writes each batch into a Delta table by this library.

All other formats are Spark's. What Delta does not take is refused before the query starts.
"""

from __future__ import annotations

import uuid
from typing import Any

from deltamerge.activation.stream_sink import Sink
from deltamerge.activation.writer import Telling, is_delta, names_of
from deltamerge.activation.writing import Told
from deltamerge.commands.rows.option_names import check_unknown
from deltamerge.commands.rows.request import OPTIONS, STATIC, WriteRequest, request_of
from deltamerge.commands.table.create import Creation
from deltamerge.commands.table.create_named import CreateNamed, check_listed, create_named
from deltamerge.commands.table.definition import TableDefinition
from deltamerge.errors import AnalysisError, InvalidArgumentError
from deltamerge.exceptions import catchable
from deltamerge.log.replay.table import DeltaLog
from deltamerge.protocol.schema.types import ArrayType, DataType, MapType, StructType, is_void
from deltamerge.protocol.table.evolution import nullable
from deltamerge.spark.plans.attributes import attribute_parts
from deltamerge.spark.pyspark.adapter import is_connect
from deltamerge.spark.read.catalog import NamedTable, delta_named, is_path
from deltamerge.spark.read.unread import frame_read
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.schema import from_spark, shown_schema
from deltamerge.spark.session.settings import setting
from deltamerge.spark.session.storage import open_table
from deltamerge.spark.sql.text import name_parts_of
from deltamerge.spark.stream.frame import check_drained

_CHECKPOINT = "checkpointLocation"
_CHECKPOINTS = "spark.sql.streaming.checkpointLocation"
_OPTIONS = (
    "mergeSchema",
    "overwriteSchema",
    "userMetadata",
    "maxRecordsPerFile",
    "compression",
    "optimizeWrite",
    "parquet.writer.version",
)
_IN_BATCHES = tuple(name.lower() for name in OPTIONS if name not in (*_OPTIONS, "dataChange"))
_OF_SPARK = ("path", "queryname", _CHECKPOINT.lower())


class WritingStream(Telling):
    """What `df.writeStream` does otherwise for Delta tables.

    The layout is kept until the query starts: Spark's `foreachBatch`, by which batches are written here, takes none.
    """

    deltamerge_format: str | None = None
    deltamerge_query: str | None = None
    deltamerge_drains = False

    def trigger(self, **given: Any) -> Any:
        self.deltamerge_drains = bool(given.get("once") or given.get("availableNow"))
        return super().trigger(**given)  # type: ignore[misc]

    def format(self, source: str) -> Any:
        self.deltamerge_format = source
        return super().format(source)  # type: ignore[misc]

    def outputMode(self, outputMode: str) -> Any:
        self._tell(mode=outputMode)
        return super().outputMode(outputMode)  # type: ignore[misc]

    def queryName(self, queryName: str) -> Any:
        self.deltamerge_query = queryName
        return super().queryName(queryName)  # type: ignore[misc]

    def partitionBy(self, *cols: Any) -> Any:
        self._tell(partition_by=names_of(cols))
        return self

    def clusterBy(self, *cols: Any) -> Any:
        self._tell(cluster_by=names_of(cols))
        return self

    def foreach(self, f: Any) -> Any:
        self.deltamerge_format = "foreach"
        return super().foreach(f)  # type: ignore[misc]

    def foreachBatch(self, func: Any) -> Any:
        self.deltamerge_format = "foreachBatch"
        return super().foreachBatch(func)  # type: ignore[misc]

    def start(
        self,
        path: str | None = None,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: Any = None,
        queryName: str | None = None,
        **options: Any,
    ) -> Any:
        self._check_limits()
        if not is_delta(self.deltamerge_frame, format or self.deltamerge_format):
            self._lay_out()
            return super().start(path, format, outputMode, partitionBy, queryName, **options)  # type: ignore[misc]
        self._hear(outputMode, partitionBy, queryName, options)
        return self._start(path)

    def toTable(
        self,
        tableName: str,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: Any = None,
        queryName: str | None = None,
        **options: Any,
    ) -> Any:
        self._check_limits()
        parts = name_parts_of(tableName) or (tableName,)
        chosen = is_delta(self.deltamerge_frame, format or self.deltamerge_format)
        location = _location(self.deltamerge_frame.sparkSession, parts)
        if location is None and not (chosen and _is_missing(self.deltamerge_frame.sparkSession, parts)):
            self._lay_out()
            return super().toTable(tableName, format, outputMode, partitionBy, queryName, **options)  # type: ignore[misc]
        self._hear(outputMode, partitionBy, queryName, options)
        return self._to_table(parts, location)

    def _hear(self, mode: str | None, partition_by: Any, query: str | None, options: dict[str, Any]) -> None:
        if mode is not None:
            self.outputMode(mode)
        if partition_by is not None:
            self.partitionBy(partition_by)
        if query is not None:
            self.queryName(query)
        self.options(**options)

    @catchable
    def _check_limits(self) -> None:
        """Raises InvalidArgumentError for a trigger that takes all there is, where the source can't be told of the trigger."""
        if self.deltamerge_drains:
            check_drained(self.deltamerge_frame)

    def _lay_out(self) -> None:
        """Give Spark's writer the layout that it was told."""
        if self.deltamerge_told.partition_by:
            super().partitionBy(*self.deltamerge_told.partition_by)  # type: ignore[misc]
        if self.deltamerge_told.cluster_by:
            super().clusterBy(*self.deltamerge_told.cluster_by)  # type: ignore[misc]

    @catchable
    def _start(self, path: str | None) -> Any:
        option = self.deltamerge_told.path
        if path and option:
            raise AnalysisError(
                "DELTAMERGE_SEVERAL_PATHS",
                f"There is an option path, {option}, and start() is called with {path}, too.",
                parameters={"path": path},
                hint="Leave one of them out.",
            )
        location = path or option
        if not location:
            hint = 'df.writeStream.format("delta").option("checkpointLocation", ..).start(path)'
            raise InvalidArgumentError("DELTAMERGE_NO_PATH", "'path' is not specified.", hint=hint)
        return self._run(self._sink(location))

    @catchable
    def _to_table(self, name: tuple[str, ...], location: str | None) -> Any:
        spark, told = self.deltamerge_frame.sparkSession, self.deltamerge_told
        if location is not None:
            if not is_path(name):
                check_listed(name, location, told.path)
            return self._run(self._sink(location))
        sink = self._sink("")
        columns = nullable(shown_schema(from_spark(self.deltamerge_frame.schema)))
        clusters = tuple(tuple(attribute_parts(column)) for column in told.cluster_by) or None
        definition = TableDefinition(columns, told.partition_by, clusters)
        log = create_named(spark, CreateNamed(name, Creation.CREATE, definition, told.path))
        return self._run(Sink(log.store.url, sink.request, sink.checkpoint, sink.stores))

    def _sink(self, location: str) -> Sink:
        """What writes the batches. Raises DeltaMergeError for what a Delta table does not take."""
        spark, told = self.deltamerge_frame.sparkSession, self.deltamerge_told
        request = _request(told)
        if _has_void(from_spark(self.deltamerge_frame.schema)):
            message = "A stream can't write columns that have no type (void) into a Delta table."
            raise AnalysisError("DELTA_NULL_SCHEMA_IN_STREAMING_WRITE", message, hint="Cast them: F.lit(None).cast('string').")
        if location:
            _check_not_read(self.deltamerge_frame, open_table(spark, location, told.stores))
        checkpoint = _checkpoint(spark, told, self.deltamerge_query)
        if is_connect(spark):
            open_table(spark, checkpoint)  # it says the query's id there: refused here if it can't be read
        return Sink(location, request, checkpoint, told.stores)

    def _run(self, sink: Sink) -> Any:
        super().option(_CHECKPOINT, sink.checkpoint)
        super().foreachBatch(sink)  # type: ignore[misc]
        return super().start()  # type: ignore[misc]


def _check_not_read(frame: Frame, log: DeltaLog) -> None:
    """Raise AnalysisError for a stream with rows of the table that it writes: all batches would have them of one version."""
    if frame_read(frame, log.store) is not None:
        raise AnalysisError(
            "DELTAMERGE_STREAM_READS_ITS_TABLE",
            f"The stream into {log.store.url} is joined with a DataFrame of this table, which would keep its version.",
            parameters={"tableName": log.store.url},
            hint="Use foreachBatch, and read the table in the function, for each batch anew.",
        )


def _request(told: Told) -> WriteRequest:
    mode = (told.mode or "append").lower()
    if mode == "update":
        raise AnalysisError(
            "DELTA_UNSUPPORTED_OUTPUT_MODE",
            "Data source delta does not support Update output mode.",
            parameters={"dataSource": "delta", "mode": "Update"},
            hint="Append or complete; to update rows: foreachBatch(deltamerge.streaming.upsert(..)).",
        )
    stores = told.stores or {}
    options = {name: text for name, text in told.options.items() if name not in stores and name.lower() not in _OF_SPARK}
    known = {name.lower() for name in _OPTIONS}
    unknown = [name for name in options if name.lower() not in known]
    if in_batches := sorted(name for name in unknown if name.lower() in _IN_BATCHES or name.lower().startswith("delta.")):
        raise InvalidArgumentError(
            "DELTAMERGE_UNKNOWN_OPTION",
            f"There is no option {', '.join(in_batches)} of a stream into a Delta table.",
            parameters={"options": in_batches},
            hint=f"There are checkpointLocation, path, {', '.join(_OPTIONS)}.",
        )
    check_unknown(unknown, (*_OPTIONS, "checkpointLocation"), "a stream")
    options = {name: text for name, text in options.items() if name.lower() in known}
    written = "overwrite" if mode == "complete" else "append"
    return request_of(written, options, partition_by=told.partition_by, cluster_by=told.cluster_by, partition_overwrite=STATIC)


def _checkpoint(spark: Session, told: Told, query: str | None) -> str:
    """Where the query notes what it has done: as the option says, or below the session's setting as Spark chooses it."""
    given = next((text for name, text in told.options.items() if name.lower() == _CHECKPOINT.lower()), None)
    if given:
        return given
    root = setting(spark, _CHECKPOINTS, "")
    if not root:
        raise AnalysisError(
            "DELTAMERGE_NO_CHECKPOINT",
            "A stream into a Delta table needs a checkpointLocation: by it a batch that runs again is known.",
            hint=f'.option("{_CHECKPOINT}", ..), or the setting {_CHECKPOINTS}.',
        )
    return f"{root.rstrip('/')}/{query or uuid.uuid4()}"


def _location(spark: Session, name: tuple[str, ...]) -> str | None:
    """Where the Delta table of a name lies; None for a name that is no Delta table's."""
    try:
        found = delta_named(spark, name)
    except AnalysisError:
        return None
    return found.location if isinstance(found, NamedTable) else None


def _is_missing(spark: Session, name: tuple[str, ...]) -> bool:
    """Whether the catalog has nothing by a name."""
    try:
        delta_named(spark, name)
    except AnalysisError as error:
        return error.condition == "TABLE_OR_VIEW_NOT_FOUND"
    return False


def _has_void(type: DataType) -> bool:
    if isinstance(type, StructType):
        return any(_has_void(field.type) for field in type)
    if isinstance(type, ArrayType):
        return _has_void(type.element)
    return _has_void(type.key) or _has_void(type.value) if isinstance(type, MapType) else is_void(type)
