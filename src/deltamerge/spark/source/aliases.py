"""Aliases within a frame: those of the frames that it is a join of."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import functions as F

from deltamerge.spark.plans.attributes import quoted
from deltamerge.spark.session.frames import Frame


def with_structs(frame: Frame, aliases: Sequence[str]) -> Frame | None:
    """The frame with a struct column for each alias, by which `b.m` is its field; None where a column is called like one.

    Names that several columns have stay ambiguous without one of the aliases.
    """
    names = {name.lower() for name in frame.columns}
    if any(alias.lower() in names for alias in aliases):
        return None
    return frame.select("*", *[F.struct(F.col(f"{quoted(alias)}.*")).alias(alias) for alias in aliases])
