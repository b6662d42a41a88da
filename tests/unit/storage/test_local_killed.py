"""What a write that is killed leaves of its temporary file."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from deltamerge.errors import StorageError
from deltamerge.storage import local as module
from deltamerge.storage.local import LocalStore


def failing(code: int):
    def fail(*args: object, **kwargs: object) -> None:
        raise OSError(code, os.strerror(code))

    return fail


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("deletion_vector_1.bin", "deletion_vector_1.bin."),
        ("_delta_log/_last_checkpoint", "._last_checkpoint."),
        ("_symlink_format_manifest/manifest", ".manifest."),
    ],
)
def test_what_a_killed_write_leaves_of_a_data_file_is_not_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, begins: str
) -> None:
    """VACUUM takes what is not hidden; readers of manifests and of the log take visible files for their own."""
    with monkeypatch.context() as patch:
        patch.setattr(module.os, "replace", failing(errno.EIO))
        patch.setattr(Path, "unlink", failing(errno.EIO))
        with pytest.raises(StorageError):
            LocalStore(str(tmp_path)).put(name, b"x")
    (left,) = (tmp_path / name).parent.iterdir()
    assert left.name.startswith(begins)
    assert left.name.endswith(".tmp")
