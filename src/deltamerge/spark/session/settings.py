"""Session settings: read together, and set around a job."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from deltamerge.errors import InvalidArgumentError
from deltamerge.log.commit.proposal import Author
from deltamerge.protocol.schema.char_varchar import char_varchars
from deltamerge.protocol.schema.types import StructType
from deltamerge.spark.pyspark.adapter import is_connect, is_here, names_of_settings
from deltamerge.spark.session.delta_settings import DELTA
from deltamerge.spark.session.frames import Session

_FEW = 4  # calls tell which settings a classic session has
_ARROW = {"spark.sql.execution.arrow.maxRecordsPerBatch": "65536"}


def read_settings(spark: Session, keys: Iterable[str], prefix: str | tuple[str, ...] | None = None) -> dict[str, str | None]:
    """Session settings, None for those that are not set, and all whose names begin with a `prefix`.

    On Connect by one request, on classic Spark by a call for each that is set.
    """
    wanted = frozenset(keys)

    def is_asked(name: str) -> bool:
        return name in wanted or (prefix is not None and name.startswith(prefix))

    found: Mapping[str, str | None]
    if is_connect(spark):
        everything: Any = spark.conf.getAll
        found = {name: value for name, value in everything.items() if is_asked(name)}
    else:
        names = wanted if prefix is None and len(wanted) < _FEW else filter(is_asked, names_of_settings(spark))
        found = {name: spark.conf.get(name, None) for name in names}
    return {**dict.fromkeys(wanted), **found}


def job_settings(spark: Session, values: Mapping[str, str] | None = None) -> contextlib.AbstractContextManager[None]:
    """Session settings for the time of a job, put back afterwards; Arrow batches are large by default."""
    return settings(spark, {**_ARROW, **(values or {})})


@contextlib.contextmanager
def settings(spark: Session, wanted: Mapping[str, str]) -> Iterator[None]:
    """Session settings for a while, put back afterwards."""
    known = read_settings(spark, wanted)
    before = {key: known[key] if key in known else spark.conf.get(key, None) for key in wanted}
    for key, value in wanted.items():
        if before[key] != value:
            spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            elif old != wanted[key]:
                spark.conf.set(key, old)


_KNOWN: ContextVar[Mapping[str, str | None]] = ContextVar("known settings", default=MappingProxyType({}))
OWN_SETTINGS = "spark.deltamerge."
# Of these an operation knows all: one that it does not know is not set.
_ALL = (OWN_SETTINGS, DELTA)
MASTER = "spark.master"
USER_METADATA = f"{DELTA}commitInfo.userMetadata"
CASE_SENSITIVE, TIME_ZONE = "spark.sql.caseSensitive", "spark.sql.session.timeZone"
DOUBLE_QUOTED_NAMES = "spark.sql.ansi.doubleQuotedIdentifiers"
NAME_PATTERNS = "spark.sql.parser.quotedRegexColumnNames"
RESERVED_WORDS = "spark.sql.ansi.enforceReservedKeywords"
READ_SIDE_PADDING, CHAR_AS_STRING = "spark.sql.readSideCharPadding", "spark.sql.legacy.charVarcharAsString"


@contextlib.contextmanager
def known_settings(spark: Session, keys: Iterable[str]) -> Iterator[None]:
    """Settings that a whole operation asks for one by one, and all of this library and of delta-spark, read together: each
    reading is a call.
    """
    known = read_settings(spark, keys, _ALL)
    if TIME_ZONE in known and known[TIME_ZONE] is None:
        known[TIME_ZONE] = _zone_of_machine(spark)
    token = _KNOWN.set(MappingProxyType(known))
    try:
        yield
    finally:
        _KNOWN.reset(token)


def own_settings() -> list[str]:
    """The names of this library's settings that the session of the operation has."""
    return [name for name, value in _KNOWN.get().items() if name.startswith(OWN_SETTINGS) and value is not None]


def settings_of_delta(spark: Session) -> dict[str, str]:
    """delta-spark's settings that the session has: those of the operation, or else read anew."""
    known = _KNOWN.get() or read_settings(spark, (), DELTA)
    return {name: value for name, value in known.items() if name.startswith(DELTA) and value is not None}


def setting(spark: Session, key: str, default: str) -> str:
    """A session setting."""
    value = optional_setting(spark, key)
    return default if value is None else value


def optional_setting(spark: Session, key: str) -> str | None:
    """A session setting; None where there is none."""
    known = _KNOWN.get()
    is_known = key in known or (known and key.startswith(_ALL))
    value = known.get(key) if is_known else spark.conf.get(key, None)
    return None if value is None else str(value)


def flag(spark: Session, key: str, default: bool = False) -> bool:
    """A session setting that is true or false. Raises InvalidArgumentError for one that is neither."""
    value = optional_setting(spark, key)
    if value is None:
        return default
    if value.strip().lower() not in ("true", "false"):
        raise InvalidArgumentError(
            "DELTAMERGE_INVALID_SETTING",
            f"The setting {key} is {value!r}.",
            parameters={"setting": key, "value": value},
            hint="It must be true or false.",
        )
    return value.strip().lower() == "true"


def case_sensitive(spark: Session) -> bool:
    """Whether names are told apart by case."""
    return setting(spark, CASE_SENSITIVE, "false").lower() == "true"


def pads_chars(spark: Session, schema: StructType) -> bool:
    """Whether the CHAR values of a schema get their blanks where they are read, as Spark's settings say; False if it has none.

    Spark has delta-spark's scans pad them, too: in the files they are as they were given.
    """
    if not any(text.padded for text in char_varchars(schema)):
        return False
    return setting(spark, READ_SIDE_PADDING, "true").lower() == "true" and not _are_strings(spark)


def limits_texts(spark: Session, schema: StructType) -> bool:
    """Whether the lengths of CHAR and VARCHAR bind what is written, as Spark's settings say; False if a schema has none."""
    return bool(char_varchars(schema)) and not _are_strings(spark)


def _are_strings(spark: Session) -> bool:
    """Whether CHAR and VARCHAR are no more than STRING."""
    return setting(spark, CHAR_AS_STRING, "false").lower() == "true"


def time_zone(spark: Session) -> str:
    """The session's time zone, in which timestamps without an offset are read; where none is set, that of Spark's machine."""
    return setting(spark, TIME_ZONE, "") or _zone_of_machine(spark)


@lru_cache(maxsize=8)
def _zone_of_machine(spark: Session) -> str:
    """The time zone of a session that sets none: what Spark says when it is asked without a default of ours."""
    return str(spark.conf.get(TIME_ZONE))


def runs_locally(spark: Session) -> bool:
    """Whether Spark has surely no machine but this one: what its tasks do is done with the cores that this process has, too."""
    return is_here(spark) and re.match(r"local(\[|$)", setting(spark, MASTER, "")) is not None


def author(spark: Session) -> Author:
    """Who commits for a session, as commitInfo names it: Spark, with what the session has noted with each commit."""
    return Author(f"Apache-Spark/{spark.version}", optional_setting(spark, USER_METADATA))
