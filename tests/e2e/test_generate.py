"""GENERATE symlink_format_manifest by the method and by SQL."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, ParseException
from pyspark.errors import UnsupportedOperationException as Unsupported
from pyspark.sql import SparkSession

import deltamerge
from tests.e2e.tables import make, version


def manifests(path: Path) -> dict[str, list[str]]:
    root = path / "_symlink_format_manifest"
    return {str(file.relative_to(root)): file.read_text().splitlines() for file in sorted(root.rglob("manifest"))}


def test_manifests_follow_the_newest_version(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    rows = [(1, "a b"), (2, None), (3, "x/y=%")]
    table = make(spark, path, "id long, p string", rows, partition_by=["p"])
    table.generate("SYMLINK_format_manifest")
    found = manifests(path)
    assert sorted(found) == ["p=__HIVE_DEFAULT_PARTITION__/manifest", "p=a b/manifest", "p=x%2Fy%3D%25/manifest"]
    named = [place.removeprefix("file:") for places in found.values() for place in places]
    assert sorted(named) == sorted(map(str, path.glob("p=*/*.parquet")))
    old = path / "_symlink_format_manifest" / "p=a b"
    (old / ".manifest.crc").write_bytes(b"of Hadoop")
    table.delete("id = 1")
    before = version(path)
    assert deltamerge.sql(spark, f"GENERATE symlink_format_manifest FOR TABLE delta.`{path}`").columns == []
    assert manifests(path) == {name: places for name, places in found.items() if name != "p=a b/manifest"}
    assert not old.exists()
    assert version(path) == before


def test_a_table_without_partitions_has_one(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", "id long", [(1,), (2,)])
    table.generate("symlink_format_manifest")
    assert [len(places) for places in manifests(tmp_path / "t").values()] == [1]
    table.delete()
    table.generate("symlink_format_manifest")
    assert manifests(tmp_path / "t") == {"manifest": []}


def test_what_no_manifest_can_tell_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", "id long", [(id,) for id in range(9)], vectors=True)
    with pytest.raises(IllegalArgumentException, match="DELTA_MODE_NOT_SUPPORTED"):
        table.generate("nope")
    with pytest.raises(TypeError, match="'mode' in generate must be a string"):
        table.generate(1)  # type: ignore[arg-type]
    table.delete("id = 3")
    with pytest.raises(Unsupported, match="DELTA_UNSUPPORTED_GENERATE_WITH_DELETION_VECTORS"):
        table.generate("symlink_format_manifest")
    name = f"delta.`{tmp_path / 'm'}`"
    deltamerge.sql(spark, f"CREATE TABLE {name} (id INT) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    with pytest.raises(Unsupported, match="DELTA_UNSUPPORTED_MANIFEST_GENERATION_WITH_COLUMN_MAPPING"):
        deltamerge.sql(spark, f"GENERATE symlink_format_manifest FOR TABLE {name}")
    for text in (f"GENERATE symlink_format_manifest {name}", "GENERATE a.b FOR TABLE t"):
        with pytest.raises(ParseException):
            deltamerge.sql(spark, text)
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        deltamerge.sql(spark, "GENERATE symlink_format_manifest FOR TABLE nope")
    assert not list(tmp_path.glob("*/_symlink_format_manifest"))
