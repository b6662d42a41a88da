"""What plans the batches of a stream, beside Spark's driver: offsets in, offsets and tasks out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deltamerge.log.stream.offset import Offset
from deltamerge.log.stream.options import StreamOptions
from deltamerge.log.stream.schemas import Analyzed
from deltamerge.log.stream.source import TableStream
from deltamerge.spark.stages.changed import Places, changed_tasks
from deltamerge.spark.stages.scan import pack
from deltamerge.spark.stream.store import PlannerStore
from deltamerge.worker.scan.scan import FileTask


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """All that a planner has to know of the table and of what the stream was told."""

    store: PlannerStore
    analyzed: Analyzed
    options: StreamOptions
    zone: str


class Planner:
    """The offsets and tasks of one query. What it keeps it only keeps to be fast, but for the place where the last batch ended.

    Before PySpark 4.2 Spark does not say where a batch begins when it asks for its end.
    """

    def __init__(self, spec: StreamSpec) -> None:
        self._spec = spec
        self._source = TableStream(spec.store, spec.analyzed, spec.options, spec.store.data.remote)  # type: ignore[arg-type]
        self._last: Offset | None = None

    def start(self) -> dict[str, Any]:
        """Where a query without a checkpoint begins."""
        return self._source.start().to_json()

    def bound(self) -> None:
        """End with what is there when the next offset is asked for."""
        self._source.bound()

    def end(self, start: Mapping[str, Any], limited: bool) -> dict[str, Any]:
        """Where the batch from `start` on ends."""
        begin = self._source.parsed(start)
        found = self._source.latest(begin, limited)
        return dict(start) if found == begin else found.to_json()

    def next_end(self) -> dict[str, Any]:
        """Where the batch after the last one ends; without limits that were told it takes all there is."""
        begin = self._last or self._source.start()
        self._last = self._source.latest(begin, self._spec.options.is_limited)
        return self._last.to_json()

    def tasks(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[list[FileTask]]:
        """The files between two offsets, as tasks for workers."""
        until = self._source.parsed(end)
        if self._last is None or self._last.place < until.place:
            self._last = until
        files = self._source.files(self._source.parsed(start), until)
        places = Places(self._spec.store.place, self._spec.store.vector)
        feed = self._spec.options.feed
        tasks = changed_tasks(files, self._spec.analyzed.schema, self._spec.zone, places, feed)
        return pack(tasks, [file.size for file in files]) if tasks else []
