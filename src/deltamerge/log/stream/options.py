"""What a stream from a table is told. Source: delta-spark's DeltaReadOptions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from deltamerge.errors import AnalysisError, DeltaMergeError, InvalidArgumentError
from deltamerge.log.replay.commit_times import milliseconds

LATEST = "latest"
FILES = 1000
_VERSION, _TIME = "startingVersion", "startingTimestamp"
_FILES, _BYTES = "maxFilesPerTrigger", "maxBytesPerTrigger"
_FEED = ("readChangeFeed", "readChangeData")
_FLAGS = ("ignoreDeletes", "ignoreChanges", "ignoreFileDeletion", "skipChangeCommits", "failOnDataLoss", *_FEED)
NAMES = (_VERSION, _TIME, _FILES, _BYTES, "excludeRegex", *_FLAGS)
_PAST = ("versionasof", "timestampasof")
_SIZE = re.compile(r"\s*(\d{1,18})\s*([bkmgtp]?)b?\s*", re.IGNORECASE)
_UNITS = {unit: 1 << 10 * power for power, unit in enumerate(("b", "k", "m", "g", "t", "p"))}


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Where a stream begins, what it reads, how much at once; times in ms since 1970, sizes in bytes, None where nothing is told.

    `start_version` is LATEST for what comes after the newest version. A stream that `may_exceed` the table waits for a start
    after its newest version.
    """

    start_version: int | str | None = None
    start_time: int | None = None
    max_files: int | None = None
    max_bytes: int | None = None
    exclude: str | None = None
    ignore_deletes: bool = False
    ignore_changes: bool = False
    skip_changes: bool = False
    fail_on_loss: bool = True
    feed: bool = False
    may_exceed: bool = False

    @property
    def is_limited(self) -> bool:
        """Whether a batch was told to end before all is read."""
        return self.max_files is not None or self.max_bytes is not None


def stream_options(given: Mapping[str, str], zone: str, may_exceed: bool = False) -> StreamOptions:
    """The options, by names of any case. Raises DeltaMergeError naming the option that is unknown or can't be."""
    known = {name.lower(): name for name in NAMES}
    if past := sorted(name for name in given if name.lower() in _PAST):
        raise AnalysisError(
            "DELTA_UNSUPPORTED_TIME_TRAVEL_VIEWS",
            f"A stream can't be read as of a version or a time: {', '.join(past)}.",
            hint=f"Say where it begins: {_VERSION}, {_TIME}.",
        )
    if unknown := sorted(name for name in given if name.lower() not in known):
        raise InvalidArgumentError(
            "DELTAMERGE_UNKNOWN_OPTION",
            f"There is no option {', '.join(unknown)} of a stream from a Delta table.",
            parameters={"options": unknown},
            hint=f"There are path, {', '.join(NAMES)}, and settings of an object store.",
        )
    values = {known[name.lower()]: value for name, value in given.items()}
    flags = {name: _flag(name, values[name]) for name in _FLAGS if name in values}
    if _VERSION in values and _TIME in values:
        raise InvalidArgumentError(
            "DELTA_STARTING_VERSION_AND_TIMESTAMP_BOTH_SET",
            f"Please either provide '{_VERSION}' or '{_TIME}'.",
            parameters={"version": _VERSION, "timestamp": _TIME},
            hint="Leave one of them out.",
        )
    any_change = flags.get("ignoreChanges", False) or flags.get("ignoreFileDeletion", False)
    return StreamOptions(
        start_version=_version(values.get(_VERSION)),
        start_time=milliseconds(values[_TIME], zone) if _TIME in values else None,
        max_files=_files(values.get(_FILES)),
        max_bytes=_bytes(values.get(_BYTES)),
        exclude=_pattern(values.get("excludeRegex")),
        ignore_deletes=flags.get("ignoreDeletes", False),
        ignore_changes=any_change,
        skip_changes=flags.get("skipChangeCommits", False),
        fail_on_loss=flags.get("failOnDataLoss", True),
        feed=any(flags.get(name, False) for name in _FEED),
        may_exceed=may_exceed,
    )


def _flag(name: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise _illegal(name, value, "must be 'true' or 'false'")
    return value.lower() == "true"


def _version(value: str | None) -> int | str | None:
    if value is None or value == LATEST:
        return value
    if not re.fullmatch(r"\d{1,18}", value, re.ASCII):
        raise _illegal(_VERSION, value, f"must be a whole number from 0, or '{LATEST}'")
    return int(value)


def _files(value: str | None) -> int | None:
    if value is None:
        return None
    if not re.fullmatch(r"\d{1,10}", value, re.ASCII) or not 0 < int(value) < 1 << 31:
        raise _illegal(_FILES, value, "must be a positive integer")
    return int(value)


def _bytes(value: str | None) -> int | None:
    if value is None:
        return None
    found = _SIZE.fullmatch(value)
    size = 0 if found is None else int(found[1]) * _UNITS[found[2].lower() or "b"]
    if size <= 0:
        raise _illegal(_BYTES, value, "must be a size configuration such as '10g'")
    return size


def _pattern(value: str | None) -> str | None:
    try:
        re.compile(value or "")
    except re.error as error:
        raise InvalidArgumentError(
            "DELTA_REGEX_OPT_SYNTAX_ERROR",
            f"Please recheck your syntax for 'excludeRegex': {error}.",
            parameters={"regExpOption": "excludeRegex"},
            hint="Give a regular expression as Python writes it.",
        ) from error
    return value


def _illegal(name: str, value: str, must: str) -> DeltaMergeError:
    return InvalidArgumentError(
        "DELTA_ILLEGAL_OPTION",
        f"Invalid value {value!r} for option '{name}', {must}.",
        parameters={"name": name, "input": value},
        hint=f"The option {name} {must}.",
    )
