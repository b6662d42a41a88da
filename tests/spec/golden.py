"""The golden tables of the Delta Lake project, unpacked where a test wants them."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

_ABOVE = Path(__file__).resolve().parents[3:]
FOLDER = next((above / "shared" / "golden" for above in _ABOVE if (above / "shared" / "golden").is_dir()), _ABOVE[0] / "none")
SUFFIX = ".tar.zst"


def golden_names() -> list[str]:
    """The names of the tables; empty where the folder is absent."""
    return sorted(path.name.removesuffix(SUFFIX) for path in FOLDER.glob(f"*{SUFFIX}"))


def unpack(name: str, target: Path) -> Path:
    """Unpack a table below `target`; the folder of the table, which need not exist."""
    if not FOLDER.is_dir():
        pytest.skip("the folder ../shared/golden is absent")
    zstandard = pytest.importorskip("zstandard", reason="zstandard is not installed")
    with (
        (FOLDER / f"{name}{SUFFIX}").open("rb") as file,
        zstandard.ZstdDecompressor().stream_reader(file) as stream,
        tarfile.open(fileobj=stream, mode="r|") as archive,
    ):
        archive.extractall(target, filter="data")
    found = next((path for path in target.rglob("delta") if path.is_dir()), None)
    return found if found is not None else target / name / "delta"
