"""What the options of a `DataFrameReader` ask of a Delta table, read by the scans of `deltamerge.read` and `read_changes`.

Source: delta-spark's DeltaDataSource, CDCReader and DeltaTableV2.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from deltamerge.errors import AnalysisError, InvalidArgumentError, UnsupportedTableError
from deltamerge.exceptions import catchable
from deltamerge.log.feed.range import FeedBounds
from deltamerge.log.replay.commit_times import milliseconds
from deltamerge.spark.read.feed import changes_frame
from deltamerge.spark.read.hidden_frames import knowing_frame
from deltamerge.spark.read.metadata import metadata_frame
from deltamerge.spark.read.travel import frame_of, marked, snapshot_of, version_number
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.settings import time_zone
from deltamerge.spark.session.storage import open_table
from deltamerge.spark.sql.tables import FEED, TIMESTAMP, VERSION

SHOWS_METADATA = "metadata"
_STORES = ("fs.", "dfs.")
_BOUNDS = ("startingVersion", "startingTimestamp", "endingVersion", "endingTimestamp")
_NAMES = {
    name.lower(): name
    for name in ("versionAsOf", "timestampAsOf", "readChangeFeed", "readChangeData", *_BOUNDS, "path", SHOWS_METADATA)
}
_ALIKE = 0.75

log = logging.getLogger("deltamerge.activation")

Options = Mapping[str, str]
"""By their names in lower case: Spark's readers do not tell case apart."""


def asks_of_delta(options: Options) -> bool:
    """Whether options are among those that decide what is read of a Delta table."""
    return not options.keys().isdisjoint((VERSION, TIMESTAMP, *FEED, SHOWS_METADATA))


def path_of(given: str | Sequence[str] | None, options: Options) -> str:
    """The one path to load. Raises AnalysisError for several, InvalidArgumentError for none."""
    paths = [given] if isinstance(given, str) else list(given or ())
    if paths and "path" in options:
        raise AnalysisError(
            "DELTAMERGE_SEVERAL_PATHS",
            f"There is an option path, {options['path']}, and load() is called with {paths[0]}, too.",
            parameters={"path": paths[0]},
            hint="Leave one of them out.",
        )
    paths = paths or ([options["path"]] if "path" in options else [])
    if len(paths) > 1:
        raise AnalysisError(
            "MULTIPLE_LOAD_PATH",
            f"A Delta table is loaded from one path, found {', '.join(paths)}.",
            parameters={"paths": paths},
            hint="Load each, and union the DataFrames.",
        )
    if not paths:
        raise InvalidArgumentError("DELTAMERGE_NO_PATH", "'path' is not specified.", hint='spark.read.format("delta").load(path)')
    return paths[0]


def schema_given() -> UnsupportedTableError:
    """The error for a schema that is given to a reader."""
    return UnsupportedTableError(
        "DELTA_UNSUPPORTED_SCHEMA_DURING_READ",
        "A Delta table has its own schema; none can be given to read it.",
        hint="Leave .schema(..) out, and cast columns of the DataFrame.",
    )


def delta_frame(spark: Session, path: str, options: Options) -> Frame:
    """The rows of the table at a path, or its changes, as options say, lazily. The log tells which of them say nothing to it.

    Raises DeltaMergeError.
    """
    _check_names(options)
    stores = stores_of(options)
    travels, zone = not options.keys().isdisjoint((VERSION, TIMESTAMP)), time_zone(spark)
    if any(_truth(options, name) for name in FEED):
        if travels or (marked(path) and not open_table(spark, path, stores).exists()):
            raise AnalysisError(
                "DELTA_UNSUPPORTED_TIME_TRAVEL_VIEWS",
                "The changes of a table can't be read as of a version or a time.",
                hint="Say where they end: endingVersion, endingTimestamp.",
            )
        bounds = FeedBounds(
            _bound(options, "startingVersion"),
            _time(options, "startingTimestamp", zone),
            _bound(options, "endingVersion"),
            _time(options, "endingTimestamp", zone),
        )
        return changes_frame(spark, open_table(spark, path, stores), bounds)
    if VERSION in options and TIMESTAMP in options:
        raise InvalidArgumentError(
            "DELTA_ONEOF_IN_TIMETRAVEL",
            "A version and a time are both given.",
            parameters={"version": options[VERSION], "timestamp": options[TIMESTAMP]},
            hint="Leave out versionAsOf or timestampAsOf.",
        )
    version, time = version_number(options.get(VERSION)), _time(options, TIMESTAMP, zone)
    snapshot = snapshot_of(spark, path, version, time, stores)
    shows = _truth(options, SHOWS_METADATA)
    if shows:
        return frame_of(spark, path, snapshot, travels, metadata_frame)
    return knowing_frame(spark, snapshot, lambda spark, found, rows: frame_of(spark, path, found, travels, rows), catchable)


def _check_names(options: Options) -> None:
    """Raise InvalidArgumentError for a name that is nearly one that is known; tell of others that they are ignored."""
    asks_feed = not options.keys().isdisjoint(FEED)
    ignored = []
    for name in options:
        if name in _NAMES and (asks_feed or _NAMES[name] not in _BOUNDS):
            continue
        if name not in _NAMES and (alike := get_close_matches(name, _NAMES, 1, _ALIKE)):
            raise InvalidArgumentError(
                "DELTAMERGE_UNKNOWN_OPTION",
                f"There is no option {name} of a Delta table that is read.",
                parameters={"options": [name]},
                hint=f"Did you mean {_NAMES[alike[0]]}?",
            )
        if not name.startswith(_STORES):
            ignored.append(_NAMES.get(name, name))
    if ignored:
        log.warning("These options say nothing to a Delta table that is read, and are ignored: %s.", ", ".join(ignored))


def stores_of(options: Options) -> Options | None:
    """The options that open an object store."""
    return {name: value for name, value in options.items() if name.startswith(_STORES)} or None


def _truth(options: Options, name: str) -> bool:
    value = options.get(name, "false").lower()
    if value not in ("true", "false"):
        raise InvalidArgumentError(
            "DELTA_ILLEGAL_OPTION",
            f"Invalid value {value!r} for option '{name}', must be 'true' or 'false'.",
            parameters={"name": name, "input": value},
            hint="Give true or false.",
        )
    return value == "true"


def _bound(options: Options, name: str) -> int | None:
    value = options.get(name.lower())
    if value is None or value.strip().isdecimal():
        return None if value is None else int(value)
    raise AnalysisError(
        "DELTA_VERSION_INVALID",
        f"The version {value!r} of the option {name} is no valid version.",
        parameters={"version": value},
        hint="Give a whole number from 0.",
    )


def _time(options: Options, name: str, zone: str) -> int | None:
    value = options.get(name.lower())
    return None if value is None else milliseconds(value, zone)
