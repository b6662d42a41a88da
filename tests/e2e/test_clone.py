"""Tables whose log names files of another table by their whole paths, as shallow clones do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.log.replay.table import open_log
from deltamerge.tables import DeltaTable
from tests.e2e.tables import source

pytestmark = pytest.mark.local(reason="the clone is made with files")


def clone(original: Path, path: Path, spelling: str) -> None:
    """A table at `path` with the files of the one at `original`."""
    log = path / "_delta_log"
    log.mkdir(parents=True)
    actions = [json.loads(line) for line in (original / "_delta_log" / f"{0:020d}.json").read_text().splitlines()]
    for action in actions:
        if "add" in action:
            action["add"]["path"] = spelling.format(original / action["add"]["path"])
    (log / f"{0:020d}.json").write_text("\n".join(map(json.dumps, actions)))


@pytest.mark.usefixtures("strategy")
@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("spelling", ["{}", "file:{}", "file://{}"])
def test_a_clone_is_written_into_itself(
    spark: SparkSession, tmp_path: Path, limit: Callable[..., None], spelling: str, small: bool
) -> None:
    if not small:
        limit(small_file_bytes=0)
    original, path = tmp_path / "original", tmp_path / "clone"
    rows = spark.range(20).selectExpr("id", "id % 2 AS p").coalesce(1)
    deltamerge.write(rows, str(original), partition_by=["p"])
    clone(original, path, spelling)
    before = {file.relative_to(original) for file in original.rglob("*")}
    table = DeltaTable.forPath(spark, str(path)).alias("t")
    changes = source(spark, "id long, p long", [(1, 1), (30, 0)])
    report = table.merge(changes, "t.id = s.id").whenMatchedDelete().whenNotMatchedInsertAll().run()
    assert (report.deleted, report.inserted) == (1, 1)
    assert {file.relative_to(original) for file in original.rglob("*")} == before
    paths = open_log(str(path)).snapshot().files.column("path").to_pylist()
    assert sum(name.startswith(("p=0/", "p=1/")) for name in paths) >= 2
    assert sorted(row.id for row in deltamerge.read(spark, str(path)).collect()) == [n for n in range(20) if n != 1] + [30]
