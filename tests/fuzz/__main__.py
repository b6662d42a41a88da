"""Fuzz readers of bytes for some minutes of CPU, two at a time: `python -m tests.fuzz MINUTES [group or target ..]`.

The targets of a group share its minutes.

It ends with an error when one fails. An input that went wrong is printed; it belongs into tests/fuzz/test_fuzz.py, with what
it found. With DELTAMERGE_SEED all runs are alike; else what took new steps is kept in tests/fuzz/corpus.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.fuzz.targets import GROUPS

_AT_ONCE = 2


def main(minutes: float, names: list[str]) -> None:
    """Try the targets, each in a process of its own."""
    chosen = shares(minutes, names or list(GROUPS))
    failed = False
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for told, good in pool.map(tried, chosen, chosen.values()):
            print(told, flush=True)
            failed = failed or not good
    sys.exit(failed)


def shares(minutes: float, names: list[str]) -> dict[str, float]:
    """The minutes of each target that is named, by itself or by its group."""
    found: dict[str, float] = {}
    for name in names:
        targets = list(GROUPS.get(name, [name]))
        found |= dict.fromkeys(targets, minutes / len(targets))
    return found


def tried(name: str, minutes: float) -> tuple[str, bool]:
    """How a target was tried, in words, and whether all went well."""
    with tempfile.TemporaryDirectory() as folder:
        last = Path(folder) / "input"
        command = [sys.executable, "-m", "tests.fuzz.trial", str(minutes), name, str(last)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        told = done.stdout.strip()
        if done.returncode not in (0, 1):
            data = last.read_bytes() if last.exists() else b""
            told += f"\n{name} ended the process with status {done.returncode}:\n    {data!r}"
    return told, done.returncode == 0


if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2:])
