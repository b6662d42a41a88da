"""What is known of a merge's source: before it is evaluated, without a job, and afterwards, with its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.spark.session.frames import Frame
from deltamerge.worker.scan.store import Stamp

# A column of the source that no expression can name by accident: when it was evaluated, in microseconds since 1970.
TIME = "deltamerge time"


@dataclass(frozen=True)
class SourceFile:
    """A Parquet file of a source: its rows, and the bytes that some of its columns have when they are not compressed.

    `groups` counts its row groups; by its `stamp` it is known again. `bounds` has the least and the greatest value of columns
    that were asked for, as far as it has them; None if none was, or Spark may read it otherwise.
    """

    name: str
    rows: int
    bytes: int
    groups: int
    stamp: Stamp
    bounds: Mapping[str, tuple[Any, Any]] | None = field(default=None, repr=False)


class Evaluation(Enum):
    """How far a source has been evaluated: not at all; its rows collected in Arrow; materialized by a checkpoint; or not at all
    until they are merged, once.
    """

    NONE = "not evaluated"
    COLLECTED = "collected"
    MATERIALIZED = "materialized"
    DEFERRED = "deferred"


@dataclass(frozen=True)
class SourceFacts:
    """What is known of a source. Rows and bytes, in Arrow, are None as long as nobody has counted them.

    `estimate` are Spark's bytes. `files` are the Parquet files that the source is, where Spark is not needed to read them;
    `are_visible` says that this process reads them just as well. `bounds` has the least and the greatest value of some columns
    of a source that is not collected. Bounds of one that is not materialized are those of its files: they hold as long as
    workers read these. `is_repeatable` says that a second reading gives the same rows, `fits_arrow` that all its types are
    carried by Arrow, `has_known_widths` that the bytes of its rows can be counted: `counted_width` for each, and the lengths of
    its texts.
    """

    evaluation: Evaluation = Evaluation.NONE
    rows: int | None = None
    bytes: int | None = None
    estimate: int | None = None
    files: tuple[SourceFile, ...] = ()
    are_visible: bool = False
    bounds: pa.Table | None = field(default=None, repr=False)
    is_repeatable: bool = False
    fits_arrow: bool = True
    has_known_widths: bool = True
    counted_width: int = 0

    def deferred(self) -> SourceFacts:
        """The same source, left to be read while it is merged."""
        return replace(self, evaluation=Evaluation.DEFERRED, bytes=max(self.bytes or 0, self.counted_width * (self.rows or 0)))

    @property
    def is_read_unevaluated(self) -> bool:
        """Whether files of the table were pruned by what only holds as long as workers read the source's files."""
        return self.evaluation is Evaluation.DEFERRED and self.bounds is not None


@dataclass(frozen=True)
class Source:
    """An evaluated source: its facts, and its rows in Arrow if they are collected."""

    build: Callable[[], Frame] = field(repr=False)
    facts: SourceFacts
    collected: pa.Table | None = field(default=None, repr=False)

    @property
    def rows(self) -> int:
        """How many rows it has."""
        assert self.facts.rows is not None
        return self.facts.rows

    @property
    def bytes(self) -> int:
        """About how many bytes its rows have in Arrow."""
        assert self.facts.bytes is not None
        return self.facts.bytes

    @property
    def time(self) -> int | None:
        """When it was evaluated, in microseconds since 1970; None where that was not asked for, or it has no rows."""
        known = self.facts.bounds if self.collected is None else self.collected
        limits = None if known is None else bounds_in(known, TIME)
        return None if limits is None else limits[0].as_py()

    @cached_property
    def frame(self) -> Frame:
        """The rows as a frame, made when Spark needs it."""
        return self.build()


def bounds_in(known: pa.Table, column: str) -> pa.Array | None:
    """The least and the greatest value of a column; None when it is not there, nulls when all its values are null."""
    if column not in known.column_names:
        return None
    found = pc.min_max(known.column(column))
    return pa.array([found["min"], found["max"]], known.schema.field(column).type)
