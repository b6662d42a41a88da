"""Which sessions are active, and what is left to delta-spark in them.

A setting of the session says so, because Spark clones sessions: a stream's batches come with a clone, which has the settings
of the stream's session. A session that is made anew (`newSession`) has none of them.
"""

from __future__ import annotations

from enum import Enum
from weakref import WeakKeyDictionary

from deltamerge.spark.pyspark.adapter import is_connect
from deltamerge.spark.session.frames import Session

ACTIVE = "deltamerge.active"
_EXTENSIONS = "spark.sql.extensions"
_OF_DELTA = "io.delta."


class Scope(Enum):
    """What this library answers in an active session; the value is the setting's."""

    ALL = "all"
    MERGE = "merge"


# What sessions of Spark Connect say, which asking costs a request. Only their own client changes it.
_KNOWN: WeakKeyDictionary[Session, Scope | None] = WeakKeyDictionary()


def scope_of(spark: Session) -> Scope | None:
    """What this library answers in a session; None if it isn't active, or has ended."""
    if spark in _KNOWN:
        return _KNOWN[spark]
    try:
        value = spark.conf.get(ACTIVE, None)
    except Exception:  # it has ended: Spark says so
        return None
    found = next((scope for scope in Scope if scope.value == value), None)
    if is_connect(spark):
        _KNOWN[spark] = found
    return found


def make_active(spark: Session) -> Scope:
    """Make a session active: for MERGE alone where it has delta-spark's extension."""
    found = Scope.MERGE if has_extension(spark) else Scope.ALL
    spark.conf.set(ACTIVE, found.value)
    _remember(spark, found)
    return found


def make_inactive(spark: Session) -> None:
    """Make a session as it was."""
    spark.conf.unset(ACTIVE)
    _remember(spark, None)


def _remember(spark: Session, scope: Scope | None) -> None:
    if is_connect(spark):
        _KNOWN[spark] = scope


def has_extension(spark: Session) -> bool:
    """Whether delta-spark's extension is among the session's."""
    return _OF_DELTA in (spark.conf.get(_EXTENSIONS, None) or "")
