"""A snapshot as a lazy DataFrame, with Spark's own Parquet reader and its pushdown wherever the files allow it.

They don't where deletion vectors or partition values have to be known that no folder's name tells. Object stores are read by
the Arrow scan, too: whether Spark's JVM has the store's Hadoop connector, and the same credentials, can't be known on every
session. That scan reads all columns; select the ones that matter with Spark's reader where that counts.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from deltamerge.log.snapshot import Snapshot
from deltamerge.protocol.partitions import decode_path, partition_folder
from deltamerge.spark.analysis import empty_frame
from deltamerge.spark.expression import quoted
from deltamerge.spark.frames import Frame, Session
from deltamerge.spark.scan import scan_frame
from deltamerge.spark.schema import to_spark
from deltamerge.spark.session import time_zone
from deltamerge.spark.target import file_tasks, scan_spec


def snapshot_frame(spark: Session, snapshot: Snapshot) -> Frame:
    """All rows of a snapshot, columns in the schema's order; nothing runs yet."""
    files = snapshot.files.table()
    if not files.num_rows:
        return empty_frame(spark, snapshot.schema)
    plain = pc.is_null(files["deletionVector"])
    if snapshot.store.spec.scheme != "file" or not _plain_layout(snapshot, files):
        plain = pa.array([False] * files.num_rows)
    parts = [files.filter(plain), files.filter(pc.invert(plain))]
    frames = [read(spark, snapshot, part) for read, part in zip((_parquet, _scanned), parts, strict=True) if part.num_rows]
    return frames[0] if len(frames) == 1 else frames[0].unionAll(frames[1])


def _parquet(spark: Session, snapshot: Snapshot, files: pa.Table) -> Frame:
    root = snapshot.store.url
    reader = spark.read.schema(to_spark(snapshot.schema)).option("__globPaths__", "false")
    if snapshot.partition_columns:
        reader = reader.option("basePath", root)
    frame: Frame = reader.parquet(*[f"{root}/{decode_path(path)}" for path in files["path"].to_pylist()])
    return frame.select(*[F.col(quoted(name)) for name in snapshot.schema.names])


def _plain_layout(snapshot: Snapshot, files: pa.Table) -> bool:
    """Whether every file lies below the table where Spark derives its partition values from the folders' names."""
    if _GLOB & set(snapshot.store.url) or pc.any(pc.match_substring_regex(files["path"], _GLOB_IN_PATH)).as_py():
        return False
    if not snapshot.partition_columns:
        return not pc.any(pc.match_substring_regex(files["path"], r"^([a-zA-Z][a-zA-Z0-9+.-]*:|/)")).as_py()
    if any(str(field.type) not in _FOLDER_TYPES for field in snapshot.partition_schema):
        return False
    folders = pc.replace_substring_regex(files["path"], r"/?[^/]*$", "").to_pylist()
    seen = set(zip(folders, map(tuple, files["partitionValues"].to_pylist()), strict=True))
    names = [field.physical_name for field in snapshot.partition_schema]
    for folder, pairs in seen:
        values = dict(pairs)
        if decode_path(folder) != partition_folder({name: values.get(name) or None for name in names}):
            return False
    return True


# Spark lists a file anew for each path with one of these, and so reads its rows several times.
_GLOB = frozenset("{}[]*?\\")
_GLOB_IN_PATH = r"[{}\[\]*?\\]|%(7[BbDd]|5[BbCcDd]|2[Aa]|3[Ff])"
_FOLDER_TYPES = ("byte", "short", "integer", "long", "string", "date", "boolean")


def _scanned(spark: Session, snapshot: Snapshot, files: pa.Table) -> Frame:
    tasks = file_tasks(snapshot, files, time_zone(spark))
    spec = scan_spec(snapshot, snapshot.schema, None)
    frame = scan_frame(spark, spec, to_spark(snapshot.schema), tasks, files["size"].to_pylist())
    return frame.select(*[F.col(quoted(name)) for name in snapshot.schema.names])
