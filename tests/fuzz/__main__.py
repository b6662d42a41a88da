"""Fuzz each reader of bytes for some minutes of CPU: `python -m tests.fuzz MINUTES [target ..]`, two at a time.

It ends with an error when one fails. An input that went wrong is printed; it belongs into tests/fuzz/test_fuzz.py, with what
it found. With DELTAMERGE_SEED all runs are alike; else what took new steps is kept in tests/fuzz/corpus.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.fuzz.targets import TARGETS

_AT_ONCE = 2


def main(minutes: str, names: list[str]) -> None:
    """Try the targets, each in a process of its own."""
    failed = False
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for told, good in pool.map(lambda name: tried(name, minutes), names or TARGETS):
            print(told, flush=True)
            failed = failed or not good
    sys.exit(failed)


def tried(name: str, minutes: str) -> tuple[str, bool]:
    """How a target was tried, in words, and whether all went well."""
    with tempfile.TemporaryDirectory() as folder:
        last = Path(folder) / "input"
        command = [sys.executable, "-m", "tests.fuzz.trial", minutes, name, str(last)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        told = done.stdout.strip()
        if done.returncode not in (0, 1):
            data = last.read_bytes() if last.exists() else b""
            told += f"\n{name} ended the process with status {done.returncode}:\n    {data!r}"
    return told, done.returncode == 0


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
