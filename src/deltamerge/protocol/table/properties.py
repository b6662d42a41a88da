"""Table properties (`delta.*`), typed, with delta-spark's defaults.

Source: delta-spark's DeltaConfig. Intervals are in milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from deltamerge.errors import InvalidArgumentError

# In microseconds.
_UNITS = {
    "week": 604_800_000_000,
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
_SIZE = re.compile(r"([0-9]{1,19})([kmgt]?)b?")
_SHIFTS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_PART = re.compile(
    r"\s+([+-]?)\s*(?:([0-9]{1,19})\s+(week|day|hour|minute|second|millisecond|microsecond)s?"
    r"|([0-9]{0,19})\.([0-9]{1,9})\s+seconds?)(?=\s|$)"
)
_LARGEST = (1 << 63) - 1


def interval_of(text: str) -> int | None:
    """An interval such as `interval 30 days`, in ms; None for what is none, is negative or has months.

    As Spark reads it: only seconds have fractions. Source: IntervalUtils.stringToInterval; DeltaConfigs.getMilliSeconds.
    """
    rest = " " + re.sub(r"interval(?=\s)", "", text.strip().lower(), count=1).strip()
    total, at = 0, 0
    while found := _PART.match(rest, at):
        sign, count, unit, whole, fraction = found.groups()
        size = int(count) * _UNITS[unit] if unit else int(whole or 0) * 1_000_000 + int(fraction.ljust(9, "0")) // 1_000
        total += -size if sign == "-" else size
        at = found.end()
    return total // 1_000 if at and at == len(rest) and 0 <= total <= _LARGEST else None


@dataclass(frozen=True, slots=True)
class Properties:
    """The table's configuration, read by name with types and defaults."""

    values: Mapping[str, str]

    def flag(self, key: str, default: bool = False) -> bool:
        """A boolean property."""
        return self.values.get(key, str(default)).strip().lower() == "true"

    def number(self, key: str, default: int) -> int:
        """An integer property; a value that is none gives the default."""
        try:
            return int(self.values.get(key, default))
        except ValueError:
            return default

    def interval(self, key: str, default: int) -> int:
        """An interval property such as `interval 30 days`, in ms; the default where it is not set.

        Raises InvalidArgumentError for a value that is none: to guess could mean to delete too early.
        """
        value = self.values.get(key)
        if value is None:
            return default
        found = interval_of(value)
        if found is None:
            raise InvalidArgumentError(
                "DELTA_INVALID_INTERVAL",
                f"The table property {key} is {value!r}, which is not a valid INTERVAL.",
                parameters={"interval": value, "key": key},
                hint="Set it to an interval such as 2 weeks or 365 days: whole numbers, without months and years.",
            )
        return found

    @property
    def append_only(self) -> bool:
        """`delta.appendOnly`."""
        return self.flag("delta.appendOnly")

    @property
    def deletion_vectors(self) -> bool:
        """`delta.enableDeletionVectors`: whether writers may mark rows instead of rewriting files."""
        return self.flag("delta.enableDeletionVectors")

    @property
    def change_data_feed(self) -> bool:
        """`delta.enableChangeDataFeed`: whether commits say which rows they change, and how."""
        return self.flag("delta.enableChangeDataFeed")

    @property
    def checkpoint_interval(self) -> int:
        """`delta.checkpointInterval`, in commits."""
        return max(1, self.number("delta.checkpointInterval", 10))

    @property
    def tombstone_retention(self) -> int:
        """`delta.deletedFileRetentionDuration`, in ms."""
        return self.interval("delta.deletedFileRetentionDuration", 7 * 86_400_000)

    @property
    def log_retention(self) -> int:
        """`delta.logRetentionDuration`, in ms."""
        return self.interval("delta.logRetentionDuration", 30 * 86_400_000)

    @property
    def indexed_columns(self) -> int:
        """`delta.dataSkippingNumIndexedCols`: leaf columns with statistics, -1 for all."""
        return self.number("delta.dataSkippingNumIndexedCols", 32)

    @property
    def stats_columns(self) -> str | None:
        """`delta.dataSkippingStatsColumns`: the columns with statistics, comma-separated, which overrides the count."""
        return self.values.get("delta.dataSkippingStatsColumns")

    def prefix_length(self, forced: bool) -> int:
        """How long the random folder names of data files are; 0 unless `forced` or `delta.randomizeFilePrefixes`."""
        wanted = forced or self.flag("delta.randomizeFilePrefixes")
        return max(1, self.number("delta.randomPrefixLength", 2)) if wanted else 0

    @property
    def target_file_size(self) -> int:
        """`delta.targetFileSize`, such as `64mb`, in bytes: at this size a data file is full; 128 MB without it."""
        found = _SIZE.fullmatch(self.values.get("delta.targetFileSize", "").strip().lower())
        size = int(found[1]) << _SHIFTS[found[2]] if found else 0
        return size or 128 << 20

    @property
    def compression(self) -> str | None:
        """`delta.parquet.compression.codec` for data files, lower case; None where the table leaves it to others."""
        found = self.values.get("delta.parquet.compression.codec")
        return None if found is None else found.lower()
