"""What a statement is: text that was parsed, which runs on a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.sql.reader import Reader


class Statement(Protocol):
    """A statement that was parsed."""

    def run(self, spark: Session) -> Frame | None:
        """Run it and return its rows; None where it is about what is no Delta table. Raises DeltaMergeError."""


Parser: TypeAlias = Callable[[Reader], Statement | None]
"""Reads what follows a statement's first words; None for what is Spark's to answer. Raises ParseError that shows the place."""
