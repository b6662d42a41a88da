"""Runs README.md's blocks below the folder that is given, with what is installed in this environment and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))

from tests.docs.examples import difference, run_page  # noqa: E402 - found by the line above

README = ROOT / "README.md"
wrong = [difference(README, example, printed) for example, printed in run_page(README, Path(sys.argv[1]))]

import deltamerge  # noqa: E402 - README has to import it first

assert Path(deltamerge.__file__).is_relative_to(sys.prefix), deltamerge.__file__
assert len(wrong) > 3
if any(wrong):
    sys.exit("\n".join(wrong))
