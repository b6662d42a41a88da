"""The deletion vector of a data file, where the file is read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from deltamerge.protocol.formats.roaring import RowSet
from deltamerge.worker.scan.row_errors import Refused
from deltamerge.worker.scan.vectors import living, read_vector
from tests.unit.worker.data import vector_of


def test_no_vector_deletes_nothing() -> None:
    assert read_vector(None, "f", 3) == RowSet()
    assert living(RowSet(), 0, 3) is None


@pytest.mark.parametrize("inline", [True, False])
def test_the_rows_that_live(tmp_path: Path, inline: bool) -> None:
    found = read_vector(vector_of(tmp_path, [2, 70_000], inline), "f", 70_001)
    alive = living(found, 1, 3)
    assert alive is not None
    assert alive.tolist() == [True, False, True]
    assert living(found, 3, 100) is None


def test_a_damaged_vector_is_refused_by_the_data_files_name(tmp_path: Path) -> None:
    vector = vector_of(tmp_path, [1, 2])
    assert vector is not None
    for damaged in (
        replace(vector, descriptor=replace(vector.descriptor, cardinality=3)),
        replace(vector, descriptor=replace(vector.descriptor, offset=2**31 - 1)),
        replace(vector, descriptor=replace(vector.descriptor, size_in_bytes=2**31 - 1)),
    ):
        with pytest.raises(Refused) as caught:
            read_vector(damaged, "part-1.parquet", 9)
        assert caught.value.condition.startswith("DELTA_DELETION_VECTOR_")
        assert "part-1.parquet" in caught.value.message
    with pytest.raises(Refused, match="INVALID_ROW_INDEX"):
        read_vector(vector, "part-1.parquet", 2)
