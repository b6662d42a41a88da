"""The blocks for Airflow and Dagster do what their page says, with stand-ins for what these packages do around them.

A shell runs cron's line.

With the packages themselves they were run by hand, as the page says.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import deltamerge
from tests.docs.examples import PLACE

PAGE = Path(__file__).parents[2] / "docs" / "integrations.md"
DAY = "2024-05-01"


@dataclass
class Result:
    metadata: dict[str, Any]


class Manager:
    def __init__(self, **settings: str) -> None:
        vars(self).update(settings)


def asset(function: Callable[..., Any] | None = None, **_: object) -> Any:
    return (lambda found: found) if function is None else function


def module(name: str, **names: Any) -> ModuleType:
    found = ModuleType(name)
    vars(found).update(names)
    return found


def run(package: str, place: Path) -> list[dict[str, Any]]:
    """The names that each block has which imports a package."""
    blocks = re.findall(
        r"<!-- not run: [^\n]+ -->\n```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    found: list[dict[str, Any]] = []
    for text in blocks:
        if f"import {package}" in text or f"from {package}" in text:
            found.append({"__name__": "__main__"})
            exec(text.replace(PLACE, str(place)), found[-1])
    return found


def test_airflow(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    returned: list[int] = []
    names = {"dag": lambda **_: lambda found: found, "task": lambda found: lambda: returned.append(found(DAY))}
    monkeypatch.setitem(sys.modules, "airflow", module("airflow"))
    monkeypatch.setitem(sys.modules, "airflow.sdk", module("airflow.sdk", **names))
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    (block,) = run("airflow", tmp_path)
    block["merge_orders"]()
    assert returned == [2, 0]
    assert sorted(map(tuple, deltamerge.read(spark, str(tmp_path / "daily_orders")).collect())) == [(1, DAY), (2, DAY)]


def test_dagster(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = dict.fromkeys(("AssetExecutionContext", "InputContext", "OutputContext"), SimpleNamespace)
    made = dict.fromkeys(("DailyPartitionsDefinition", "Definitions"), lambda *_, **__: None)
    own = {"asset": asset, "MaterializeResult": Result, "ConfigurableIOManager": Manager}
    monkeypatch.setitem(sys.modules, "dagster", module("dagster", **plain, **made, **own))
    merging, whole = run("dagster", tmp_path)
    context = SimpleNamespace(partition_key=DAY)
    assert [merging["orders"](context).metadata for _ in range(2)] == [
        {"affected": 2, "version": 1},
        {"affected": 0, "version": None},
    ]
    tables, at = (
        whole["tables"],
        {name: SimpleNamespace(asset_key=SimpleNamespace(path=["shop", name])) for name in ("days", "odd")},
    )
    tables.handle_output(at["days"], whole["days"]())
    tables.handle_output(at["odd"], whole["odd_days"](tables.load_input(at["days"])))
    assert sorted(row.day for row in deltamerge.read(spark, str(tmp_path / "dagster" / "shop" / "odd")).collect()) == [1, 3]


JOB = """
from pyspark.sql import SparkSession
from deltamerge.tables import DeltaTable

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
batch, orders = spark.read.parquet("batch.parquet").alias("s"), DeltaTable.forPath(spark, "orders").alias("t")
orders.merge(batch, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
spark.stop()
"""


@pytest.mark.classic
def test_cron(spark: SparkSession, tmp_path: Path) -> None:
    """With what cron gives to a shell. A job that fails ends with another code, and its log has the error."""
    (block,) = re.findall(r"^## cron$.*?^```\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    *given, line = block.strip().splitlines()
    names = dict(entry.split("=", 1) for entry in given)
    assert names.keys() == {"JAVA_HOME", "PYSPARK_PYTHON"}
    java = os.environ.get("JAVA_HOME") or str(Path(shutil.which("java") or "").resolve().parents[1])
    scripts = tmp_path / ".venv" / "bin"
    scripts.mkdir(parents=True)
    # A link to the program would look for its packages here.
    (scripts / "python").write_text(f'#!/bin/sh\nPYTHONPATH="{os.pathsep.join(sys.path)}" exec "{sys.executable}" "$@"\n')
    (scripts / "python").chmod(0o755)
    deltamerge.write(spark.createDataFrame([(1, "old"), (2, "old")], "id INT, w STRING"), str(tmp_path / "orders"))
    (tmp_path / "merge_orders.py").write_text(JOB)
    schedule, command = line[: line.index("cd ")], line[line.index("cd ") :]
    assert len(schedule.split()) == 5
    environment = {
        "HOME": str(tmp_path),
        "PATH": "/usr/bin:/bin",
        "SHELL": "/bin/sh",
        "JAVA_HOME": java,
        "PYSPARK_PYTHON": sys.executable,
    }
    command = command.replace("/opt/jobs", str(tmp_path))

    def job() -> int:
        return subprocess.run(["/bin/sh", "-c", command], env=environment, cwd="/", timeout=120, check=False).returncode

    assert job() != 0
    log = (tmp_path / "merge_orders.log").read_text()
    assert "PATH_NOT_FOUND" in log
    assert "batch.parquet" in log
    pq.write_table(pa.table({"id": pa.array([2, 3], pa.int32()), "w": ["new", "new"]}), tmp_path / "batch.parquet")
    assert job() == 0, (tmp_path / "merge_orders.log").read_text()[-2_000:]
    rows = sorted(map(tuple, deltamerge.read(spark, str(tmp_path / "orders")).collect()))
    assert rows == [(1, "old"), (2, "new"), (3, "new")]
