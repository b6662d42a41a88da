"""`hashes.txt` has what `constraints.txt` pins, each with the hashes of its files, and names no index."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def name_of(text: str) -> str:
    """A package's name as the index compares it."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\s\[<>=!~;]", text)[0]).lower()


@pytest.fixture(scope="module")
def hashed() -> dict[str, tuple[str, list[str]]]:
    """By package: its version, and the hashes of its files."""
    text = (ROOT / "hashes.txt").read_text(encoding="utf-8").replace("\\\n", "")
    found = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            pin, *hashes = line.split()
            name, version = pin.split("==")
            found[name_of(name)] = (version, hashes)
    return found


def test_each_package_has_hashes_of_the_pinned_version(hashed: dict[str, tuple[str, list[str]]]) -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    pinned = {name_of(name): version for name, version in (line.split("==") for line in lines)}
    assert {name: version for name, (version, _) in hashed.items() if name != "pyspark"}.items() <= pinned.items()
    for name, (_, hashes) in hashed.items():
        assert hashes, name
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", each) for each in hashes), name
        assert len(set(hashes)) == len(hashes), name


def test_all_that_the_tests_need_is_there(hashed: dict[str, tuple[str, list[str]]]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = {name_of(each) for each in (*project["dependencies"], *(each for extra in extras.values() for each in extra))}
    assert wanted - {"deltamerge"} <= hashed.keys()


def test_no_index_is_named() -> None:
    text = (ROOT / "hashes.txt").read_text(encoding="utf-8")
    assert not re.search(r"https?:|index-url|trusted-host|find-links", text)
