"""A snapshot as a lazy DataFrame, with Spark's own Parquet reader and its pushdown wherever the files allow it.

They don't where deletion vectors or partition values have to be known that no folder's name tells, where Spark takes a file for a
hidden one, nor where an older Spark would have to widen a column. Object stores are read by
the Arrow scan, too: whether Spark's JVM has the store's Hadoop connector, and the same credentials, can't be known on every
session. That scan reads all columns; select the ones that matter with Spark's reader where that counts.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.protocol.schema.char_varchar import SIZED_TEXT
from deltamerge.protocol.schema.type_widening import type_changes
from deltamerge.protocol.schema.types import StructField, fields_of, has_variant, is_void, without_void
from deltamerge.protocol.table.column_mapping import MappingMode, mapping_mode, physical_schema
from deltamerge.protocol.values.partitions import NULL_FOLDER, decode_path, partition_folder
from deltamerge.spark.plans.attributes import quoted
from deltamerge.spark.pyspark.older import READS_WIDENED
from deltamerge.spark.pyspark.plain import plain_reader
from deltamerge.spark.read.unread import mark_of
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.schema import shown_schema, spark_type, to_spark
from deltamerge.spark.session.settings import pads_chars, time_zone
from deltamerge.spark.stages.scan import scan_frame
from deltamerge.spark.stages.target import file_tasks, scan_spec

Rows = Callable[[Session, Snapshot], Frame]


def newest_frame(spark: Session, snapshot: Snapshot, rows: Rows | None = None) -> Frame:
    """As `snapshot_frame`, or as other `rows`, of a table's newest version, for someone who has not asked for that version.

    A later write into the table knows by it which version its rows were read from.
    """
    return (rows or snapshot_frame)(spark, snapshot).alias(mark_of(snapshot)).select("*")


def travelled_frame(spark: Session, snapshot: Snapshot, rows: Rows | None = None) -> Frame:
    """As `newest_frame`, for someone who has asked for this version: a view of it is told from one of the newest version."""
    return (rows or snapshot_frame)(spark, snapshot).alias(mark_of(snapshot, travels=True)).select("*")


def snapshot_frame(spark: Session, snapshot: Snapshot) -> Frame:
    """All rows of a snapshot, columns in the schema's order; nothing runs yet."""
    schema = shown_schema(snapshot.schema)
    parts = zip((parquet_frame, arrow_frame), parted(snapshot), strict=True)
    frames = [read(spark, snapshot, part) for read, part in parts if part.num_rows]
    if not frames:
        nothing: Frame = spark.createDataFrame([], to_spark(schema))  # with columns that can't be null, which no null contradicts
        return nothing
    return frames[0] if len(frames) == 1 else frames[0].unionAll(frames[1])


def parted(snapshot: Snapshot) -> tuple[pa.Table, pa.Table]:
    """The files that Spark's own reader reads as they are, and all others."""
    files = snapshot.files.table()
    if snapshot.store.spec.scheme != "file" or not _plain_layout(snapshot, files):
        return files.slice(0, 0), files
    plain = pc.and_(pc.is_null(files["deletionVector"]), pc.invert(pc.match_substring_regex(files["path"], _HIDDEN)))
    # What has the suffix of a file is taken for one: on a network each look costs a request.
    doubtful = files.filter(pc.and_(plain, pc.invert(pc.ends_with(files["path"], ".parquet"))))
    others = [_is_something_else(place) for place in _places(snapshot, doubtful)]
    if any(others):
        names = doubtful.filter(pa.array(others))["path"]
        plain = pc.and_(plain, pc.invert(pc.is_in(files["path"], names)))
    return files.filter(plain), files.filter(pc.invert(plain))


def _is_something_else(place: str) -> bool:
    """Whether a folder or a pipe has the name of a file."""
    try:
        return not stat.S_ISREG(os.stat(place).st_mode)
    except (OSError, ValueError):
        return False


def _places(snapshot: Snapshot, files: pa.Table) -> list[str]:
    """The names of data files on the disk."""
    return [f"{snapshot.store.url}/{decode_path(path)}" for path in files["path"].to_pylist()]


