"""Random merges end as delta-spark's do: same rows, same schema, same counters, errors where it has errors.

Each state of the repository has fresh seeds, so that a run can be had again; `--seed` runs one merge again,
`python -m tests.oracle.fuzz --seed N --shrink` makes it small.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.effort import ALL
from tests.oracle.difference import difference
from tests.oracle.random_merges import make_merge

COUNT = 100 if ALL else 25


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    given = metafunc.config.getoption("--seed")
    first = int(os.environ.get("DELTAMERGE_SEED") or _fresh())
    metafunc.parametrize("seed", [given] if given is not None else range(first, first + COUNT))


def _fresh() -> int:
    """A seed that follows from all files of the last commit; from the time where there is no repository."""
    asked = ["git", "rev-parse", "HEAD^{tree}"]
    tree = subprocess.run(asked, capture_output=True, text=True, cwd=Path(__file__).parent, check=False)
    return int(tree.stdout[:8], 16) if tree.returncode == 0 else int(time.time())


def test_merge_equals_delta_spark(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    merge = make_merge(seed)
    problem = difference(spark, merge, tmp_path)
    assert problem is None, f"run again with --seed {seed}\n{merge}\n{problem}"
