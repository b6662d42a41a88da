"""A table at another version or time, as SQL text asks for it: `VERSION AS OF`, `TIMESTAMP AS OF`, and `path@v1`.

Source: delta-spark's DeltaTimeTravelSpec and DeltaTableUtils.extractIfPathContainsTimeTravel.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from deltamerge.errors import AnalysisError, InvalidArgumentError, ParseError
from deltamerge.log.replay.commit_times import milliseconds
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.spark.expressions.queries import query_frame
from deltamerge.spark.read.snapshot import Rows, newest_frame, travelled_frame
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.settings import time_zone
from deltamerge.spark.session.storage import open_table
from deltamerge.spark.sql.literals import literal_of
from deltamerge.spark.sql.tables import FEED, TIMESTAMP, VERSION, TableName

_AT = re.compile(r"(.*)@(?:[vV](\d+)|(\d{17}))", re.DOTALL)


def snapshot_at(spark: Session, path: str, version: str | None = None, timestamp: str | None = None) -> Snapshot:
    """The table at `path`: its newest version, the one of this number, or the newest at the time that an SQL expression says.

    `path@v1` and `path@20240131120000000` are versions of the table at `path`, unless a table lies there.
    Raises TableNotFoundError, InvalidArgumentError for a version that is no number, AnalysisError for one that isn't there.
    """
    return snapshot_of(spark, path, version_number(version), None if timestamp is None else time_of(spark, timestamp))


def snapshot_of(
    spark: Session,
    path: str,
    version: int | None = None,
    time: int | None = None,
    options: Mapping[str, str] | None = None,
) -> Snapshot:
    """As `snapshot_at`, with a time in ms since 1970, and the options that open an object store."""
    table, at = open_table(spark, path, options), _AT.fullmatch(path)
    if at is None or table.exists():
        return table.snapshot(version, time)
    if version is not None or time is not None:
        raise several_times()
    path, number, moment = at.groups()
    found = None if moment is None else _compact_time(spark, moment)
    return open_table(spark, path, options).snapshot(version_number(number), found)


def table_at(
    spark: Session, path: str, version: str | None = None, timestamp: str | None = None, rows: Rows | None = None
) -> Frame:
    """The rows of `snapshot_at`, or other `rows` of it, lazily."""
    found = snapshot_at(spark, path, version, timestamp)
    return frame_of(spark, path, found, version is not None or timestamp is not None, rows)


def travel_of(table: TableName) -> tuple[str | None, str | None]:
    """The version, and the time as an SQL expression, at which a query reads a table: by `AS OF`, or by the options of WITH.

    Raises ParseError for an option that is given twice, AnalysisError where both are given, InvalidArgumentError for the change
    data feed, which SQL text reads by a function.
    """
    names = [name for name, _ in table.options]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ParseError(
            "DUPLICATE_KEY",
            f"Found duplicate keys `{twice[0]}`.",
            parameters={"keyColumn": f"`{twice[0]}`"},
            hint="Give each option of WITH once.",
        )
    options = {name.lower(): value for name, value in table.options}
    version, time = options.get(VERSION), options.get(TIMESTAMP)
    if any(options.get(name, "false").lower() != "false" for name in FEED):
        raise InvalidArgumentError(
            "DELTAMERGE_UNKNOWN_OPTION",
            "The changes of a table can't be read by the option readChangeFeed of a query.",
            parameters={"options": sorted(options.keys() & set(FEED))},
            hint="table_changes('table', start[, end]) gives the changes of a table.",
        )
    if version is not None and time is not None:
        raise AnalysisError(
            "INVALID_TIME_TRAVEL_SPEC",
            "Cannot specify both version and timestamp when time travelling the table.",
            hint="Leave out versionAsOf or timestampAsOf.",
        )
    given = table.version, table.timestamp
    if given == (None, None):
        return version, None if time is None else literal_of(time)
    if (version, time) != (None, None):
        raise AnalysisError(
            "MULTIPLE_TIME_TRAVEL_SPEC",
            "Cannot specify time travel in both the time travel clause and options.",
            hint="Leave out AS OF, or versionAsOf and timestampAsOf.",
        )
    return given


def frame_of(spark: Session, path: str, snapshot: Snapshot, travels: bool, rows: Rows | None = None) -> Frame:
    """The rows of a snapshot that was asked for as `path`, lazily, and by a version or time if it `travels`."""
    travels = travels or (marked(path) and not marked(snapshot.store.url))
    return (travelled_frame if travels else newest_frame)(spark, snapshot, rows)


def marked(path: str) -> bool:
    """Whether a path ends as one that says a version or a time."""
    return _AT.fullmatch(path) is not None


def time_of(spark: Session, expression: str, condition: str = "INVALID_TIME_TRAVEL_TIMESTAMP_EXPR.INPUT") -> int:
    """The time in ms that Spark makes of an expression, in the session's time zone. Raises AnalysisError with `condition`."""
    query = f"SELECT unix_millis(TRY_CAST({expression} AS TIMESTAMP))"
    ((found,),) = query_frame(spark, query).collect()
    if found is None:
        raise AnalysisError(
            condition,
            f"The time travel timestamp expression {expression} is invalid: it can't be cast to a timestamp.",
            parameters={"expr": expression},
            hint="Give a time as in TIMESTAMP AS OF '2024-01-31 12:00:00'.",
        )
    return int(found)


def several_times() -> AnalysisError:
    """The error for a table that is asked for both at one and at another version or time."""
    return AnalysisError(
        "DELTA_UNSUPPORTED_TIME_TRAVEL_MULTIPLE_FORMATS",
        "Cannot specify time travel in multiple formats: a version or timestamp is given twice.",
        hint="Leave one of them out.",
    )


def version_number(version: str | None) -> int | None:
    """The version that a text says. Raises InvalidArgumentError."""
    if version is None or re.fullmatch(r"\s*\d{1,18}\s*", version, re.ASCII):
        return None if version is None else int(version)
    raise InvalidArgumentError(
        "DELTA_TIME_TRAVEL_INVALID_BEGIN_VALUE",
        f"The version {version!r} is no number.",
        parameters={"timeTravelKey": "versionAsOf"},
        hint="Give a version as in VERSION AS OF 1.",
    )


def _compact_time(spark: Session, digits: str) -> int:
    """The time in ms of yyyyMMddHHmmssSSS, in the session's time zone."""
    day, time = f"{digits[:4]}-{digits[4:6]}-{digits[6:8]}", f"{digits[8:10]}:{digits[10:12]}:{digits[12:14]}.{digits[14:]}"
    return milliseconds(f"{day} {time}", time_zone(spark))
