"""Methods and properties replaced in classes, and put back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from deltamerge.activation.patches import put_back, replace_attribute
from deltamerge.spark.session.plain import plain_reader, plain_sql


class Base:
    def sql(self, text: str) -> str:
        """Spark's words."""
        return f"Spark: {text}"

    @property
    def read(self) -> str:
        """Spark's reader."""
        return "Spark's"


class Session(Base):
    pass


def louder(plain: Callable[..., str]) -> Callable[..., str]:
    return lambda self, *given: plain(self, *given).upper()


def test_the_own_ones_can_be_asked_and_put_back() -> None:
    session: Any = Session()
    own = vars(Base)["sql"]
    for _ in range(2):  # twice is once
        replace_attribute(Session, "sql", louder)
        replace_attribute(Session, "read", louder)
    try:
        assert (session.sql("a"), session.read) == ("SPARK: A", "SPARK'S")
        assert (plain_sql(session, "a"), plain_reader(session)) == ("Spark: a", "Spark's")
        assert (Session.sql.__doc__, Session.read.__doc__) == ("Spark's words.", "Spark's reader.")
    finally:
        put_back()
    assert vars(Base)["sql"] is own
    assert (session.sql("a"), session.read, plain_sql(session, "a")) == ("Spark: a", "Spark's", "Spark: a")


def test_what_others_have_put_over_ours_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_attribute(Session, "sql", louder)
    ours = Base.sql
    monkeypatch.setattr(Base, "sql", lambda self, text: "traced " + ours(self, text))
    put_back()
    assert Session().sql("a") == "traced SPARK: A"
    monkeypatch.undo()
    Base.sql = ours.__deltamerge_plain__  # type: ignore[attr-defined,method-assign]
