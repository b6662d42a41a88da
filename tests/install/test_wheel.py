"""The wheel follows from the sources alone: who builds it again gets the same bytes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def built(folder: Path, modified: int, mode: int, zone: str) -> bytes:
    """The wheel of a copy of the sources in this folder, with these times and permissions."""
    copy = folder / "sources"
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    for path in filter(Path.is_file, copy.rglob("*")):
        path.chmod(mode)
        os.utime(path, (modified, modified))
    command = [sys.executable, "-m", "pip", "--quiet", "wheel", "--no-deps", "--wheel-dir", str(folder), str(copy)]
    subprocess.run(command, env={**os.environ, "TZ": zone}, umask=0o777 & ~(mode | 0o100), check=True)
    (wheel,) = folder.glob("deltamerge-*.whl")
    return wheel.read_bytes()


def test_two_builds_have_the_same_bytes(tmp_path: Path) -> None:
    """In folders of other depth, with other times, permissions and zones."""
    first = built(tmp_path / "one", 1_600_000_000, 0o644, "Asia/Tokyo")
    assert first == built(tmp_path / "another" / "below", 1_700_000_000, 0o600, "America/New_York")
