"""The codec of data files: what a writer asks for comes first, then the table, then the session."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from deltamerge.errors import InvalidArgumentError
from deltamerge.protocol.table.properties import Properties
from deltamerge.spark.session.data_files import file_options
from deltamerge.worker.write.file_options import FileOptions

PROPERTY = "delta.parquet.compression.codec"


@pytest.mark.parametrize(
    ("given", "table", "expected"),
    [(None, None, "snappy"), (None, "ZSTD", "zstd"), ("gzip", "zstd", "gzip"), ("gzip", "lol", "gzip")],
)
def test_the_codec_of_whoever_comes_first(spark: SparkSession, given: str | None, table: str | None, expected: str) -> None:
    properties = Properties({} if table is None else {PROPERTY: table})
    assert file_options(spark, properties, FileOptions(given)).codec == expected


@pytest.mark.parametrize("table", ["lol", "brotli", ""])
def test_a_codec_that_a_table_can_not_have_is_named(spark: SparkSession, table: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"The codec {table} of the table property {PROPERTY} is not available"):
        file_options(spark, Properties({PROPERTY: table}))
