"""Materialized rows that a Spark Connect server keeps for this client, given back when that can't block.

A Connect client asks the server to drop such rows when Python collects the plan that stands for them. That may happen in any
thread, also in one that holds a lock of the connection, and then the request waits for itself for ever. So our own plans do not
ask; rows whose plan is gone are given back from a place that holds nothing. Classic Spark cleans up by itself.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from deltamerge.spark.session.frames import Frame


@dataclass(frozen=True, slots=True)
class _Kept:
    """Rows on a server: the plan that stands for them, how another one is made, their id, and the session."""

    plan: weakref.ref[Any]
    make: Callable[[str, Any], object]
    id: str
    session: weakref.ref[Any]


_KEPT: list[_Kept] = []


def checkpointed(frame: Frame) -> Frame:
    """The frame materialized in Spark when it is first used."""
    give_back()
    found = frame.localCheckpoint(eager=False)
    try:
        plan: Any = found._plan  # only a Connect client's frame has one
        kept = _Kept(weakref.ref(plan), type(plan), plan._relation_id, weakref.ref(plan._spark_session))
        plan._spark_session = None
    except (AttributeError, TypeError):
        return found
    _KEPT.append(kept)
    return found


def give_back() -> None:
    """Have servers drop the rows of plans that are gone."""
    for kept in [kept for kept in _KEPT if kept.plan() is None]:
        try:
            _KEPT.remove(kept)
        except ValueError:  # another thread has done it
            continue
        session = kept.session()
        if session is not None:
            kept.make(kept.id, session)  # asks at its own end, which is here
