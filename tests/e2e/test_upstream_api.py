"""Each call that the guide says works in an active session, run as it is written there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import deltamerge
from deltamerge import tables
from deltamerge.tables import DeltaTable
from tests.e2e.tables import make
from tests.e2e.test_streaming import arrive
from tests.e2e.upstream_api import CALLS
from tests.e2e.upstream_call import Call, placed

EVERY = [call for calls in CALLS.values() for call in calls]


@pytest.fixture
def known(spark: SparkSession, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What a call may name."""
    path = tmp_path / "t"
    properties = {"delta.enableChangeDataFeed": "true"}
    make(spark, path, "id int, n int", [(1, 10)], properties=properties)
    make(spark, path, "id int, n int", [(2, 20), (3, 30)])
    for name, ids in (("t_raw", [1, 2]), ("t_parts/p=1", [1])):
        (tmp_path / name).mkdir(parents=True)
        pq.write_table(pa.table({"id": ids}), tmp_path / name / "x.parquet")
    changes = spark.createDataFrame([(2, 21), (3, 31)], "id int, n int")
    changes.createOrReplaceTempView("changes")
    time, begin = (row[0] for row in DeltaTable.forPath(spark, str(path)).history(2).selectExpr("string(timestamp)").collect())

    deltamerge.activate(spark)
    folder = tmp_path_factory.mktemp("stream")
    arrive(folder / "in", 0, [(4, 40)])
    stream = spark.readStream.schema("id int, v int").parquet(str(folder / "in")).withColumnRenamed("v", "n")
    given = {"changes": changes, "time": time, "begin": begin, "stream": stream, "checkpoint": str(folder / "checkpoint")}
    yield {
        "spark": spark,
        "path": str(path),
        **vars(tables),
        "F": F,
        "placed": lambda text: placed(text, str(path)),
        **given,
    }
    for name in ("made_by_call", "renamed_by_call"):
        spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.catalog.dropTempView("shown_by_call")
    deltamerge.deactivate(spark)
    spark.catalog.dropTempView("changes")


@pytest.mark.parametrize("call", EVERY, ids=lambda call: call.text)
def test_it_works(known: dict[str, Any], call: Call) -> None:
    if call.behind:
        known["spark"].sql(known["placed"](call.behind))
    it = eval(call.code, known)
    assert eval(call.check, {**known, "it": it})
