"""What the session asks for the files that writes leave: whether small ones are put together afterwards, and rows before.

Source: delta-spark's DeltaSQLConf. Sizes are in bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deltamerge.errors import InvalidArgumentError
from deltamerge.spark.session.data_files import DATA_FILE_SETTINGS, session_files
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.settings import setting

_COMPACTS = "spark.databricks.delta.autoCompact.enabled"
_FILES = "spark.databricks.delta.autoCompact.minNumFiles"
_FULL = "spark.databricks.delta.autoCompact.maxFileSize"
_SMALL = "spark.databricks.delta.autoCompact.minFileSize"
_GATHERS = "spark.databricks.delta.optimizeWrite.enabled"
_GATHERED = "spark.databricks.delta.optimizeWrite.binSize"
SIZE_SETTINGS = (_COMPACTS, _FILES, _FULL, _SMALL, _GATHERS, _GATHERED, *DATA_FILE_SETTINGS)
_TRUTHS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class AutoCompaction:
    """Files of fewer than `small` bytes come to files of at most `full` bytes where a partition has `files` of them.

    `enabled` is None where the session leaves it to the table.
    """

    enabled: bool | None
    files: int
    small: int
    full: int


def auto_compaction(spark: Session) -> AutoCompaction:
    """What the session asks for. Raises InvalidArgumentError for a setting that can't be."""
    full = int(number_setting(spark, _FULL, str(128 << 20)))
    small = int(number_setting(spark, _SMALL, str(full // 2)))
    return AutoCompaction(_truth(spark, _COMPACTS), int(number_setting(spark, _FILES, "50")), small, full)


def gathers_rows(spark: Session) -> bool | None:
    """Whether rows are put together before they are written; None where the session leaves it to the table.

    Raises InvalidArgumentError for a setting that can't be.
    """
    return _truth(spark, _GATHERS)


def check_sizes(spark: Session) -> None:
    """Raise InvalidArgumentError for a setting that can't be: after a commit it would be too late."""
    auto_compaction(spark)
    gathers_rows(spark)
    gathering(spark)
    session_files(spark)


def gathering(spark: Session) -> Mapping[str, str]:
    """The settings of a job in which Spark puts the rows of few bytes together after it has counted them.

    The session says how many MB of the shuffle come to one task. Raises InvalidArgumentError for what is no such number.
    """
    size = int(number_setting(spark, _GATHERED, "512")) << 20
    return {
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.adaptive.coalescePartitions.enabled": "true",
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": str(max(size, 1)),
    }


def number_setting(spark: Session, key: str, default: str) -> float:
    """A setting that is a number from 0. Raises InvalidArgumentError."""
    value = setting(spark, key, default)
    try:
        found = float(value)
    except ValueError:
        found = -1.0
    if found < 0:
        raise invalid_setting(key, value, "a number from 0")
    return found


def invalid_setting(key: str, value: str, what: str) -> InvalidArgumentError:
    """The error for a setting with a value that it can't have."""
    return InvalidArgumentError(
        "DELTAMERGE_INVALID_OPTIMIZE_SETTING",
        f"The setting {key} is {value!r}.",
        parameters={"setting": key, "value": value},
        hint=f"It must be {what}.",
    )


def _truth(spark: Session, key: str) -> bool | None:
    value = setting(spark, key, "")
    if value and value.lower() not in _TRUTHS:
        raise invalid_setting(key, value, "true or false")
    return _TRUTHS.get(value.lower())
