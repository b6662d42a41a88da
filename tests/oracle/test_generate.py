"""GENERATE by delta-spark and by deltamerge, on one table: the same manifests, the same refusals."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import deltamerge


def manifests(path: Path) -> dict[str, list[str]]:
    """The manifests of a table, which are then deleted."""
    root = path / "_symlink_format_manifest"
    found = {str(file.relative_to(root)): sorted(file.read_text().splitlines()) for file in root.rglob("manifest")}
    for place in sorted(root.rglob("*"), reverse=True):
        place.rmdir() if place.is_dir() else place.unlink()
    return found


@pytest.mark.parametrize("by", ["", "p", "d, t"])
def test_the_manifests_are_delta_sparks(spark: SparkSession, tmp_path: Path, by: str) -> None:
    name = f"delta.`{tmp_path}`"
    partitioned = f"PARTITIONED BY ({by})" if by else ""
    spark.sql(f"CREATE TABLE {name} (id INT, p STRING, d DATE, t TIMESTAMP) USING delta {partitioned}")
    found = []
    for rows in (
        "",
        "(1, 'a b', DATE'2020-01-01', TIMESTAMP'2020-01-01 10:00:00.5'), (2, NULL, NULL, NULL), (3, 'x/=%é', NULL, NULL)",
    ):
        if rows:
            spark.sql(f"INSERT INTO {name} VALUES {rows}")
        for sql in (spark.sql, lambda text: deltamerge.sql(spark, text)):
            frame = sql(f"GENERATE symlink_format_manifest FOR TABLE {name}")
            found.append((frame.schema, frame.collect(), manifests(tmp_path)))
    assert found[0::2] == found[1::2]
    assert found[3][2]


def test_what_is_refused_is_refused_there(spark: SparkSession, tmp_path: Path) -> None:
    name = f"delta.`{tmp_path}`"
    spark.sql(f"CREATE TABLE {name} (id INT) USING delta TBLPROPERTIES (delta.columnMapping.mode = 'name')")
    for text in (f"GENERATE nope FOR TABLE {name}", f"GENERATE symlink_format_manifest FOR TABLE {name}"):
        conditions = []
        for sql in (spark.sql, lambda text: deltamerge.sql(spark, text)):
            with pytest.raises(PySparkException) as caught:
                sql(text)
            conditions.append(caught.value.getCondition())
        assert conditions[0] == conditions[1]
