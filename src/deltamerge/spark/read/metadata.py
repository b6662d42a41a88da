"""A snapshot with the column `_metadata`: the file of each row, its place there, and its row id where the table tracks rows.

Fields, types and values are delta-spark's: what a file is comes from the log. Spark's own reader says by a column of this name
where each row comes from; of other files the Arrow scan does. Source: delta-spark's DeltaParquetFileFormat and RowTracking.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote, unquote

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.protocol.schema.types import StructType
from deltamerge.protocol.table.column_mapping import PHYSICAL
from deltamerge.protocol.table.features import named_features
from deltamerge.protocol.table.row_tracking import TrackingColumns, tracking_columns
from deltamerge.protocol.values.partitions import decode_path
from deltamerge.spark.plans.attributes import quoted
from deltamerge.spark.pyspark.adapter import input_files
from deltamerge.spark.pyspark.older import arrow_frame as frame_of_rows
from deltamerge.spark.read.snapshot import arrow_frame, parquet_frame, parted
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.schema import shown_schema, to_spark
from deltamerge.spark.stages.target import row_ids_of
from deltamerge.storage import Store, locate
from deltamerge.storage.location import is_absolute
from deltamerge.worker.scan.scan import FILE, ROW
from deltamerge.worker.write.tracking import ROW_ID, ROW_VERSION

METADATA = "_metadata"
_PATH, _NAME, _SIZE, _TIME = "file_path", "file_name", "file_size", "file_modification_time"
_START, _LENGTH = "file_block_start", "file_block_length"
_FIRST, _VERSION = "base_row_id", "default_row_commit_version"
_OWN = "__deltamerge_"
_SCHEME = re.compile(r"^file:/+")
# What is known of more files is joined as Spark sees fit.
_MOST_BROADCAST = 200_000


def hidden_name(schema: StructType) -> str:
    """The name of this column beside those of a schema: Spark puts underscores before it where a column has it."""
    name = METADATA
    while schema.find(name) is not None:
        name = f"_{name}"
    return name


def metadata_frame(spark: Session, snapshot: Snapshot) -> Frame:
    """All rows of a snapshot, and behind its columns one of the name `hidden_name`; nothing runs yet.

    Raises CorruptTableError where rows are tracked and a file has no row ids.
    """
    tracked = tracking_columns(snapshot.protocol, snapshot.metadata)
    plain, others = parted(snapshot)
    frames = []
    if plain.num_rows:
        frame = None if _has_own(snapshot) else _by_spark(spark, snapshot, plain, tracked)
        frames.append(_by_arrow(spark, snapshot, plain, tracked) if frame is None else frame)
    if others.num_rows:
        frames.append(_by_arrow(spark, snapshot, others, tracked))
    if not frames:
        fields = [T.StructField(name, _TYPES.get(name, T.LongType()), False) for name in _names(snapshot, tracked)]
        columns = to_spark(shown_schema(snapshot.schema)).add(hidden_name(snapshot.schema), T.StructType(fields), False)
        nothing: Frame = spark.createDataFrame([], columns)
        return nothing
    return frames[0] if len(frames) == 1 else frames[0].unionAll(frames[1])


_TYPES = {_PATH: T.StringType(), _NAME: T.StringType(), _TIME: T.TimestampType()}


def _names(snapshot: Snapshot, tracked: TrackingColumns | None) -> list[str]:
    names = [_PATH, _NAME, _SIZE, _START, _LENGTH, _TIME]
    if tracked is not None:
        return [*names, "row_index", "row_id", _FIRST, _VERSION, "row_commit_version"]
    return [*names, "row_index"] if "deletionVectors" in named_features(snapshot.protocol) else names


def _has_own(snapshot: Snapshot) -> bool:
    """Whether files have a column in whose place Spark's reader would be asked for what it knows of files."""
    return any(field.physical_name.lower() == METADATA for field in snapshot.schema)


def _by_spark(spark: Session, snapshot: Snapshot, files: pa.Table, tracked: TrackingColumns | None) -> Frame | None:
    """The rows of some files by Spark's reader; None where its names of files can't be told to be those of the log."""
    stored = [] if tracked is None else [T.StructField(name, T.LongType()) for name in (tracked.row_id, tracked.row_version)]
    kept = [F.col(quoted(field.name)).alias(name) for field, name in zip(stored, (ROW_ID, ROW_VERSION), strict=False)]
    found = {"key": _PATH, "name": _NAME, "start": _START, "length": _LENGTH, "row": "row_index"}
    known = [F.col(f"{METADATA}.{field}").alias(_OWN + name) for name, field in found.items()]
    rows = parquet_frame(spark, snapshot, files, stored, [*kept, *known])
    root = snapshot.store.url
    names = {f"{root}/{decode_path(path)}": number for number, path in enumerate(files["path"].to_pylist())}
    keys: list[str | None] = [None] * files.num_rows
    for path in input_files(rows):
        number = names.get(unquote(_SCHEME.sub("/", path)))
        if number is not None:
            keys[number] = _SCHEME.sub("file:/", path)  # as rows have it, whose files have the same names else
    if None in keys:
        return None
    facts = _facts(spark, snapshot, files, tracked, pa.array(keys, pa.string()), pa.array(keys, pa.string()))
    own = {_PATH: "key", _NAME: "name", _START: "start", _LENGTH: "length"}
    return _joined(snapshot, rows, facts, tracked, {field: F.col(_OWN + name) for field, name in own.items()})


