"""The Parquet files of a folder that becomes a table, and the partition values in their folders' names.

Source: delta-spark's ConvertUtils and PartitionUtils.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote

import pyarrow as pa

from deltamerge.commands.table.convert_target import ConvertTarget
from deltamerge.errors import AnalysisError, CorruptTableError
from deltamerge.protocol.schema.types import DataType, StructType, arrow_type
from deltamerge.protocol.values.partitions import NULL_FOLDER, parse_partition_values
from deltamerge.spark.expressions.queries import asking
from deltamerge.spark.pyspark.plain import plain_table
from deltamerge.spark.read.catalog import sql_name
from deltamerge.spark.session.delta_settings import DELTA
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.settings import flag
from deltamerge.storage import ObjectInfo, Store, locate

USES_SINK_LOG = f"{DELTA}convert.useMetadataLog"
_SINK_LOG = "_spark_metadata"


def convertible_files(spark: Session, store: Store, target: ConvertTarget) -> list[ObjectInfo]:
    """The files in a folder and in those below it; of a table of the catalog those that Spark reads by its name.

    Names that begin with an underscore or a point are hidden, but those of partition folders. Raises AnalysisError.
    """
    _check_sink(spark, store)
    found = [file for listing in store.walk(_is_hidden) for file in listing.files if not _begins_hidden(file.name)]
    found.sort(key=lambda file: file.name)
    if not found and not (store.info("") or store.exists_folder("")):
        raise AnalysisError(
            "DELTA_PATH_DOES_NOT_EXIST",
            f"{store.url} doesn't exist.",
            parameters={"path": store.url},
            hint="Check the spelling of the path.",
        )
    if target.name:
        found = _listed(spark, store, target, found)
    if not found:
        raise AnalysisError(
            "DELTA_EMPTY_DIRECTORY",
            f"No file found in the directory: {store.url}.",
            parameters={"directory": store.url},
            hint="Create a table there: CREATE TABLE, or DeltaTable.create.",
        )
    return found


def _check_sink(spark: Session, store: Store) -> None:
    """Raise AnalysisError where a streaming query has written the folder: only its own log tells which files count.

    Those of a batch that was not finished lie there, too, and delta-spark leaves them out.
    """
    if flag(spark, USES_SINK_LOG, default=True) and store.exists_folder(_SINK_LOG):
        raise AnalysisError(
            "DELTAMERGE_CONVERT_STREAM_OUTPUT",
            f"A streaming query has written {store.url}: {_SINK_LOG} tells which of its files count, and is not read here.",
            parameters={"path": store.url},
            hint=f"If no batch has failed, set {USES_SINK_LOG} to false to take all files; else write its rows to a new table.",
        )


def _listed(spark: Session, store: Store, target: ConvertTarget, found: Sequence[ObjectInfo]) -> list[ObjectInfo]:
    """The files that Spark reads by the table's name: others belong to partitions that the catalog does not list."""
    with asking(spark):
        urls = plain_table(spark, sql_name(target.name)).inputFiles()
    places = [locate(store, url) for url in urls]
    names = {f"{place.url.rstrip('/')}/{name}".removeprefix(f"{store.url}/") for place, name in places}
    elsewhere = sorted(names - {file.name for file in found})
    if elsewhere:
        raise AnalysisError(
            "DELTA_OPERATION_NOT_ALLOWED_DETAIL",
            f"Operation not allowed: CONVERT TO DELTA of {'.'.join(target.name)}, of which files lie outside of its folder: "
            f"{elsewhere[0]}.",
            parameters={"operation": "CONVERT TO DELTA", "tableName": ".".join(target.name)},
            hint="Write the table's rows to a new table.",
        )
    return [file for file in found if file.name in names]


def partition_values(store: Store, files: Sequence[ObjectInfo], partitions: StructType, zone: str) -> list[dict[str, str | None]]:
    """The partition values of each file as the log has them. Raises AnalysisError for folders that `partitions` does not fit."""
    folders: dict[str, dict[str, str | None]] = {}
    for file in files:
        folder = file.name.rpartition("/")[0]
        if folder not in folders:
            folders[folder] = _checked(f"{store.url}/{file.name}", _parsed(folder), partitions, zone)
    return [folders[file.name.rpartition("/")[0]] for file in files]


def _parsed(folder: str) -> list[tuple[str, str | None]]:
    """The columns and values that a folder's name says: of the last folders in a row that say any."""
    found: list[tuple[str, str | None]] = []
    for part in reversed(folder.split("/")):
        column, is_one, value = part.partition("=")
        if is_one and column:
            found.append((unquote(column), None if value == NULL_FOLDER else unquote(value)))
        elif found:
            break
    return found[::-1]


def _checked(file: str, found: Sequence[tuple[str, str | None]], partitions: StructType, zone: str) -> dict[str, str | None]:
    wanted = [field.name for field in partitions]
    if len(found) != len(wanted):
        names = [name for name, _ in found]
        raise AnalysisError(
            "DELTA_UNEXPECTED_NUM_PARTITION_COLUMNS_FROM_FILE_NAME",
            f"Expecting {len(wanted)} partition column(s): [{', '.join(wanted)}], but found {len(names)} partition column(s): "
            f"[{', '.join(names)}] from parsing the file name: {file}.",
            parameters={"expectedCols": wanted, "parsedCols": names, "path": file},
            hint=f"Name the partition columns and their types: {', '.join(f'{name} STRING' for name in names) or 'none'}.",
        )
    for field, (name, value) in zip(partitions, found, strict=True):
        if field.name.lower() != name.lower():
            raise AnalysisError(
                "DELTA_UNEXPECTED_PARTITION_COLUMN_FROM_FILE_NAME",
                f"Expecting partition column {field.name}, but found partition column {name} from parsing the file name: {file}.",
                parameters={"expectedCol": field.name, "parsedCol": name, "path": file},
                hint="Name the partition columns in the order of the folders.",
            )
        if value is not None and not _holds(value, field.type, zone):
            raise AnalysisError(
                "DELTA_FAILED_CAST_PARTITION_VALUE",
                f"Failed to cast partition value {value} to {field.type}: {file}.",
                parameters={"value": value, "dataType": str(field.type)},
                hint=f"Give the partition column {field.name} another type.",
            )
    return {field.name: value for field, (_, value) in zip(partitions, found, strict=True)}


def _holds(value: str, type: DataType, zone: str) -> bool:
    arrow = arrow_type(type)
    try:
        parse_partition_values(pa.array([value]), arrow, zone)
    except CorruptTableError:
        return False
    return value != "" or pa.types.is_string(arrow) or pa.types.is_binary(arrow)


def _is_hidden(name: str) -> bool:
    return name.startswith(("_", ".")) and "=" not in name


def _begins_hidden(name: str) -> bool:
    return name.rpartition("/")[2].startswith(("_", "."))
