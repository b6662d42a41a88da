"""How far a statement is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from deltamerge.display.views import counted, size_text


@dataclass(frozen=True, slots=True)
class Amount:
    """What a step goes through: files, their bytes and rows. 0 is none, or not known."""

    files: int = 0
    bytes: int = 0
    rows: int = 0

    def part(self, share: float) -> Amount:
        """A share of it."""
        return Amount(int(self.files * share), int(self.bytes * share), int(self.rows * share))

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.files + other.files, self.bytes + other.bytes, self.rows + other.rows)

    def at_least(self, other: Amount) -> Amount:
        """The larger of each number."""
        return Amount(max(self.files, other.files), max(self.bytes, other.bytes), max(self.rows, other.rows))


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the `step` of an `operation` (MERGE, OPTIMIZE, ..) on a `table` is.

    `done` of `total` are the files, bytes and rows of the step, `tasks` of `all_tasks` those of its Spark jobs, each 0 where it
    is not known. While a job runs, `done` is the share of the tasks that have ended. `elapsed` are the seconds since the
    operation began, `remaining` about the seconds up to the end of the step, None where nothing tells them.
    """

    operation: str
    table: str
    step: str
    done: Amount = Amount()
    total: Amount = Amount()
    tasks: int = 0
    all_tasks: int = 0
    elapsed: float = 0.0
    remaining: float | None = None

    @property
    def share(self) -> float | None:
        """The share of the step that is done, from 0 to 1; None where nothing tells it."""
        pairs = ((self.done.bytes, self.total.bytes), (self.done.files, self.total.files), (self.tasks, self.all_tasks))
        return next((min(1.0, done / total) for done, total in pairs if total), None)

    def __str__(self) -> str:
        return ", ".join((f"{self.operation}: {self.step}", *self.figures()))

    def figures(self) -> Iterator[str]:
        """The numbers that are known, in words."""
        if self.total.files:
            yield f"{self.done.files:,} of {counted(self.total.files, 'file')}"
        elif self.all_tasks:
            yield f"{self.tasks:,} of {counted(self.all_tasks, 'task')}"
        if self.total.bytes:
            yield f"{size_text(self.done.bytes)} of {size_text(self.total.bytes)}"
        if self.done.rows:
            yield counted(self.done.rows, "row")
        yield seconds_text(self.elapsed)
        if self.remaining is not None:
            yield f"about {seconds_text(self.remaining)} left"


def seconds_text(seconds: float) -> str:
    """A time for people: 4 s, 2:05, 1:00:09."""
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02d}:{rest:02d}"
    return f"{minutes}:{rest:02d}" if minutes else f"{rest} s"
