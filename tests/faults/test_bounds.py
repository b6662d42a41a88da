"""What reaches the driver is bounded: one of 1 GB that takes results of 100 MB carries out merges with far more than that."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.effort import ALL
from tests.faults.processes import Child

pytestmark = [
    pytest.mark.classic,  # the driver of Connect is the server: what reaches it is the same
    pytest.mark.skipif(sys.platform != "linux", reason="memory is looked up in /proc"),
]
SHARE = 1.0 if ALL else 0.02
_MB = 1 << 20
# What a case must have changed, and by which strategies it may, where all of it is run.
ROWS = {
    "partitions": 20_000,
    "sent_partitions": 20_000,
    "collected": int(19_000 * SHARE),
    "beyond": int(40_000 * SHARE),
    "changed": int(30_000 * SHARE),
    "matched": int(3_000_000 * SHARE),
    "previewed": 96,
}
STRATEGIES = {"collected": "broadcast", "beyond": "range_exchange", "changed": "spark_join", "matched": "range_exchange"}


@pytest.fixture(scope="module")
def child(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    folder = tmp_path_factory.mktemp("bounds")
    with Child("tests.faults.bounds", folder / "tables", SHARE, folder=folder / "child") as child:
        assert child.hear() == "ready"
        yield child


def told(child: Child, case: str) -> dict[str, Any]:
    child.tell(case)
    found: dict[str, Any] = json.loads(child.hear())
    print(json.dumps({**found, "grown": (found["peak"] - found["before"]) // _MB}))
    return found


@pytest.mark.parametrize("case", ROWS if ALL else ["changed", "previewed"])
def test_merges_of_much_end_right(child: Child, case: str) -> None:
    found = told(child, case)
    assert (found.get("error"), found.get("rows")) == (None, ROWS[case]), found
    if ALL and case in STRATEGIES:
        assert found["strategy"] == STRATEGIES[case]
    assert found.get("shown", 0) < 100_000


@pytest.mark.parametrize("case", ["removed", "marked"] if ALL else ["marked"])
def test_many_files_are_removed_or_marked_at_once(child: Child, case: str) -> None:
    found = told(child, case)
    assert (found.get("error"), found.get("rows")) == (None, found.get("wanted")), found
    assert found.get("total", True)
