"""Many merges in a row in one session and one table: memory and files stay what they are. `make soak` runs 2,000 of them."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.effort import ALL
from tests.faults.processes import Child

pytestmark = [
    pytest.mark.classic,  # what grows would grow on Connect, too
    pytest.mark.skipif(sys.platform != "linux", reason="memory is looked up in /proc"),
    pytest.mark.skipif(not (ALL or "DELTAMERGE_SOAK_MERGES" in os.environ), reason="make soak runs it"),
]
MERGES = int(os.environ.get("DELTAMERGE_SOAK_MERGES", "40"))
SAID = 10 if MERGES < 500 else 20
_MB = 1 << 20
# What a thousand merges may add, where they are many enough for a slope: what memory goes up and down by between two looks.
SLOPES = {"driver": 10 * _MB, "heap": 15 * _MB, "workers": 8 * _MB, "threads": 0.5, "open": 0.5, "files": 4}


@pytest.mark.timeout(0)
def test_memory_and_files_stay_what_they_are(tmp_path: Path) -> None:
    with Child("tests.faults.many_merges", tmp_path, MERGES, SAID, folder=tmp_path / "child") as child:
        lines = [json.loads(child.hear()) for _ in range(MERGES // SAID)]
        end = json.loads(child.hear())
    print(*(json.dumps(line) for line in (*lines[:1], *lines[4 :: max(1, len(lines) // 20)], lines[-1])), sep="\n")
    assert [end["rows"], end["total"]] == end["expected"]
    assert max(line["files"] for line in lines) <= 60, "small files are compacted when there are 50"
    assert max(line["log"] for line in lines) <= 2.5 * MERGES + 30, "a commit and its checksum each, and a checkpoint each ten"
    settled = lines[len(lines) // 4 :]
    slopes = {name: _slope(name, settled) for name in (*SLOPES, "java")}
    print({name: round(slope / _MB if abs(slope) > _MB / 10 else slope, 2) for name, slope in slopes.items()}, "per 1,000 merges")
    if MERGES >= 500:
        assert not {name: slopes[name] for name, most in SLOPES.items() if slopes[name] > most}


def _slope(name: str, lines: list[dict[str, int]]) -> float:
    """By how much it grows in a thousand merges."""
    if len(lines) < 2:
        return 0.0
    return 1_000 * float(np.polyfit([line["merges"] for line in lines], [line[name] for line in lines], 1)[0])
