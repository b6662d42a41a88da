"""Methods and properties replaced in classes, and put back."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from deltamerge.activation.patches import put_back, replace_attribute
from deltamerge.spark.pyspark.plain import plain_reader, plain_sql


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


@pytest.mark.parametrize("owner", [Base, Session])
@pytest.mark.parametrize("wraps", [False, True])
def test_what_others_have_put_over_ours_stays(monkeypatch: pytest.MonkeyPatch, owner: type, wraps: bool) -> None:
    session: Any = Session()
    own = vars(Base)["sql"]
    replace_attribute(Session, "sql", asking)
    ours = Base.sql

    def traced(self: Session, text: str) -> str:
        return "traced " + ours(self, text)

    monkeypatch.setattr(owner, "sql", functools.wraps(ours)(traced) if wraps else traced, raising=False)
    assert (session.sql("a"), plain_sql(session, "a")) == ("traced ours of Spark: a", "Spark: a")
    replace_attribute(Session, "sql", asking)
    assert (session.sql("a"), plain_sql(session, "a")) == ("traced ours of Spark: a", "Spark: a")
    put_back()
    assert session.sql("a") == "traced Spark: a"
    replace_attribute(Session, "sql", asking)
    assert (session.sql("a"), plain_sql(session, "a")) == ("traced ours of Spark: a", "Spark: a")
    monkeypatch.undo()
    assert session.sql("a") == "ours of Spark: a"
    put_back()
    assert vars(Base)["sql"] is own


def test_a_property_that_others_have_put_over_ours_asks_sparks(monkeypatch: pytest.MonkeyPatch) -> None:
    session: Any = Session()
    replace_attribute(Session, "read", lambda _: lambda self: f"ours of {plain_reader(self)}")
    ours: Any = vars(Base)["read"]
    monkeypatch.setattr(Base, "read", property(lambda self: f"traced {ours.fget(self)}"))
    assert (session.read, plain_reader(session)) == ("traced ours of Spark's", "Spark's")
    put_back()
    assert session.read == "traced Spark's"
    monkeypatch.undo()
    put_back()
    assert session.read == "Spark's"


def test_what_others_have_put_over_sparks_is_below_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    session: Any = Session()
    replace_attribute(Session, "sql", asking)
    held = session.sql
    put_back()
    own = Base.sql
    with monkeypatch.context() as patching:
        patching.setattr(Base, "sql", lambda self, text: "traced " + own(self, text))
        replace_attribute(Session, "sql", asking)
        assert session.sql("a") == "ours of traced Spark: a"
        put_back()
    replace_attribute(Session, "sql", asking)
    assert session.sql("a") == "ours of Spark: a"
    put_back()
    assert (session.sql("a"), held("a")) == ("Spark: a", "Spark: a")


def test_a_method_that_somebody_holds_answers_again() -> None:
    session: Any = Session()
    replace_attribute(Session, "sql", asking)
    held = session.sql
    put_back()
    assert held("a") == "Spark: a"
    replace_attribute(Session, "sql", asking)
    try:
        assert held("a") == "ours of Spark: a"
    finally:
        put_back()


def test_a_class_that_asks_the_one_it_inherits_from_is_answered_once() -> None:
    class Own(Session):
        def sql(self, text: str) -> str:
            return super().sql(f"own {text}")

    session: Any = Own()
    for first, then in ((Own, Base), (Base, Own)):
        replace_attribute(first, "sql", asking)
        replace_attribute(then, "sql", asking)
        try:
            assert "Spark: " in session.sql("a")
            assert plain_sql(session, "a") == "Spark: a"
        finally:
            put_back()


def asking(plain: Callable[..., str]) -> Callable[..., str]:
    """As the library's own: it asks Spark by the session."""
    del plain
    return lambda self, text: f"ours of {plain_sql(self, text)}"
