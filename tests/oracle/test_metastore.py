"""Tables that delta-spark made in a Hive metastore are merged into by name, in a session without delta-spark's JAR."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.faults.processes import Child
from tests.oracle.metastore import NAMES

PEOPLE = [[1, "a", 11], [2, "b", 21]]
ERRORS = {
    "forName files": "DELTA_MISSING_DELTA_TABLE",
    "forName numbers": "DELTA_MISSING_DELTA_TABLE",
    "forName everyone": "DELTA_MISSING_DELTA_TABLE",
    "forName peeple": "DELTA_MISSING_DELTA_TABLE",
    "into files": "DELTA_TABLE_ONLY_OPERATION",
    "using files": "DELTA_INVALID_FORMAT",
    "into peeple": "TABLE_OR_VIEW_NOT_FOUND",
    # A view keeps the settings that it was made with, delta-spark's catalog among them.
    "using everyone": "CANNOT_LOAD_CATALOG.PLUGIN_CLASS_NOT_FOUND",
    "set from a query over everyone": "CANNOT_LOAD_CATALOG.PLUGIN_CLASS_NOT_FOUND",
    "using a query over everyone": "CANNOT_LOAD_CATALOG.PLUGIN_CLASS_NOT_FOUND",
}


@pytest.mark.timeout(900)
def test_tables_of_a_metastore_need_no_jar(tmp_path: Path) -> None:
    pytest.importorskip("delta", reason="delta-spark is not installed: run `make oracle`")
    with Child("tests.oracle.metastore", "make", tmp_path, folder=tmp_path / "child") as child:
        assert json.loads(child.hear()) is None
    with Child("tests.oracle.metastore", "classic", tmp_path, folder=tmp_path / "child") as child:
        found = json.loads(child.hear())
    assert found["read"] == dict(
        zip(NAMES, [PEOPLE] * 3 + [[[2, "B", 200], [3, "C", 300]], [[1, "x"], [2, "y"]], [[1, 1], [2, 2]], []], strict=True)
    )
    assert found["both by database"] == [[1, "a", 11], [2, "b", 221]]
    assert found["builder"] == [[1, "a", 11], [2, "b", 226]]
    assert found["queries"] == [[1, 10], [2, 300]]
    assert found["partitions"] == [[2, "C"]]
    assert found["errors"] == ERRORS
    assert found["folders"] == ["a place%20"]
    with Child("tests.oracle.metastore", "connect", tmp_path, folder=tmp_path / "child") as child:
        again = json.loads(child.hear())
    assert again["builder"] == [[1, "a", 11], [2, "b", 431]]
    assert again["queries"] == [[1, 10], [2, 20]]  # its row of `parts` has moved to another partition
    assert again["errors"] == ERRORS
