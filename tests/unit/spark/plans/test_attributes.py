"""Names of columns as PySpark reads them."""

from __future__ import annotations

import pytest

from deltamerge.errors import AnalysisError
from deltamerge.spark.plans.attributes import attribute_of, attribute_parts


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("n", ["n"]),
        ("t.n", ["t", "n"]),
        (" n ", [" n "]),
        ("t.a b", ["t", "a b"]),
        ("t.c-d", ["t", "c-d"]),
        ("`a.b`", ["a.b"]),
        ("t.`a.b`.x y", ["t", "a.b", "x y"]),
        ("`a``b`", ["a`b"]),
        ("n /* x */", ["n /* x */"]),
        ("größe", ["größe"]),
        ("``", [""]),
        ("", [""]),
    ],
)
def test_parts(name: str, parts: list[str]) -> None:
    assert attribute_parts(name) == parts
    assert attribute_parts(attribute_of(parts)) == parts


@pytest.mark.parametrize("name", ["`n", "n`", "a`b", "t..n", ".n", "n.", "`a`b", "`a`.", "```"])
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(AnalysisError) as raised:
        attribute_parts(name)
    assert raised.value.condition == "INVALID_ATTRIBUTE_NAME_SYNTAX"
