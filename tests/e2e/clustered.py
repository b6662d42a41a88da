"""Merges on a cluster; run by test_cluster in a process of its own, says what executors can import and what the tables hold."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.budgets import using
from deltamerge.merge.report import MergeReport
from deltamerge.tables import DeltaTable
from deltamerge.worker.scan.store import DataStore
from tests.faults.processes import small_session
from tests.java import QUICK_JAVA
from tests.live import ship_live_code

MODULES = ("pyarrow", "deltamerge", "sqlglot")
STRATEGIES = ("auto", "spark_join", "range_exchange", "hash_exchange")
SOURCES = "sources"


def main(folder: Path) -> None:
    """An upsert, a delete and a by-source merge into one table per strategy; a JSON line about each."""
    settings = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g", "spark.executor.extraJavaOptions": QUICK_JAVA}
    spark = small_session(**settings)
    print(json.dumps(imports(spark)), flush=True)
    forbid_driver_files()
    with using(driver_match_bytes=-1, driver_write_bytes=-1):
        merges(spark, folder)


def merges(spark: SparkSession, folder: Path) -> None:
    for strategy in STRATEGIES:
        spark.conf.set("spark.deltamerge.strategy", strategy)
        path = str(folder / strategy)
        source = partial(stored, spark, str(folder / SOURCES / strategy)) if "exchange" in strategy else partial(frame, spark)
        for part in range(2):
            ids = range(part * 10, part * 10 + 10)
            deltamerge.write(frame(spark, ids, "old"), path, mode="append")
        table = DeltaTable.forPath(spark, path).alias("t")
        upsert = table.merge(source(range(8, 24), "new"), "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll()
        tell(spark, path, strategy, upsert.run())
        delete = table.merge(source(range(0, 24, 5), ""), "t.id = s.id").whenMatchedDelete()
        tell(spark, path, strategy, delete.run())
        sync = table.merge(source(range(12), "sync"), "t.id = s.id").whenMatchedUpdate(set={"name": "concat(s.name, t.id)"})
        sync = sync.whenNotMatchedBySourceUpdate("t.id < 15", {"name": "'gone'"}).whenNotMatchedBySourceDelete()
        tell(spark, path, strategy, sync.run())


def frame(spark: SparkSession, ids: Iterable[int], name: str) -> Any:
    rows = list(ids)
    return spark.createDataFrame(pa.table({"id": rows, "name": [name] * len(rows)})).alias("s")


def stored(spark: SparkSession, path: str, ids: Iterable[int], name: str) -> Any:
    """The same rows in Parquet files, which workers read."""
    place = f"{path}/{name or 'unnamed'}"
    frame(spark, ids, name).write.parquet(place)
    return spark.read.parquet(place).alias("s")


def tell(spark: SparkSession, path: str, strategy: str, report: MergeReport) -> None:
    rows = sorted(tuple(row) for row in deltamerge.read(spark, path).collect())
    told = {"strategy": strategy, "ran": report.strategy, "version": report.version, "rows": rows}
    print(json.dumps(told), flush=True)


def imports(spark: SparkSession) -> list[dict[str, str]]:
    """What two tasks on executors say of the modules."""
    modules = MODULES

    def tried(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            found = {}
            for module in modules:
                try:
                    importlib.import_module(module)
                    found[module] = "imported"
                except ImportError as error:
                    found[module] = type(error).__name__
            yield pa.RecordBatch.from_pylist([found])

    schema = ", ".join(f"{module} string" for module in modules)
    return spark.range(2, numPartitions=2).mapInArrow(tried, schema).toArrow().to_pylist()


def forbid_driver_files() -> None:
    """The table's data files may only be opened and created by executors."""
    driver = os.getpid()
    ship_live_code()
    for name in ("open", "create"):
        original = getattr(DataStore, name)

        def guarded(store: DataStore, file: str, original: Any = original) -> Any:
            assert os.getpid() != driver or SOURCES in file, f"the driver touched {file}"
            return original(store, file)

        setattr(DataStore, name, guarded)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
