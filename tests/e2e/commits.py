"""Commit files as other writers leave them."""

from __future__ import annotations

from pathlib import Path


def put_commit(file: Path, text: str) -> None:
    """Write a commit file by hand, without the checksum file of the one that was there."""
    file.write_text(text)
    file.with_suffix(".crc").unlink(missing_ok=True)
