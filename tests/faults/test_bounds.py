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
STRATEGIES = {
    "sent_partitions": "range_exchange",
    "collected": "broadcast",
    "beyond": "range_exchange",
    "changed": "spark_join",
    "matched": "range_exchange",
}
# By how much Python's memory may grow, in MB, with room for what one run takes more than another.
GROWTH = {"removed": 2_200, "marked": 700} if ALL else {}
_GROWTH = 800 if ALL else 250


@pytest.fixture(scope="module")
def child(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    folder = tmp_path_factory.mktemp("bounds")
    with Child("tests.faults.bounds", folder / "tables", SHARE, folder=folder / "child") as child:
        assert child.hear() == "ready"
        yield child


def told(child: Child, case: str, times: int = 1) -> dict[str, Any]:
    """How a case ends, with limits that are so many times as high as they are."""
    child.tell(f"{case} {times}")
    found: dict[str, Any] = json.loads(child.hear())
    grown = (found["peak"] - found["before"]) // _MB
    print(json.dumps({**found, "grown": grown}))
    assert grown < GROWTH.get(case, _GROWTH)
    return found


@pytest.mark.parametrize("case", ROWS if ALL else ["sent_partitions", "collected", "beyond", "changed", "matched", "previewed"])
def test_merges_of_much_end_right(child: Child, case: str) -> None:
    found = told(child, case)
    assert (found.get("error"), found.get("rows")) == (None, ROWS[case]), found
    if case in STRATEGIES:
        assert found["strategy"] == STRATEGIES[case]
    assert found.get("shown", 0) < 100_000


@pytest.mark.parametrize("case", ["removed", "marked"])
def test_many_files_are_removed_or_marked_at_once(child: Child, case: str) -> None:
    found = told(child, case)
    assert (found.get("error"), found.get("rows")) == (None, found.get("wanted")), found
    assert found.get("total", True)


@pytest.mark.skipif(ALL, reason="the driver of 1 GB would have no memory left")
@pytest.mark.parametrize("case", ["beyond", "changed", "matched"])
def test_without_the_limits_the_driver_holds_all(child: Child, case: str) -> None:
    assert told(child, case, times=1_000)["strategy"] == "broadcast" != STRATEGIES[case]
