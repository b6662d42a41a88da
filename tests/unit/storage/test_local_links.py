"""What a local store says of a link whose answer got lost."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from deltamerge.errors import CommitStateUnknownError
from deltamerge.storage import AlreadyExists
from deltamerge.storage.local import LocalStore


@pytest.mark.parametrize("code", [errno.EIO, errno.ETIMEDOUT, errno.ESTALE])
def test_a_link_without_a_clear_answer_may_come_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", fail)
    with pytest.raises(CommitStateUnknownError) as caught:
        LocalStore(str(tmp_path)).put_if_absent("a", b"x")
    assert caught.value.condition == "DELTAMERGE_COMMIT_STATE_UNKNOWN"
    assert caught.value.parameters == {"path": str(tmp_path / "a"), "errno": code}


@pytest.mark.parametrize("code", [errno.EIO, errno.EEXIST])
def test_a_link_that_was_made_counts_whatever_its_answer_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    link = os.link

    def linked(source: Path, target: Path) -> None:
        link(source, target)
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", linked)
    store = LocalStore(str(tmp_path))
    assert store.put_if_absent("a", b"x").size == 1
    with pytest.raises(AlreadyExists):
        store.put_if_absent("a", b"x")
