"""What a merge costs in counts that don't depend on the machine: jobs, reads, writes, requests to the log."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from deltamerge.storage.local import LocalStore
from deltamerge.worker.scan.store import DataStore
from tests.live import ship_live_code

REQUESTS = ("list", "read", "info", "exists_folder")


class Counts(NamedTuple):
    """`jobs` of Spark; data and vector files `opened`, `groups` (row groups) and `chunks` (columns of row groups) read, KiB
    read of them with their footers; `files` written besides the log and their KiB; `requests` to list or read the log."""

    jobs: int
    opened: int
    groups: int
    chunks: int
    read: int
    files: int
    written: int
    requests: int


class Ledger:
    """Counts what happens while it is `open`."""

    def __init__(self, spark: SparkSession, folder: Path, table: Path) -> None:
        self._spark = spark
        self._notes = folder / "ledger"
        self._table = table
        self._requests = 0
        self._jobs = 0
        self._before: set[Path] = set()

    @contextmanager
    def open(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Count until it is left."""
        self._jobs, self._before = jobs_of(self._spark), self._files()
        with monkeypatch.context() as patch:
            ship_live_code(patch)
            patch.setattr(DataStore, "open", noting(str(self._notes), DataStore.open))
            for name in REQUESTS:
                patch.setattr(LocalStore, name, self._counting(getattr(LocalStore, name)))
            yield
        self._jobs = jobs_of(self._spark) - self._jobs

    def counts(self) -> Counts:
        """What was counted."""
        lines = self._notes.read_text().splitlines() if self._notes.exists() else []
        notes = [json.loads(line) for line in lines]
        reads = [(name, offset, size) for name, offset, size in notes if size is not None]
        chunks = {chunk for name, offset, size in reads for chunk in _chunks(self._table / name, offset, size)}
        new = [file for file in self._files() - self._before if "_delta_log" not in file.parts]
        return Counts(
            jobs=self._jobs,
            opened=len(notes) - len(reads),
            groups=len({(name, group) for name, group, _ in chunks}),
            chunks=len(chunks),
            read=-(-sum(size for _, _, size in reads) // 1024),
            files=len(new),
            written=-(-sum(file.stat().st_size for file in new) // 1024),
            requests=self._requests,
        )

    def _counting(self, original: Any) -> Any:
        def counted(store: LocalStore, *arguments: Any) -> Any:
            self._requests += 1
            return original(store, *arguments)

        return counted

    def _files(self) -> set[Path]:
        return {file for file in self._table.rglob("*") if file.is_file()}


def jobs_of(spark: SparkSession) -> int:
    """The jobs submitted so far, by whichever thread; on Connect none are seen."""
    context: Any = getattr(spark, "_jsc", None)
    return int(context.sc().dagScheduler().numTotalJobs()) if context else 0


def noting(notes: str, original: Any) -> Any:
    """`DataStore.open` that notes each opened file of the table and its reads, here or, shipped by value, in a worker."""

    def opened(store: Any, name: str) -> Any:
        import json
        import os

        import pyarrow as pa

        def note(*facts: Any) -> None:
            handle = os.open(notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(handle, (json.dumps(facts) + "\n").encode())
            os.close(handle)

        class Noted:
            def __init__(self, source: Any) -> None:
                self.seek, self.tell, self.close = source.seek, source.tell, source.close
                self._source = source

            @property
            def closed(self) -> bool:
                return bool(self._source.closed)

            def read(self, size: int = -1) -> bytes:
                offset = self._source.tell()
                found: bytes = self._source.read(size)
                note(name, offset, len(found))
                return found

        if not store.root:  # of a source, outside the table
            return original(store, name)
        note(name, 0, None)
        return pa.PythonFile(Noted(original(store, name)), mode="r")

    return opened


def _chunks(path: Path, offset: int, size: int) -> Iterator[tuple[str, int, str]]:
    """The column chunks of a Parquet file that a read touches, but for the read of the footer: file, row group, column."""
    if path.suffix != ".parquet" or offset + size == os.path.getsize(path):
        return
    metadata = pq.read_metadata(path)
    for group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            column = metadata.row_group(group).column(number)
            starts = [at for at in (column.dictionary_page_offset, column.data_page_offset) if at]
            if offset < min(starts) + column.total_compressed_size and min(starts) < offset + size:
                yield path.name, group, column.path_in_schema


def rises(found: Counts, bounds: Counts) -> dict[str, tuple[int, int]]:
    """The counts above their bounds: what was found, and the bound. KiB may be a twentieth more: pyarrow's versions differ."""
    both = zip(Counts._fields, found, bounds, strict=True)
    room = {"read": 1.05, "written": 1.05}
    return {name: (count, bound) for name, count, bound in both if count > bound * room.get(name, 1)}
