"""Data files by name: opened for reading, created under new names, deleted when a task fails."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.fs as pf


@dataclass(frozen=True)
class DataStore:
    """The folder of a table as a worker reaches it. `options` never appear in a repr."""

    scheme: str
    root: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def _place(self, name: str) -> tuple[Any, str]:
        return pf.LocalFileSystem(), f"{self.root}/{name}"

    def open(self, name: str) -> Any:
        """The file for random reading."""
        system, path = self._place(name)
        return system.open_input_file(path)

    def create(self, name: str) -> Any:
        """A new file for writing; its folder is made when it is not there."""
        system, path = self._place(name)
        folder = path.rpartition("/")[0]
        with contextlib.suppress(FileExistsError):
            system.create_dir(folder, recursive=True)
        return system.open_output_stream(path)

    @contextlib.contextmanager
    def naming(self, name: str) -> Iterator[None]:
        """What the file system refuses within comes out with the file's path."""
        try:
            yield
        except OSError as error:
            if error.errno is None or error.filename is not None:
                raise
            raise OSError(error.errno, error.strerror, f"{self.root}/{name}") from error

    def size_and_time(self, name: str) -> tuple[int, int]:
        """Size in bytes and modification time in ms of a file that was just written."""
        system, path = self._place(name)
        info = system.get_file_info(path)
        modified = info.mtime_ns // 1_000_000 if info.mtime_ns else int(time.time() * 1000)
        return info.size, modified

    def delete(self, name: str) -> None:
        """Remove a file, if it can be."""
        system, path = self._place(name)
        with contextlib.suppress(OSError, pa.ArrowException):
            system.delete_file(path)
