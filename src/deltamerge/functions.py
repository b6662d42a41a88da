"""Tables read and written by functions: `deltamerge.read`, `read_changes`, `sql`, `write`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from pyspark.sql import DataFrame, SparkSession

from deltamerge.commands.rows.request import WriteRequest, files_asked, transaction_of
from deltamerge.commands.rows.write import write_table
from deltamerge.exceptions import catchable
from deltamerge.log.feed.range import FeedBounds
from deltamerge.log.replay.commit_times import milliseconds
from deltamerge.spark.read.feed import changes_frame
from deltamerge.spark.read.hidden_frames import knowing_frame
from deltamerge.spark.read.metadata import metadata_frame
from deltamerge.spark.read.snapshot import newest_frame, travelled_frame
from deltamerge.spark.read.travel import several_times
from deltamerge.spark.session.settings import time_zone
from deltamerge.spark.session.storage import check_session, open_table
from deltamerge.statements.run import run_sql


@catchable
def read(
    spark: SparkSession,
    path: str,
    version: int | None = None,
    timestamp: datetime | str | None = None,
    storage_options: Mapping[str, str] | None = None,
    *,
    metadata: bool = False,
) -> DataFrame:
    """The Delta table at `path` as a lazy DataFrame: its newest version, the given one, or the newest at a time.

    A time without zone is in the session's time zone. `storage_options` are credentials and endpoint of an object store
    (`aws_access_key_id`, `fs.s3a.access.key`, ...); what they leave out comes from the session's settings, then from the
    environment. Raises an AnalysisException when there is no table, no such version, or none at that time.

    With `metadata` the column `_metadata` is one of the table's: the file of each row (`file_path`, `file_name`, ..), its place
    there, and its `row_id` and `row_commit_version` where the table tracks rows.
    """
    check_session(spark)
    if version is not None and timestamp is not None:
        raise several_times()
    time = None if timestamp is None else milliseconds(timestamp, time_zone(spark))
    snapshot = open_table(spark, path, storage_options).snapshot(version, time)
    frame_of = newest_frame if version is None and time is None else travelled_frame
    return frame_of(spark, snapshot, metadata_frame) if metadata else knowing_frame(spark, snapshot, frame_of, catchable)


@catchable
def read_changes(
    spark: SparkSession,
    path: str,
    starting_version: int | None = None,
    starting_timestamp: datetime | str | None = None,
    ending_version: int | None = None,
    ending_timestamp: datetime | str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The row-level changes of the Delta table at `path` between two versions or times, both inclusive, as a lazy DataFrame.

    Its columns are those that the table has at the last of these versions, then `_change_type` (insert, delete,
    update_preimage or update_postimage), `_commit_version` and `_commit_timestamp`. Without an end, all changes up to the
    newest version. Times without zone are in the session's time zone; `storage_options` as of `read`.

    Raises an AnalysisException when a version in the range has no feed (delta.enableChangeDataFeed), or the range can't be;
    UnsupportedOperationException when the last schema does not tell rows of an earlier one.
    """
    check_session(spark)
    zone = time_zone(spark)
    bounds = FeedBounds(
        starting_version,
        None if starting_timestamp is None else milliseconds(starting_timestamp, zone),
        ending_version,
        None if ending_timestamp is None else milliseconds(ending_timestamp, zone),
    )
    return changes_frame(spark, open_table(spark, path, storage_options), bounds)


@catchable
def sql(spark: SparkSession, text: str, args: Mapping[str, Any] | Sequence[Any] | None = None) -> DataFrame:
    """Run a statement about Delta tables; any other goes to `spark.sql` unchanged. `args` are as `spark.sql` takes them.

    MERGE returns one row: num_affected_rows, num_updated_rows, num_deleted_rows, num_inserted_rows; EXPLAIN MERGE one row
    with the plan; DELETE and UPDATE num_affected_rows; DESCRIBE HISTORY and DESCRIBE DETAIL what `DeltaTable` has; INSERT none.
    A query over Delta tables is lazy, and reads the versions that are the newest ones at the call. Target and tables in the
    text are catalog names or delta.`path`. Raises a ParseException that shows the place, and whatever the builder raises.
    """
    check_session(spark)
    if not isinstance(text, str):
        raise TypeError(f"'text' in sql must be a string, found to be of type {type(text)!s}")
    return run_sql(spark, text, args)


@catchable
def write(
    df: DataFrame,
    path: str,
    mode: str = "error",
    partition_by: str | Sequence[str] | None = None,
    properties: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    *,
    cluster_by: str | Sequence[str] | None = None,
    merge_schema: bool | None = None,
    overwrite_schema: bool = False,
    replace_where: str | None = None,
    partition_overwrite: Literal["static", "dynamic"] | None = None,
    user_metadata: str | None = None,
    txn_app_id: str | None = None,
    txn_version: int | None = None,
    max_records_per_file: int | None = None,
    compression: str | None = None,
    data_change: bool = True,
) -> int | None:
    """Write `df` into the Delta table at `path` and return the version made; None when mode `ignore` found a table, or when the
    transaction `txn_app_id` has written a version of at least `txn_version` before.

    `mode` is error, ignore, append or overwrite, as of Spark's DataFrameWriter; `partition_by`, `cluster_by` and the table
    `properties` are for a table that does not exist yet. `storage_options` as of `read`. The others are as the options of
    delta-spark's writer: `merge_schema` adds the data's columns to the table's, without it the session decides.
    An overwrite replaces only the rows for which `replace_where` is true, which all rows of `df` must meet, or only the
    partitions that get rows (`partition_overwrite="dynamic"`). With `overwrite_schema` it gives the table the columns of the
    data, and the `partition_by` and `cluster_by` of the call. History shows `user_metadata`.
    `compression` names the Parquet codec of the files, which have at most `max_records_per_file` rows (0: any number). Without
    `data_change` the rows are said to be rearranged only: streams and conflicts pass over them.

    Raises an AnalysisException for columns that the table does not have, and rows that don't meet `replace_where`.
    """
    if not isinstance(df, DataFrame):
        raise TypeError(f"'df' in write must be a DataFrame of Spark, found to be of type {type(df)!s}")
    request = WriteRequest(
        mode=mode.lower(),
        partition_by=_names(partition_by),
        cluster_by=_names(cluster_by),
        properties=properties or {},
        merge_schema=merge_schema,
        overwrite_schema=overwrite_schema,
        replace_where=replace_where,
        partition_overwrite=partition_overwrite,
        user_metadata=user_metadata,
        txn_id=transaction_of(txn_app_id, txn_version),
        files=files_asked(compression, max_records_per_file),
        data_change=data_change,
    )
    return write_table(df, path, request, storage_options)


def _names(given: str | Sequence[str] | None) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given or ())
