"""On a cluster whose executors have PyArrow but neither deltamerge nor its dependencies, merges run and end right."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.clustered import MODULES, STRATEGIES
from tests.faults.cluster import cluster, spark_home
from tests.faults.processes import Child

BLOCKER = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocker())
"""


@pytest.fixture
def executor_python(tmp_path: Path) -> Path:
    """This interpreter, where deltamerge and sqlglot can't be imported."""
    (tmp_path / "blocker").mkdir()
    (tmp_path / "blocker" / "sitecustomize.py").write_text(BLOCKER.format(blocked=MODULES[1:]))
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path}/blocker:$PYTHONPATH" exec "{sys.executable}" "$@"\n')
    wrapper.chmod(0o755)
    return wrapper


@pytest.fixture
def master(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A cluster of two workers: within the driver's JVM, or with `--cluster` processes of their own."""
    if not request.config.getoption("--cluster"):
        yield "local-cluster[2,1,1024]"
        return
    with cluster(tmp_path, ["127.0.0.1"] * 2) as url:
        yield url


@pytest.mark.classic
def test_executors_need_no_deltamerge(tmp_path: Path, executor_python: Path, master: str) -> None:
    environment = {
        "TEST_MASTER": master,
        "SPARK_HOME": str(spark_home(tmp_path)),
        "PYSPARK_PYTHON": str(executor_python),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    with Child("tests.e2e.clustered", tmp_path / "tables", folder=tmp_path / "child", environment=environment) as child:
        expected = {"pyarrow": "imported", "deltamerge": "ModuleNotFoundError", "sqlglot": "ModuleNotFoundError"}
        assert json.loads(child.hear()) == [expected, expected]
        for strategy in STRATEGIES:
            plain = "broadcast" if strategy == "auto" else strategy
            evaluated = "spark_join" if strategy == "spark_join" else "broadcast"
            for version, (rows, ran) in enumerate(((UPSERTED, plain), (DELETED, plain), (SYNCED, evaluated)), 2):
                found = json.loads(child.hear())
                assert found == {"strategy": strategy, "ran": ran, "version": version, "rows": [list(row) for row in rows]}


UPSERTED = [(id, "old" if id < 8 else "new") for id in range(24)]
DELETED = [row for row in UPSERTED if row[0] % 5]
SYNCED = [(id, f"sync{id}" if id < 12 else "gone") for id, _ in DELETED if id < 15]
