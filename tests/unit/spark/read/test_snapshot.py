"""Which files of a table Spark's own reader reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deltamerge.spark.read import snapshot
from tests.unit.log.building import add, create, load


@pytest.mark.parametrize("nested", [False, True])
def test_a_spark_that_does_not_widen_reads_no_file_of_a_table_with_a_wider_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nested: bool
) -> None:
    changes = {"delta.typeChanges": [{"fromType": "integer", "toType": "long"}]}
    field = {"name": "n", "type": "long", "nullable": True, "metadata": changes}
    whole = {"name": "s", "type": {"type": "struct", "fields": [field]}, "nullable": True, "metadata": {}}
    schema = json.dumps({"type": "struct", "fields": [whole if nested else field]})
    loaded = load(create(tmp_path / "widened", add("a"), schema=schema))
    other = load(create(tmp_path / "other", add("a")))
    monkeypatch.setattr(snapshot, "READS_WIDENED", True)
    assert [part.num_rows for part in snapshot.parted(loaded)] == [1, 0]
    monkeypatch.setattr(snapshot, "READS_WIDENED", False)
    assert [part.num_rows for part in snapshot.parted(loaded)] == [0, 1]
    assert [part.num_rows for part in snapshot.parted(other)] == [1, 0]
