"""From the versions or times that a reader of the change data feed asks for to a range of versions.

Source: delta-spark's CDCReader. Times are in ms since 1970.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltamerge.errors import AnalysisError, InvalidArgumentError
from deltamerge.log.replay.commit_times import version_at
from deltamerge.log.replay.segment import all_commits, commit_version
from deltamerge.log.replay.snapshot import Snapshot

MAY_EXCEED = "spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled"


@dataclass(frozen=True, slots=True)
class FeedBounds:
    """What a reader asks for: versions or times, both inclusive; without an end, up to the newest version.

    A reader that `may_exceed` the table gets what there is of changes that begin or end after the newest version.
    """

    start_version: int | None = None
    start_time: int | None = None
    end_version: int | None = None
    end_time: int | None = None
    may_exceed: bool = False


def feed_range(newest: Snapshot, bounds: FeedBounds) -> tuple[int, int] | None:
    """The first and last version that are meant; None when no version is within.

    Raises AnalysisError and InvalidArgumentError for bounds that are missing, doubled, reversed or beyond the table.
    """
    _check(bounds)
    start = bounds.start_version if bounds.start_time is None else first_from(newest, bounds.start_time, bounds.may_exceed)
    assert start is not None
    end = bounds.end_version if bounds.end_time is None else version_at(newest, bounds.end_time, bounds.may_exceed)
    if start > newest.version and bounds.may_exceed:
        return None
    if start > newest.version:
        raise InvalidArgumentError(
            "DELTA_CDC_START_VERSION_AFTER_LATEST",
            f"Start version {start} for change data feed exceeds the latest table version {newest.version}.",
            parameters={"start": start, "latest": newest.version},
            hint=f"Use a version up to {newest.version}, or set {MAY_EXCEED} to true to get no changes.",
        )
    if bounds.start_time is not None and bounds.end_time is not None:
        reversed_times = bounds.start_time > bounds.end_time
        if end == start - 1 and not reversed_times:
            return None
    else:
        reversed_times = False
    if end is not None and (end < start or reversed_times):
        raise InvalidArgumentError(
            "DELTA_INVALID_CDC_RANGE",
            f"CDC range from start {start} to end {end} was invalid. End cannot be before start.",
            parameters={"start": start, "end": end},
            hint="Swap the two.",
        )
    return start, newest.version if end is None else min(end, newest.version)


def _check(bounds: FeedBounds) -> None:
    pairs = {
        "starting": (bounds.start_version, bounds.start_time),
        "ending": (bounds.end_version, bounds.end_time),
    }
    for name, (version, time) in pairs.items():
        if version is not None and time is not None:
            raise AnalysisError(
                "DELTA_MULTIPLE_CDC_BOUNDARY",
                f"Multiple {name} arguments provided for CDC read.",
                parameters={"startingOrEnding": name},
                hint=f"Give one of {name}_version and {name}_timestamp.",
            )
    if pairs["starting"] == (None, None):
        raise AnalysisError(
            "DELTA_NO_START_FOR_CDC_READ",
            "No starting_version or starting_timestamp provided for CDC read.",
            hint="Version 0 begins with the table.",
        )


def first_from(newest: Snapshot, time: int, may_exceed: bool = False) -> int:
    """The first version made at `time` or later: the one after the newest that was made before.

    Raises AnalysisError for a time after the newest version, unless the reader `may_exceed` the table.
    """
    try:
        before = version_at(newest, time - 1, may_exceed)
    except AnalysisError as error:
        if error.condition != "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION":
            raise
        return min(map(commit_version, all_commits(newest.store)))
    if before == newest.version and not may_exceed:
        version_at(newest, time)
    return before + 1
