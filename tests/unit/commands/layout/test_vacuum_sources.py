"""What tells VACUUM LITE where to begin: a small file that anybody may have written."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltamerge.commands.layout.vacuum_sources import last_vacuum, removed_files
from deltamerge.errors import InvalidArgumentError
from deltamerge.log.replay.table import DeltaLog
from deltamerge.storage.local import LocalStore
from tests.unit.log.building import PROTOCOL, commit, info, log_file, metadata, remove

KEY = "latestCommitVersionOutsideOfRetentionWindow"
LATER = 1 << 60


def table(root: Path) -> DeltaLog:
    """A table of three commits, of which each but the first removes a file."""
    commit(root, 0, PROTOCOL, metadata())
    for version in (1, 2):
        commit(root, version, info(), remove(f"r{version}"))
    return DeltaLog(LocalStore(str(root)))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[" * 100_000,
        "5",
        "{}",
        *(f'{{"{KEY}": {value}}}' for value in ("-5", "true", '"1"', "1.0", "[]", "9" * 5_000, "null")),
        f'{{"{KEY}": 1, "x": "{"y" * (1 << 20)}"}}',
        "\udcff",
    ],
)
def test_a_damaged_file_is_passed_over(tmp_path: Path, text: str) -> None:
    log = table(tmp_path)
    log_file(tmp_path, "_last_vacuum_info").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert last_vacuum(log.store) is None
    found = removed_files(log, LATER, lambda name: False)
    assert ([file.name for file in found.files], found.last) == (["r1", "r2"], 2)


def test_it_begins_behind_the_version_that_is_told(tmp_path: Path) -> None:
    log = table(tmp_path)
    log_file(tmp_path, "_last_vacuum_info").write_text(f'{{"{KEY}": 1}}')
    assert [file.name for file in removed_files(log, LATER, lambda name: False).files] == ["r2"]


def test_a_hole_in_the_log_is_named(tmp_path: Path) -> None:
    log = table(tmp_path)
    log_file(tmp_path, f"{1:020d}.json").unlink()
    with pytest.raises(InvalidArgumentError, match="DELTA_CANNOT_VACUUM_LITE"):
        removed_files(log, LATER, lambda name: False)
