"""The statistics of data files are the ones that delta-spark writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import deltamerge

ROWS = """
    SELECT CAST(1 AS BYTE) b, CAST(2 AS SHORT) sh, 3 i, 4L l, CAST(0.1 AS FLOAT) f, CAST(-0.0 AS DOUBLE) d,
      CAST('NaN' AS DOUBLE) nan, true t, 'x' s, repeat('y', 50) ls, concat(repeat('z', 31), '\\U0001f600', repeat('z', 31)) su,
      repeat('\\U0010ffff', 20) top, X'01' bin, DATE'0001-01-01' da, TIMESTAMP'1500-01-01 00:00:00.123456' ts,
      TIMESTAMP_NTZ'2020-01-01 00:00:00.000001' nt, CAST(1.25 AS DECIMAL(5,2)) d5, CAST(1.25 AS DECIMAL(38,10)) d38,
      named_struct('a', 1, 'n', CAST(NULL AS INT), 'e', named_struct('q', 'w')) st, array(1) ar, map('k', 1) ma, null v,
      named_struct('vv', null, 'x', 1) sv, CAST(NULL AS STRING) allnull, CAST('infinity' AS FLOAT) inf, CAST(0.0 AS FLOAT) z
    UNION ALL
    SELECT null, null, null, null, 1.1e10, 0.0, 1.0, false, '', repeat('a', 40), 'a', 'b', null, DATE'9999-12-31',
      TIMESTAMP'9999-12-31 23:59:59.999999', null, -5.5, -12345678901234567890.5BD, null, null, null, null, null, null, 1.0,
      CAST(-0.0 AS FLOAT)"""

PROPERTIES = {
    "default": {},
    "five": {"delta.dataSkippingNumIndexedCols": "5"},
    "within a struct": {"delta.dataSkippingNumIndexedCols": "20"},
    "none": {"delta.dataSkippingNumIndexedCols": "0"},
    "all": {"delta.dataSkippingNumIndexedCols": "-1"},
    "named": {"delta.dataSkippingStatsColumns": "i,st.e,ST.a,`ls`,l"},
}


def stats(path: Path) -> list[dict[str, Any]]:
    lines = [line for file in sorted((path / "_delta_log").glob("*.json")) for line in file.read_text().splitlines()]
    found = [json.loads(action["add"]["stats"]) for action in map(json.loads, lines) if "add" in action]
    return [{key: value for key, value in text.items() if value not in ({}, None)} for text in found]


@pytest.mark.parametrize("properties", PROPERTIES.values(), ids=PROPERTIES)
def test_statistics_are_delta_sparks(spark: SparkSession, tmp_path: Path, properties: dict[str, str]) -> None:
    frame = spark.sql(ROWS).coalesce(1)
    frame.write.format("delta").options(**properties).save(str(tmp_path / "theirs"))
    deltamerge.write(frame, str(tmp_path / "ours"), properties=properties)
    assert stats(tmp_path / "ours") == stats(tmp_path / "theirs")
    assert len(stats(tmp_path / "ours")) == 1
