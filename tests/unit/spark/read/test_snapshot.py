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


@pytest.mark.parametrize(
    "name",
    [
        "_x.parquet",
        ".x.parquet",
        "%5Fx.parquet",
        "p/%2Ex",
        "p/_x",
        "_metadata",
        "x.parquet._COPYING_",
        "x._COPYING%5f",
        "p/_a=1",
        "./a:b",
        "a%3ab",
    ],
)
def test_a_file_that_spark_takes_for_a_hidden_one_is_not_read_by_it(tmp_path: Path, name: str) -> None:
    loaded = load(create(tmp_path, add("a"), add(name), add("_p/b_c.parquet")))
    plain, others = snapshot.parted(loaded)
    assert plain["path"].to_pylist() == ["a", "_p/b_c.parquet"]
    assert others["path"].to_pylist() == [name]


def test_a_folder_in_the_place_of_a_file_is_not_read_by_spark(tmp_path: Path) -> None:
    (tmp_path / "a b" / "c").mkdir(parents=True)
    (tmp_path / "f").touch()
    (tmp_path / "link").symlink_to(tmp_path / "a b")
    (tmp_path / "d.parquet").mkdir()
    loaded = load(create(tmp_path, add("a%20b"), add("f"), add("link"), add("gone"), add("d.parquet")))
    plain, others = snapshot.parted(loaded)
    assert plain["path"].to_pylist() == ["f", "gone", "d.parquet"]  # each look costs, so that the suffix is believed
    assert others["path"].to_pylist() == ["a%20b", "link"]
