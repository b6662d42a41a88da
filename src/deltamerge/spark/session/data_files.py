"""What the session asks of data files: their codec, and the most rows of one. A writer's own options come first."""

from __future__ import annotations

from deltamerge.protocol.table.properties import Properties
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.settings import setting
from deltamerge.worker.write.file_options import UNSAID, FileOptions, codec_of, most_rows_of

_CODEC = "spark.sql.parquet.compression.codec"
_MOST_ROWS = "spark.sql.files.maxRecordsPerFile"
DATA_FILE_SETTINGS = (_CODEC, _MOST_ROWS)


def session_files(spark: Session) -> FileOptions:
    """What the session asks for. Raises InvalidArgumentError for a setting that can't be."""
    codec = codec_of(f"the setting {_CODEC}", setting(spark, _CODEC, "snappy"))
    return FileOptions(codec, most_rows_of(_MOST_ROWS, setting(spark, _MOST_ROWS, "0")))


def file_options(spark: Session, properties: Properties, given: FileOptions = UNSAID) -> FileOptions:
    """What a writer's options, the table's properties, and the session ask for, in this order. Raises InvalidArgumentError."""
    asked = session_files(spark)
    codec = given.codec or codec_of("the table property delta.parquet.compression.codec", properties.compression) or asked.codec
    most = asked.most_rows if given.most_rows is None else given.most_rows
    return FileOptions(codec, most)
