"""Errors for what a stream needs of a log and does not find there any more."""

from __future__ import annotations

from collections.abc import Sequence

from deltamerge.errors import AnalysisError, CorruptTableError
from deltamerge.log.replay.segment import commit_name
from deltamerge.storage.base import Store

_KEEP = "Keep the log longer than the query may rest: delta.logRetentionDuration."
_ANEW = f"Start the query with a new checkpointLocation. {_KEEP}"


def unexpected(store: Store, expected: int, found: int) -> CorruptTableError:
    """A version is not there, but a later one is."""
    return CorruptTableError(
        "DELTA_MISSING_FILES_UNEXPECTED_VERSION",
        f"The stream can't go on from version {expected} of {store.url}: the log has only versions from {found} on.",
        parameters={"startVersion": expected, "earliestVersion": found, "option": "failOnDataLoss"},
        hint=f"{_ANEW} With the option failOnDataLoss=false the missing versions are passed over.",
    )


def trailing(store: Store, expected: int, seen: int) -> CorruptTableError:
    """A version that a batch was planned with is not there any more."""
    return CorruptTableError(
        "DELTA_STREAMING_TRAILING_COMMIT_MISSING",
        f"The batch reaches to version {expected} of {store.url}, but the log has none after {seen}.",
        parameters={"expectedVersion": expected, "seenVersion": seen},
        hint=f"Restore {commit_name(seen + 1)} and those after it from a backup.",
    )


def no_snapshot(store: Store, version: int) -> CorruptTableError:
    """The version whose rows a stream begins with can't be put together any more."""
    return CorruptTableError(
        "DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE",
        f"The stream has not read all of version {version} of {store.url}, which the log can't tell any more.",
        parameters={"version": version},
        hint=_ANEW,
    )


def no_version(version: int, versions: Sequence[int]) -> AnalysisError:
    """The version to begin with is not in the log, which has these."""
    first, last = (versions[0], versions[-1]) if versions else (0, 0)
    return AnalysisError(
        "DELTA_VERSION_NOT_FOUND",
        f"Cannot begin with version {version}. Available versions: [{first}, {last}].",
        parameters={"userVersion": version, "earliest": first, "latest": last},
        hint=f"Use a startingVersion from {first} to {last}, or latest for what comes after {last}.",
    )
