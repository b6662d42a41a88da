"""Rows that a Connect server keeps: whoever collects their plan asks nothing, and they are given back elsewhere."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any

from deltamerge.spark.session.checkpoints import checkpointed, give_back

DROPPED: list[str] = []


class Session:
    pass


class Relation:
    """As PySpark's CachedRemoteRelation: its end asks the server, unless it has no session."""

    def __init__(self, relation_id: str, spark_session: Session) -> None:
        self._relation_id = relation_id
        self._spark_session: Session | None = spark_session

    def __del__(self) -> None:
        if self._spark_session is not None:
            DROPPED.append(self._relation_id)


def frame_of(session: Session, id: str) -> Any:
    return SimpleNamespace(localCheckpoint=lambda eager: SimpleNamespace(_plan=Relation(id, session)))


def test_rows_are_given_back_after_their_plan_is_gone() -> None:
    DROPPED.clear()
    session = Session()
    held = checkpointed(frame_of(session, "held"))
    gone: Any = checkpointed(frame_of(session, "gone"))
    gone.itself = gone
    del gone
    gc.collect()
    assert DROPPED == []
    give_back()
    assert DROPPED == ["gone"]
    give_back()
    assert DROPPED == ["gone"]
    del held
    checkpointed(frame_of(session, "next"))
    assert DROPPED == ["gone", "held"]


def test_nothing_is_asked_of_a_session_that_is_gone() -> None:
    DROPPED.clear()
    checkpointed(frame_of(Session(), "x"))
    gc.collect()
    give_back()
    assert DROPPED == []


def test_a_frame_of_another_kind_is_left_as_it_is() -> None:
    classic: Any = SimpleNamespace(localCheckpoint=lambda eager: "frame")
    assert checkpointed(classic) == "frame"