def _by_arrow(spark: Session, snapshot: Snapshot, files: pa.Table, tracked: TrackingColumns | None) -> Frame:
    """The rows of some files by the Arrow scan, which reads them whole."""
    names = {} if tracked is None else {ROW_ID: tracked.row_id, ROW_VERSION: tracked.row_version}
    stored = [pa.field(name, pa.int64(), metadata={PHYSICAL: physical.encode()}) for name, physical in names.items()]
    known = [F.col(FILE).alias(f"{_OWN}key"), F.col(ROW).alias(f"{_OWN}row")]
    rows = arrow_frame(spark, snapshot, files, stored, [*map(F.col, names), *known])
    paths = pa.array([shown_path(snapshot.store, path) for path in files["path"].to_pylist()], pa.string())
    facts = _facts(spark, snapshot, files, tracked, pa.array(range(files.num_rows), pa.int32()), paths)
    return _joined(snapshot, rows, facts, tracked, {_START: F.lit(0).cast("bigint"), _LENGTH: _known(_SIZE)})


def _facts(
    spark: Session, snapshot: Snapshot, files: pa.Table, tracked: TrackingColumns | None, keys: pa.Array, paths: pa.Array
) -> Frame:
    """What the log says of each file, a row for each, by a key of whoever reads it."""
    columns: dict[str, pa.Array | pa.ChunkedArray] = {
        "key": keys,
        _PATH: paths,
        _NAME: pa.array([path.rpartition("/")[2] for path in paths.to_pylist()], pa.string()),
        _SIZE: files["size"],
        _TIME: files["modificationTime"].fill_null(0).cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC")),
    }
    if tracked is not None:
        ids, versions = row_ids_of(files)
        columns |= {_FIRST: pa.array(ids, pa.int64()), _VERSION: pa.array(versions, pa.int64())}
    types = {**_TYPES, "key": T.StringType() if pa.types.is_string(keys.type) else T.IntegerType()}
    schema = T.StructType([T.StructField(_OWN + name, types.get(name, T.LongType()), False) for name in columns])
    fields = [pa.field(_OWN + name, column.type, False) for name, column in columns.items()]
    frame = frame_of_rows(spark, pa.table([*columns.values()], schema=pa.schema(fields)), schema)
    return F.broadcast(frame) if files.num_rows <= _MOST_BROADCAST else frame


def _joined(snapshot: Snapshot, rows: Frame, facts: Frame, tracked: TrackingColumns | None, own: Mapping[str, Column]) -> Frame:
    """The rows with what is known of their files, each of which has a fact, but for what their reader knows on its `own`."""
    columns = {**own, "row_index": F.col(f"{_OWN}row")}
    if tracked is not None:
        columns["row_id"] = F.coalesce(F.col(ROW_ID), _known(_FIRST) + F.col(f"{_OWN}row"))
        columns["row_commit_version"] = F.coalesce(F.col(ROW_VERSION), _known(_VERSION))
    fields = [columns[name] if name in columns else _known(name) for name in _names(snapshot, tracked)]
    named = [column.alias(name) for name, column in zip(_names(snapshot, tracked), fields, strict=True)]
    shown = [F.col(quoted(name)) for name in snapshot.schema.names]
    return rows.join(facts, f"{_OWN}key", "left").select(*shown, F.struct(*named).alias(hidden_name(snapshot.schema)))


def _known(name: str) -> Column:
    """What is known of a row's file: an error where nothing is, never a null."""
    return F.coalesce(F.col(_OWN + name), F.raise_error(F.lit("A row is of a file that the table does not have.")))


def shown_path(store: Store, path: str) -> str:
    """The place of a data file that the log has at `path`, as Spark shows it: a URI, of whose signs Java escapes some."""
    if is_absolute(path):
        store, name = locate(store, path)
    else:
        name = decode_path(path)
    url = store.url
    scheme, is_url, rest = url.partition("://")
    if not is_url:
        return "file:" + _escaped(f"{url.rstrip('/')}/{name}")
    host, _, folder = rest.partition("/")
    return f"{scheme}://{host}" + _escaped("/" + "/".join(filter(None, (folder.rstrip("/"), name))))


def _escaped(path: str) -> str:
    signs = "/-_!.~'()*,;:$&+=@"
    return "".join(quote(char, safe=signs) if char.isascii() else char for char in path)
