"""CONVERT TO DELTA by delta-spark and by deltamerge, each on its own copy of a folder: the same log, the same rows."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.tables import DeltaTable
from tests.e2e.test_convert import REFUSED, files

COLUMNS = """
    id; cast(id as byte) b; id / 3 d; string(id) s; timestamp_micros(id * 1234567) ts; date_add(date'2020-01-01', int(id)) dt;
    cast(id as decimal(20, 2)) de; if(id = 1, null, id) n; struct(id as x, binary('a') as y) st; array(id) ar; id > 1 bo;
    cast(timestamp'2020-01-01 00:00:00.5' as timestamp_ntz) nt
"""


def log(path: Path) -> list[str]:
    """The actions of the only version, without what differs by chance, in order."""
    (file,) = (path / "_delta_log").glob("*.json")
    found = []
    for line in file.read_text().splitlines():
        ((kind, value),) = json.loads(line).items()
        for name in ("timestamp", "txnId", "engineInfo", "id", "createdTime"):
            value.pop(name, None)
        if value.get("stats"):  # delta-spark has a struct also where none of its fields has a bound
            value["stats"] = json.loads(value["stats"].replace(',"st":{}', ""))
        if kind == "metaData":  # the order of files decides, which is any
            value["schemaString"] = sorted(json.loads(value["schemaString"])["fields"], key=lambda field: field["name"])
        features = {name: sorted(value[name]) for name in ("readerFeatures", "writerFeatures") if name in value}
        found.append(json.dumps({kind: {**value, **features}}, sort_keys=True))
    return sorted(found)


def compared(spark: SparkSession, made: Path, root: Path, clause: str = "") -> list[Any]:
    """The log and the rows, as delta-spark reads them, of each engine's table."""
    found = []
    for name, sql in {"theirs": spark.sql, "ours": lambda text: deltamerge.sql(spark, text)}.items():
        shutil.copytree(made, root / name)
        frame = sql(f"CONVERT TO DELTA parquet.`{root / name}` {clause}")
        table = spark.read.format("delta").load(str(root / name))
        rows = sorted(map(repr, table.select(sorted(table.columns)).collect()))
        found.append((frame.columns, log(root / name), rows))
    return found


@pytest.mark.parametrize("clause", ["", "NO STATISTICS"])
def test_a_folder(spark: SparkSession, tmp_path: Path, clause: str) -> None:
    made = tmp_path / "made"
    spark.range(3).selectExpr(*COLUMNS.split(";")).coalesce(1).write.parquet(str(made))
    table = {"b": pa.array([300, 5], pa.int16()), "x": [float("nan"), -0.0], "y": pa.array([1, None], pa.uint32())}
    pq.write_table(pa.table({**table, "s": pa.array(["é" * 40, None], pa.large_string())}), made / "z.parquet")
    theirs, ours = compared(spark, made, tmp_path, clause)
    assert ours == theirs


def test_partitions(spark: SparkSession, tmp_path: Path) -> None:
    made = tmp_path / "made"
    rows = spark.range(4).selectExpr(
        "id", "if(id = 0, null, concat('a b%/', id)) p", "date_add(date'2020-01-01', int(id)) t", "id / 4 f", "id > 1 b"
    )
    rows.coalesce(1).write.partitionBy("p", "t", "f", "b").parquet(str(made))
    theirs, ours = compared(spark, made, tmp_path, "PARTITIONED BY (p STRING, t DATE, f DOUBLE, b BOOLEAN)")
    assert ours == theirs


@pytest.mark.parametrize("case", [case for case in REFUSED if case not in ("no schema", "no type of Spark's")])
def test_what_is_refused(spark: SparkSession, tmp_path: Path, case: str) -> None:
    tables, partitions, condition = REFUSED[case]
    name = files(tmp_path / "t", tables)
    clause = f" PARTITIONED BY ({partitions})" if partitions else ""
    with pytest.raises((PySparkException, Py4JError)) as caught:
        spark.sql(f"CONVERT TO DELTA {name}{clause}")
    if isinstance(caught.value, PySparkException):
        assert caught.value.getCondition() == condition
    with pytest.raises(PySparkException) as refused:
        deltamerge.sql(spark, f"CONVERT TO DELTA {name}{clause}")
    assert refused.value.getCondition() == condition
    assert not DeltaTable.isDeltaTable(spark, str(tmp_path / "t"))
