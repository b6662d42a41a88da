"""Shallow clones say of themselves what delta-spark's say, and delta-spark reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import delta.tables as upstream
from pyspark.sql import SparkSession

from deltamerge import tables


def commit(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {"add": []}
    for line in (path / "_delta_log" / f"{0:020}.json").read_text().splitlines():
        ((kind, value),) = json.loads(line).items()
        if kind == "add":
            for key in ("path", "deletionVector"):
                value.pop(key, None)
            found["add"].append(value)
        elif kind == "commitInfo":
            parameters = {**value["operationParameters"], "source": None}
            found[kind] = value["operation"], parameters, value["operationMetrics"], value["isBlindAppend"]
        elif kind == "metaData":
            found[kind] = {**value, "id": "#"}
        elif kind == "protocol":
            found[kind] = {key: sorted(part) if isinstance(part, list) else part for key, part in value.items()}
        else:
            found[kind] = value
    return found


def test_clones_are_made_as_delta_spark_makes_them(spark: SparkSession, tmp_path: Path) -> None:
    name = f"delta.`{tmp_path / 't'}`"
    spark.sql(f"CREATE TABLE {name} (id INT, p STRING) USING delta CLUSTER BY (id) "
              "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.checkpointInterval' = '7')")  # fmt: skip
    spark.sql(f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ id, 'x' FROM range(5)")
    spark.sql(f"DELETE FROM {name} WHERE id = 2")
    for module, folder in ((upstream, "there"), (tables, "here")):
        table = module.DeltaTable.forPath(spark, str(tmp_path / "t"))
        table.clone(str(tmp_path / folder), True, False, {"team": "x"})
    assert commit(tmp_path / "here") == commit(tmp_path / "there")
    read = spark.read.format("delta").load(str(tmp_path / "here"))
    assert sorted(row.id for row in read.collect()) == [0, 1, 3, 4]
