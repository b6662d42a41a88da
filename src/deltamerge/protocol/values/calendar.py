"""In which calendar a Parquet file counts its dates and timestamps, by what it says of its writer.

Spark before 3.0, and later ones on request, wrote days before 1582-10-15 in the Julian calendar; all others count in the
proleptic Gregorian one. Source: Spark's DataSourceUtils. Must not know what the file is for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

import pyarrow.parquet as pq

_SPARK = b"org.apache.spark."
_ROW_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
_VERSION = re.compile(rb"(\d{1,9})\.(\d{1,9})(?:\.|\Z)")


class Calendar(Enum):
    """How a file counts days before 1582-10-15."""

    GREGORIAN = 1
    HYBRID = 2
    UNKNOWN = 3


@dataclass(frozen=True)
class Calendars:
    """The calendars of a file's dates and of its timestamps; `int96` says that it has timestamps of that type."""

    dates: Calendar
    timestamps: Calendar
    int96: bool = False
    zone: str | None = None


def calendars_of(file: pq.ParquetFile, otherwise: Calendar = Calendar.GREGORIAN) -> Calendars:
    """What a file's own metadata says of its calendars; `otherwise` is that of a file which Spark hasn't written.

    A version that is none says nothing, and a zone that is no text is of an unknown name: both matter for old values alone.
    """
    found = file.metadata.metadata or {}
    version = found.get(_SPARK + b"version")
    int96 = any(file.schema.column(i).physical_type == "INT96" for i in range(len(file.schema)))
    if version is None and _ROW_SCHEMA not in found:
        return Calendars(otherwise, otherwise, int96)
    dates = _calendar(version, (3, 0), _SPARK + b"legacyDateTime" in found)
    timestamps = _calendar(version, (3, 1), _SPARK + b"legacyINT96" in found) if int96 else dates
    zone = found.get(_SPARK + b"timeZone")
    return Calendars(dates, timestamps, int96, None if zone is None else zone.decode(errors="replace"))


def _calendar(version: bytes | None, gregorian_since: tuple[int, int], legacy: bool) -> Calendar:
    if version is None:
        return Calendar.UNKNOWN
    found = _VERSION.match(version)
    if found is None:
        return Calendar.UNKNOWN
    return Calendar.HYBRID if legacy or (int(found[1]), int(found[2])) < gregorian_since else Calendar.GREGORIAN