def parquet_frame(
    spark: Session, snapshot: Snapshot, files: pa.Table, stored: Sequence[T.StructField] = (), more: Sequence[Column] = ()
) -> Frame:
    """Rows of some files by Spark's own reader.

    With `more` columns, made of those that files have `stored` besides, and of what this reader knows of files.
    """
    schema = shown_schema(snapshot.schema)
    physical = shown_schema(physical_schema(snapshot.schema))
    read = T.StructType([*to_spark(without_void(physical)).fields, *stored])
    reader = plain_reader(spark).schema(read).option("__globPaths__", "false")
    if snapshot.partition_columns:
        reader = reader.option("basePath", snapshot.store.url)
    frame: Frame = reader.parquet(*_places(snapshot, files))
    return frame.select(*[_logical(file, field) for file, field in zip(physical, schema, strict=True)], *more)


def _logical(stored: StructField, field: StructField) -> Column:
    """A column of the files as the column of the schema, by its name and with the names of its fields."""
    if is_void(field.type):
        return F.lit(None).alias(field.name)
    column = F.col(quoted(stored.name))
    if stored.type != field.type:
        column = column.cast(spark_type(field.type))
    return column.alias(field.name, metadata=dict(field.metadata)) if stored.name != field.name else column


def _plain_layout(snapshot: Snapshot, files: pa.Table) -> bool:
    """Whether Spark finds the columns by their names in files below the table, and derives its partition values from folders."""
    by_id = mapping_mode(snapshot.protocol, snapshot.metadata) is MappingMode.ID
    if by_id or any(is_void(f.type) for column in snapshot.schema for f in fields_of(column.type)):
        return False
    if has_variant(snapshot.schema):  # how Spark reads these files depends on its version, and on settings about shredding
        return False
    if not READS_WIDENED and any(True for field in fields_of(snapshot.schema) for _ in type_changes(field)):
        return False
    if _GLOB & set(snapshot.store.url) or pc.any(pc.match_substring_regex(files["path"], _GLOB_IN_PATH)).as_py():
        return False
    if not snapshot.partition_columns:
        return not pc.any(pc.match_substring_regex(files["path"], r"^([a-zA-Z][a-zA-Z0-9+.-]*:|/)")).as_py()
    if any(str(field.type) not in _FOLDER_TYPES or SIZED_TEXT in field.metadata for field in snapshot.partition_schema):
        return False
    folders = pc.replace_substring_regex(files["path"], r"/?[^/]*$", "").to_pylist()
    seen = set(zip(folders, map(tuple, files["partitionValues"].to_pylist()), strict=True))
    names = [field.physical_name for field in snapshot.partition_schema]
    for folder, pairs in seen:
        values = dict(pairs)
        if NULL_FOLDER in values.values():  # a text whose folder is that of null
            return False
        if decode_path(folder) != partition_folder({name: values.get(name) or None for name in names}):
            return False
    return True


# Spark lists a file anew for each path with one of these, and so reads its rows several times.
_GLOB = frozenset("{}[]*?\\")
_GLOB_IN_PATH = r"[{}\[\]*?\\]|%(7[BbDd]|5[BbCcDd]|2[Aa]|3[Ff])"
# Spark leaves out hidden files without a word, and fails where a name has a colon. Of a folder it reads each file below.
_HIDDEN = r"(^|/)([_.]|%(5[Ff]|2[Ee]))[^/]*$|(_|%5[Ff])$|:|%3[Aa]"
_FOLDER_TYPES = ("byte", "short", "integer", "long", "string", "date", "boolean")


def arrow_frame(
    spark: Session,
    snapshot: Snapshot,
    files: pa.Table | None = None,
    stored: Sequence[pa.Field] = (),
    more: Sequence[Column] = (),
) -> Frame:
    """Rows of some files, for None of all, by the Arrow scan, which reads every layout but takes no filter from Spark.

    With `more` columns, made of those that files have `stored` besides, and of the file's number and the row's position in it.
    """
    files = snapshot.files.table() if files is None else files
    schema = shown_schema(snapshot.schema)
    tasks = file_tasks(snapshot, files, time_zone(spark))
    spec = scan_spec(snapshot, snapshot.schema, None, padded=pads_chars(spark, snapshot.schema))
    spec = replace(spec, schema=pa.schema([*spec.schema, *stored]))
    read = T.StructType([*to_spark(schema).fields, *from_arrow_schema(pa.schema(stored)).fields])
    frame = scan_frame(spark, spec, read, tasks, files["size"].to_pylist())
    return frame.select(*[F.col(quoted(name)) for name in schema.names], *more)
