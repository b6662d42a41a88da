"""Fuzz each reader of bytes for some minutes: `python -m tests.fuzz MINUTES [target ..]`. Ends with an error when one fails.

An input that went wrong is printed; it belongs into tests/fuzz/test_fuzz.py, with what it found.
"""

from __future__ import annotations

import logging
import sys
import time

from tests.fuzz.guided import fuzzed
from tests.fuzz.targets import TARGETS


def main(minutes: float, names: list[str]) -> None:
    """Try the targets one after the other."""
    logging.disable(logging.CRITICAL)
    failed = False
    for name in names or TARGETS:
        found = fuzzed(TARGETS[name](), minutes * 60, time.time_ns())
        told = f"{len(found.lines)} lines, {len(found.corpus)} kept, at most {found.slowest:.2f} s and {found.largest >> 10} kB"
        print(f"{name:16} {found.inputs:8} inputs, {told}, {len(found.wrong)} wrong", flush=True)
        for error, data in found.wrong:
            print(f"    {error[:300]}\n    {data!r}", flush=True)
        failed = failed or bool(found.wrong)
    sys.exit(failed)


if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2:])
