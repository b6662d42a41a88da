"""What the wheel and its extras for users bring along may be used by anybody, in products too: their licences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution

import pytest
from packaging.requirements import Requirement

from deltamerge.spark.pyspark.older import IS_OLDER

EXTRAS = ("cli", "connect", "pyspark")
FREE = {"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "PSF-2.0", "Zlib"}
# Of packages that tell it in words of their own, by what they say in their metadata.
WORDS = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
}


def needed(name: str, extras: tuple[str, ...], seen: set[str]) -> Iterator[Distribution]:
    """The packages that one asks for, and those that these ask for."""
    for text in distribution(name).requires or ():
        wanted = Requirement(text)
        if wanted.marker is not None and not any(wanted.marker.evaluate({"extra": extra}) for extra in extras):
            continue
        key = str(wanted.name).lower()
        if key in seen:
            continue
        seen.add(key)
        try:
            yield distribution(wanted.name)
        except PackageNotFoundError:  # an extra of Connect that this environment's PySpark does without
            continue
        yield from needed(wanted.name, ("", *wanted.extras), seen)


def licences(found: Distribution) -> set[str]:
    """The licences of a package as SPDX names them, or in its own words."""
    told = found.metadata
    if told.get("License-Expression"):
        return set(re.split(r" AND | OR |[()]", told["License-Expression"])) - {""}
    named = [text.split(" :: ")[-1] for text in told.get_all("Classifier") or () if text.startswith("License ::")]
    named = named or (told.get("License") or "unknown").splitlines()[:1]
    return {WORDS.get(name, name) for name in named}


FOUND = {found.metadata["Name"]: found for found in needed("deltamerge", ("", *EXTRAS), {"deltamerge"})}


@pytest.mark.parametrize("name", sorted(FOUND))
def test_the_licence_is_free(name: str) -> None:
    assert licences(FOUND[name]) <= FREE


def test_all_that_is_declared_is_looked_at() -> None:
    names = {name.lower() for name in FOUND}
    assert {"numpy", "obstore", "pandas", "pyarrow", "sqlglot", "rich", "typer"} <= names
    assert IS_OLDER or {"grpcio", "protobuf", "pyspark", "py4j"} <= names


def test_another_licence_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Distribution, "metadata", property(lambda _: _Told({"License-Expression": "MIT AND GPL-3.0-only"})))
    assert not licences(FOUND["numpy"]) <= FREE
    monkeypatch.setattr(Distribution, "metadata", property(lambda _: _Told({"License": "Ask us"})))
    assert not licences(FOUND["numpy"]) <= FREE


class _Told(dict[str, str]):
    def get_all(self, _: str) -> list[str]:
        return []
