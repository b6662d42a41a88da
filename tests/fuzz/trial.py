"""One target, tried for some minutes from what it has kept: `python -m tests.fuzz.trial MINUTES TARGET FILE`.

FILE has the input that is being tried, in case it ends the process.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

from tests.fuzz.corpus import keep, kept
from tests.fuzz.guided import fuzzed, smallest
from tests.fuzz.targets import TARGETS, Target

SEED = os.environ.get("DELTAMERGE_SEED")


def main(minutes: float, name: str, file: Path) -> None:
    """Try the target, say how it went, and keep what took new steps."""
    logging.disable(logging.CRITICAL)
    before = kept(name)
    found = fuzzed(_noted(TARGETS[name](), file), minutes * 60, int(SEED) if SEED else time.time_ns(), before)
    told = f"{len(found.steps)} steps, {len(found.corpus)} inputs with new ones, {len(before)} kept before"
    most = f"at most {found.slowest:.2f} s and {found.largest >> 10} kB, {len(found.wrong)} wrong"
    print(f"{name:16} {found.inputs:8} inputs, {told}, {most}")
    for error, data in found.wrong:
        print(f"    {error[:300]}\n    {data!r}")
    if not SEED and not found.wrong:
        keep(name, smallest(TARGETS[name](), [*before, *found.corpus]))
    sys.exit(bool(found.wrong))


def _noted(target: Target, file: Path) -> Target:
    def run(data: bytes) -> object:
        file.write_bytes(data)
        return target.run(data)

    return replace(target, run=run)


if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
