"""A worker's folder: files are made in folders that need not exist, and deleted without complaint."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from deltamerge.worker.scan.store import DataStore
from tests.unit.worker.data import data_files, store_at


def create(store: DataStore, name: str, data: bytes) -> None:
    with store.create(name) as sink:
        sink.write(data)


def test_a_file_is_made_with_its_folders_and_read_back(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    create(store, "p=a%2Fb/q=é/part", b"abc")
    create(store, "p=a%2Fb/q=é/part-2", b"")
    assert data_files(tmp_path) == ["p=a%2Fb/q=é/part", "p=a%2Fb/q=é/part-2"]
    with store.open("p=a%2Fb/q=é/part") as source:
        assert source.read() == b"abc"


def test_the_modification_time_in_milliseconds(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    create(store, "part", b"abc")
    os.utime(tmp_path / "part", (1_600_000_000.25, 1_600_000_000.25))
    assert store.modified("part") == 1_600_000_000_250
    create(store, "part", b"abcd")
    assert abs(store.modified("part") - time.time() * 1000) < 60_000


def test_deleting_removes_the_file_and_does_not_mind_if_it_is_gone(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    create(store, "part", b"abc")
    store.delete("part")
    store.delete("part")
    assert data_files(tmp_path) == []


@pytest.mark.timeout(20)
def test_a_pipe_is_no_file_and_nobody_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "part")
    # With a writer there, whoever does open the pipe comes back: nothing ends a process that waits within C++.
    writer = os.open(tmp_path / "part", os.O_RDWR)
    try:
        with pytest.raises(FileNotFoundError, match="pipe"):
            store_at(tmp_path).open("part")
    finally:
        os.close(writer)


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        store_at(tmp_path).open("part")


def test_options_never_show() -> None:
    assert "secret" not in repr(DataStore("file", "/table", {"key": "secret"}))
