"""How a merge runs: the ways to evaluate its source, and the attempts to match and change rows, both best first and with reasons.

Plain data. What is explained is what runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar

from deltamerge.merge.plan.logical import Strategy
from deltamerge.spark.source.evaluate import Reading, ReadingStep
from deltamerge.worker.join.partitioning import KeyRanges
from deltamerge.worker.scan.outcomes import NotEvaluable, NotThisWay, SourceUnreadable, TooLarge


class Reader(Enum):
    """Who reads the source's rows for an exchange."""

    SPARK = "rows read by Spark"
    WORKERS = "files read by workers"


class RowFilter(Enum):
    """By what target rows that can't match are dropped before Spark joins."""

    NONE = ""
    KEYS = " of rows with a key of the source"
    BLOOM = " of rows that pass a Bloom filter of the source's keys"


@dataclass(frozen=True)
class Broadcast:
    """The collected source's keys are looked up in each file; what is made of the matches comes to the driver.

    `early_columns` are those that updates keep and that are read together with the keys, in place of a second reading.
    """

    strategy: ClassVar = Strategy.BROADCAST
    reason: str
    early_columns: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The attempt in words."""
        kept = f", {', '.join(self.early_columns)} read together with the keys" if self.early_columns else ""
        return f"{self.strategy.text}{kept}"


@dataclass(frozen=True)
class Exchange:
    """Source rows are sent to the tasks that write the files of `ranges`, by the column `key`; or, with `hash_tasks`, rows of
    both sides are matched at these first, chosen by a hash of `hash_keys`, columns of target and source.

    Inserted rows that belong to no range are spread by the source's columns `spread_by`, so that those of one partition are
    written by one task. With `key_only` columns only these are sent; a second job writes the rows to be inserted where it reads
    them, and with `update_as_delete_insert` updated rows, too.
    """

    reason: str
    reader: Reader
    key: str
    ranges: KeyRanges = field(repr=False)
    hash_keys: tuple[tuple[str, str], ...] = ()
    hash_tasks: int = 0
    key_only: tuple[str, ...] = ()
    update_as_delete_insert: bool = False
    spread_by: tuple[str, ...] = ()

    @property
    def strategy(self) -> Strategy:
        """The kind of exchange."""
        return Strategy.HASH_EXCHANGE if self.hash_tasks else Strategy.RANGE_EXCHANGE

    @property
    def text(self) -> str:
        """The attempt in words."""
        partitions = self.ranges.partitions
        by = [source for _, source in self.hash_keys]
        if not self.hash_tasks:
            by = [*(() if partitions is None else partitions.columns), self.key]
        sent = f", only {', '.join(self.key_only)} sent" if self.key_only else ""
        moved = ", an update is a delete and an insert" if self.update_as_delete_insert else ""
        return f"{self.strategy.text} by {', '.join(dict.fromkeys(by))}, {self.reader.value}{sent}{moved}"


@dataclass(frozen=True)
class SparkJoin:
    """Spark joins the source with a scan of the files."""

    strategy: ClassVar = Strategy.SPARK_JOIN
    reason: str
    filter: RowFilter = RowFilter.NONE

    @property
    def text(self) -> str:
        """The attempt in words."""
        return f"{self.strategy.text}{self.filter.value}"


@dataclass(frozen=True)
class RemoveFiles:
    """A DELETE of whole files: they leave the table, and none is opened."""

    strategy: ClassVar = Strategy.AUTO
    reason: str
    text: ClassVar = "files are removed"


@dataclass(frozen=True)
class EvaluateSource:
    """No attempt is left in which workers read the source's files: it is evaluated, and the plan is chosen again."""

    strategy: ClassVar = Strategy.AUTO
    reason: str
    text: ClassVar = "the source is evaluated, and the plan is chosen again"


Attempt = RemoveFiles | Broadcast | Exchange | SparkJoin | EvaluateSource


@dataclass(frozen=True)
class PhysicalPlan:
    """The ways to evaluate the source, none once it is evaluated; the attempts; and the strategies that are not tried, with the
    reasons.
    """

    readings: tuple[ReadingStep, ...]
    attempts: tuple[Attempt, ...]
    rejected: tuple[tuple[Strategy, str], ...] = ()

    @property
    def exchanges(self) -> bool:
        """Whether rows may be sent to tasks."""
        return any(isinstance(attempt, Exchange) for attempt in self.attempts)

    @property
    def collects(self) -> bool:
        """Whether the source is small: its rows are collected, by the first way to evaluate it."""
        return bool(self.readings) and self.readings[0].reading in (Reading.READ_FILES, Reading.COLLECT)

    def lines(self) -> Iterator[str]:
        """The plan in words."""
        for step in self.readings:
            yield f"source: {step.reading.value}, because {step.reason}"
        for number, attempt in enumerate(self.attempts, 1):
            yield f"{number}. {attempt.text}, because {attempt.reason}"
        for strategy, reason in self.rejected:
            yield f"no {strategy.text}: {reason}"


def following(rest: Sequence[Attempt], failed: Attempt, outcome: NotThisWay) -> tuple[Attempt, ...]:
    """The attempts that are left when one has ended: without those that would end in the same way."""
    left = tuple(rest)
    if isinstance(outcome, SourceUnreadable):
        return tuple(a for a in left if not (isinstance(a, Exchange) and a.reader is Reader.WORKERS))
    if isinstance(outcome, TooLarge | NotEvaluable) and isinstance(failed, Exchange):
        return tuple(a for a in left if not isinstance(a, Exchange))
    return left


def sized(count: int) -> str:
    """Bytes in words."""
    for unit in ("B", "KB", "MB"):
        if count < 1 << 10:
            return f"{count} {unit}"
        count >>= 10
    return f"{count} GB"
