"""Commit times, and the version that was the newest at a time.

Source: delta-spark's DeltaHistoryManager; PROTOCOL.md, "Recommendations for Readers of Tables with In-Commit Timestamps".
Times are in ms since 1970.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from deltamerge.errors import AnalysisError, CorruptTableError
from deltamerge.log.replay.commit_file import listed_again, read_commit
from deltamerge.log.replay.segment import LOG, all_commits, commit_version, earliest_version
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.protocol.values.times import moment_text, parse_moment
from deltamerge.protocol.values.zones import zone_of
from deltamerge.storage import ObjectInfo, Store

ENABLEMENT_VERSION = "delta.inCommitTimestampEnablementVersion"
ENABLEMENT_TIMESTAMP = "delta.inCommitTimestampEnablementTimestamp"


def ordered_times(commits: Sequence[ObjectInfo]) -> list[ObjectInfo]:
    """The commit files, oldest first, each modified later than the one before: clocks and copies may say otherwise."""
    found: list[ObjectInfo] = []
    for info in commits:
        before = found[-1].modified if found else None
        late = before is None or info.modified > before
        found.append(info if late else replace(info, modified=(before or 0) + 1))
    return found


def milliseconds(value: datetime | str, zone: str) -> int:
    """A time as ms since 1970; one without zone is in `zone`. Raises AnalysisError for a text that is no time."""
    try:
        if isinstance(value, str):
            return parse_moment(value, zone) // 1000
        moment = value if value.tzinfo is not None else value.replace(tzinfo=zone_of(zone))
        return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    except (ValueError, OverflowError) as error:
        said = f"'{value}'" if isinstance(value, str) else str(value)
        raise AnalysisError(
            "DELTA_TIMESTAMP_INVALID",
            f"The provided timestamp ({said}) cannot be converted to a valid timestamp: {error}.",
            parameters={"expr": str(value)},
            hint="Give a datetime, or a text such as '2024-01-31' or '2024-01-31 12:00:00'.",
        ) from error


def version_at(newest: Snapshot, time: int, or_newest: bool = False) -> int:
    """The newest version made at or before `time`; after all versions it is the newest one if that `or_newest` is asked for.

    Raises AnalysisError when there is none, or none so late.
    """
    return listed_again(lambda: _version_at(newest, time, or_newest))


def _version_at(newest: Snapshot, time: int, or_newest: bool) -> int:
    store = newest.store
    listed = store.list(LOG, "")
    earliest = earliest_version(listed)
    if earliest is None:
        raise _no_history(store)
    commits = {v: info for info in all_commits(store) if earliest <= (v := commit_version(info)) <= newest.version}
    first, since = _enablement(newest)
    if time >= since:
        version, made = _by_commit(store, {v: info for v, info in commits.items() if v >= first}, time)
    else:
        version, made = _by_file({v: info for v, info in commits.items() if v < first} or None, commits, store, time)
    if made > time:
        raise _too_early(time, made)
    if version == newest.version and made < time and not or_newest:
        raise _too_late(time, made)
    return version


def _enablement(newest: Snapshot) -> tuple[int, int]:
    """From which version and time on commits carry their own timestamps; beyond the newest when they don't."""
    if not newest.in_commit_timestamps:
        return newest.version + 1, 1 << 62
    properties = newest.properties
    return properties.number(ENABLEMENT_VERSION, 0), properties.number(ENABLEMENT_TIMESTAMP, -1)


def _by_commit(store: Store, commits: Mapping[int, ObjectInfo], time: int) -> tuple[int, int]:
    """The last version that says it was made by `time`, and when; the first one when all are later."""
    versions = sorted(commits)
    if not versions:
        raise _no_history(store)
    times: dict[int, int] = {}

    def made(version: int) -> int:
        if version not in times:
            found = read_commit(store, commits[version]).in_commit_timestamp
            if found is None:
                raise _no_timestamp(store, version)
            times[version] = found
        return times[version]

    chosen = versions[max(0, bisect_right(versions, time, key=made) - 1)]
    return chosen, made(chosen)


def _by_file(
    before: Mapping[int, ObjectInfo] | None, commits: Mapping[int, ObjectInfo], store: Store, time: int
) -> tuple[int, int]:
    """As `_by_commit`, by modification times; when no version before in-commit timestamps is left, the first one with them."""
    if before is None:
        return _by_commit(store, commits, time)
    ordered = ordered_times([before[version] for version in sorted(before)])
    at = max(0, bisect_right(ordered, time, key=lambda info: info.modified) - 1)
    return commit_version(ordered[at]), ordered[at].modified


def _text(time: int) -> str:
    return moment_text(time * 1000, " ")[:-3] + "+00:00"


def _too_early(time: int, first: int) -> AnalysisError:
    return AnalysisError(
        "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION",
        f"The timestamp {_text(time)} is before the earliest version available, made at {_text(first)}.",
        parameters={"userTimestamp": _text(time), "commitTs": _text(first), "timestampString": _text(first)},
        hint=f"Use a timestamp from {_text(first)} on.",
    )


def _too_late(time: int, last: int) -> AnalysisError:
    return AnalysisError(
        "DELTA_TIMESTAMP_GREATER_THAN_COMMIT",
        f"The timestamp {_text(time)} is after the newest version, made at {_text(last)}.",
        parameters={"providedTimestamp": _text(time), "lastCommitTimestamp": _text(last), "maximumTimestamp": _text(last)},
        hint=f"Use a timestamp up to {_text(last)}, or none for the newest version.",
    )


def _no_history(store: Store) -> CorruptTableError:
    return CorruptTableError(
        "DELTA_NO_RECREATABLE_HISTORY_FOUND",
        f"No commit of {store.url} can be reconstructed: older log files are gone and no checkpoint covers them.",
        parameters={"logPath": f"{store.url}/{LOG}"},
        hint="Restore the deleted files of _delta_log from a backup.",
    )


def _no_timestamp(store: Store, version: int) -> CorruptTableError:
    return CorruptTableError(
        "DELTA_MISSING_COMMIT_TIMESTAMP",
        f"Version {version} of {store.url} has no inCommitTimestamp, which the feature inCommitTimestamp demands.",
        parameters={"featureName": "inCommitTimestamp", "version": version},
        hint="A writer without support for in-commit timestamps made it; time travel by version instead.",
    )
