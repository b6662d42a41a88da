"""What has a name on the disk and is no file: nobody waits for it, nor takes it for one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deltamerge.storage import NotFound
from deltamerge.storage.local import LocalStore


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(str(tmp_path))


@pytest.mark.timeout(20)
def test_a_pipe_is_no_file_and_nobody_waits_for_it(tmp_path: Path, store: LocalStore) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NotFound, match="pipe"):
        store.read("pipe")
    with pytest.raises(NotFound, match="pipe"):
        store.read("pipe", 10)
    assert store.list("") == []


def test_a_link_to_itself_leads_to_no_file(tmp_path: Path, store: LocalStore) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "link")
    with pytest.raises(NotFound, match="link"):
        store.read("link")
    assert store.info("link") is None
    assert store.list("") == []


def test_a_folder_has_no_info(tmp_path: Path, store: LocalStore) -> None:
    (tmp_path / "folder").mkdir()
    assert store.info("folder") is None
