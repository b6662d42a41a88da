"""A table's log opened as the session would reach the table: with the credentials and endpoints of its settings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from deltamerge.disk import SYNC
from deltamerge.errors import InvalidArgumentError
from deltamerge.log.replay.table import DeltaLog, open_log
from deltamerge.spark.pyspark.adapter import hadoop_settings, is_connect, is_hadoop_default
from deltamerge.spark.pyspark.older import all_settings, refuse_older
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.settings import setting
from deltamerge.storage.credentials import setting_names
from deltamerge.storage.elsewhere import NAMING
from deltamerge.storage.location import FILE, parse_location

_HADOOP = "spark.hadoop."


def open_table(spark: Session, location: str, options: Mapping[str, str] | None = None) -> DeltaLog:
    """The log of the table at `location`. For an object store `options` come first, then the session's settings.

    Raises StorageError for a store that is not supported, InvalidArgumentError for an option that is not known, a setting that
    can't be, and for what is no session or no path.
    """
    check_session(spark)
    place = parse_location(location)
    if place.kind == FILE:
        return open_log(location, options, {} if _syncs(spark) else {SYNC: "false"})
    return open_log(location, options, store_settings(spark, setting_names(place), NAMING.get(place.kind)))


def _syncs(spark: Session) -> bool:
    """Whether what is written to local disks is synced."""
    value = setting(spark, SYNC, "true").lower()
    if value not in ("true", "false"):
        message = f"The setting {SYNC} is {value!r}."
        raise InvalidArgumentError("DELTAMERGE_INVALID_SYNC", message, hint="true, or false for tables that may be lost.")
    return value == "true"


def check_session(spark: Session) -> None:
    """Raises InvalidArgumentError for what is no session, classic or of Spark Connect."""
    if not (hasattr(spark, "createDataFrame") and hasattr(spark, "conf")):
        raise InvalidArgumentError(
            "DELTAMERGE_INVALID_SESSION",
            f"The first argument must be a SparkSession, found {spark!r}.",
            hint="spark = SparkSession.builder.getOrCreate()",
        )
    if is_connect(spark):
        refuse_older("Spark Connect")


def store_settings(spark: Session, names: Sequence[str], pattern: str | None = None) -> dict[str, str]:
    """Hadoop's settings of these names, and of those that a pattern matches, that the session has: Hadoop's own on classic Spark,
    the session's everywhere.

    Spark Connect leaves out those whose names look secret (`spark.redaction.regex`), whatever asks for them.
    """
    session = {key.removeprefix(_HADOOP): str(value) for key, value in sorted(all_settings(spark).items(), key=_plain_last)}
    wanted = {*names, *(name for name in session if pattern is not None and re.search(pattern, name))}
    found = {name: session[name] for name in wanted if session.get(name)}
    hadoop = {} if is_connect(spark) else hadoop_settings(spark, names, pattern)
    # PySpark 3.5 gives Hadoop an endpoint of its own, which is no user's wish.
    defaults = [name for name, value in hadoop.items() if found.get(name, value) != value and is_hadoop_default(spark, name)]
    return {**found, **{name: value for name, value in hadoop.items() if name not in defaults}}


def _plain_last(item: tuple[str, object]) -> bool:
    return not item[0].startswith(_HADOOP)
