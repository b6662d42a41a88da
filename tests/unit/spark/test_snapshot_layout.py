"""Which partitions Spark's own reader may take from the names of folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltamerge.spark.read.snapshot import _plain_layout
from tests.unit.log.building import add, create, load, schema_text


@pytest.mark.parametrize(
    ("folder", "value", "expected"),
    [
        ("p=a", "a", True),
        ("p=__HIVE_DEFAULT_PARTITION__", None, True),
        ("p=__HIVE_DEFAULT_PARTITION__", "", True),
        ("p=__HIVE_DEFAULT_PARTITION__", "__HIVE_DEFAULT_PARTITION__", False),
        ("p=a", "b", False),
    ],
)
def test_folders_that_tell_their_values(tmp_path: Path, folder: str, value: str | None, expected: bool) -> None:
    file = add(f"{folder}/f.parquet", partitionValues={"p": value})
    snapshot = load(create(tmp_path, file, schema=schema_text(id="long", p="string"), partition_by=["p"]))
    assert _plain_layout(snapshot, snapshot.files.table()) is expected
