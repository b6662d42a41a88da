"""Put each break into a copy of the code, run its tests, and say whether they failed: `python -m tests.mutants [name ..]`.

Tests that `make test` runs on some days only are left out: a break is killed on each day, or it counts as survived. It ends with
an error when the tests of some break passed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutants.base import Break
from tests.mutants.breaks import BREAKS

ROOT = Path(__file__).parents[2]
KILLED, SURVIVED, BROKEN, HUNG = "killed", "SURVIVED", "CANNOT RUN", "HUNG"
_AT_ONCE = 2
_SECONDS = 120


def main(names: list[str]) -> None:
    """Try the breaks whose names begin with one of these, all of them for none."""
    chosen = [item for item in BREAKS if not names or item.name.startswith(tuple(names))]
    if not chosen:
        sys.exit(f"no break has a name that begins with {' or '.join(names)}")
    started = time.monotonic()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        ends = []
        for item, end in zip(chosen, pool.map(tried, chosen), strict=True):
            print(f"{end:10}  {item.path}: {item.name}", flush=True)
            ends.append(end)
    print(f"{ends.count(KILLED)} of {len(ends)} killed in {time.monotonic() - started:.0f} s")
    sys.exit(any(end != KILLED for end in ends))


def tried(item: Break) -> str:
    """How the tests of a break ended."""
    with tempfile.TemporaryDirectory() as folder:
        source = shutil.copytree(ROOT / "src", Path(folder) / "src", ignore=shutil.ignore_patterns("__pycache__"))
        path = source / "deltamerge" / item.path
        path.write_text(path.read_text(encoding="utf-8").replace(item.old, item.new), encoding="utf-8")
        tests = [f"tests/unit/{test}" for test in item.tests.split()]
        flags = ["-x", "-q", "-p", "no:cacheprovider", "--basetemp", f"{folder}/tests", "--timeout", str(_SECONDS)]
        try:
            done = subprocess.run(
                [sys.executable, "-m", "pytest", *flags, *tests],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1", "DELTAMERGE_TEST_SLOW": "never"},
                capture_output=True,
                check=False,
                timeout=2 * _SECONDS,
            )
        except subprocess.TimeoutExpired:
            return HUNG
    # 1: tests failed, 2: they could not be collected, as a name that the code has lost shows.
    return {0: SURVIVED, 1: KILLED}.get(done.returncode, BROKEN)


if __name__ == "__main__":
    main(sys.argv[1:])
