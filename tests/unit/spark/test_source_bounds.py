"""What the Parquet files of a source say of its least and greatest values."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import types as T

from deltamerge.protocol.formats.thrift import I64, LIST, STRUCT, Items
from deltamerge.spark.source.facts import SourceFile
from deltamerge.spark.source.parquet_files import _looked_into, file_bounds
from deltamerge.worker.scan.store import DataStore
from tests.unit.protocol.formats.test_parquet_file import COLUMNS, rebuilt

SCHEMA = T.StructType(
    [
        T.StructField("k", T.LongType()),
        T.StructField("d", T.DateType()),
        T.StructField("w", T.StringType()),
        T.StructField("x", T.DoubleType()),
    ]
)
FILE = pa.schema([("k", pa.int64()), ("d", pa.date32()), ("w", pa.string()), ("x", pa.float64())])
SOME, LATER = date(2024, 2, 28), date(2024, 3, 1)


def looked(folder: Path, rows: dict[str, list[Any]], name: str = "a", schema: pa.Schema = FILE, **options: Any) -> SourceFile:
    """A file of some rows, as a source's file is looked into; two rows in a row group."""
    place = folder / f"{name}.parquet"
    columns = {field.name: rows.get(field.name, [None] * 3) for field in schema}
    pq.write_table(pa.table(columns, schema), place, row_group_size=2, **options)
    return _looked_into(DataStore("file", "/"), SCHEMA, ("k", "d", "w", "x"))(str(place))


def test_bounds_are_those_of_all_row_groups_and_files(tmp_path: Path) -> None:
    one = looked(tmp_path, {"k": [5, None, -7], "d": [SOME, LATER, None], "w": ["a", "b", "c"], "x": [1.0, 2.0, 3.0]})
    other = looked(tmp_path, {"k": [6, 9, None]}, "b")
    none = looked(tmp_path, {}, "c")
    found = file_bounds([one, other, none], SCHEMA, ["k", "d", "w", "x"])
    assert found is not None
    assert found.to_pydict() == {"k": [-7, 9], "d": [SOME, LATER]}
    assert found.schema == FILE.remove(3).remove(2)
    empty = file_bounds([none], SCHEMA, ["k"])
    assert empty is not None
    assert empty.to_pydict() == {"k": [None, None]}


def test_what_is_not_told_is_not_guessed(tmp_path: Path) -> None:
    full = looked(tmp_path, {"k": [1, 2, 3], "d": [SOME] * 3})
    silent = looked(tmp_path, {"k": [1, 2, 3], "d": [SOME] * 3}, "b", write_statistics=["d"])
    found = file_bounds([full, silent], SCHEMA, ["k", "d"])
    assert found is not None
    assert found.column_names == ["d"]
    ancient = looked(tmp_path, {"k": [1, 2, 3], "d": [date(1582, 10, 14), SOME, SOME]}, "c")
    found = file_bounds([full, ancient], SCHEMA, ["k", "d"])
    assert found is not None
    assert found.column_names == ["k"]


@pytest.mark.parametrize("type", [pa.int32(), pa.uint64(), pa.float64(), None])
def test_a_file_that_spark_may_read_otherwise_says_nothing(tmp_path: Path, type: pa.DataType | None) -> None:
    schema = FILE.remove(0) if type is None else FILE.set(0, pa.field("k", type))
    odd = looked(tmp_path, {"k": [1, 2, 3]}, schema=schema)
    assert odd.bounds is None
    assert file_bounds([odd], SCHEMA, ["k"]) is None


def test_bounds_are_read_where_they_are_asked_for(tmp_path: Path) -> None:
    place = tmp_path / "a.parquet"
    pq.write_table(pa.table({"k": [1], "d": [SOME], "w": ["a"], "x": [1.0]}, FILE), place)
    assert _looked_into(DataStore("file", "/"), SCHEMA, ())(str(place)).bounds is None
    assert _looked_into(DataStore("file", "/"), SCHEMA, ("d",))(str(place)).bounds == {"d": (SOME, SOME)}


def test_the_size_is_that_of_the_columns(tmp_path: Path) -> None:
    """DuckDB's row groups say more."""

    def change(footer: dict[int, Any]) -> None:
        (group,) = footer[4][1].values
        footer[4] = (LIST, Items(STRUCT, ({**group, 2: (I64, 1 << 40)},)))

    place = tmp_path / "a.parquet"
    place.write_bytes(rebuilt(change, COLUMNS.select(["i", "s"])))
    group = pq.ParquetFile(place).metadata.row_group(0)
    assert group.total_byte_size == 1 << 40
    schema = T.StructType([T.StructField("i", T.LongType()), T.StructField("s", T.StringType())])
    found = _looked_into(DataStore("file", "/"), schema, ())(str(place))
    assert found.bytes == sum(group.column(number).total_uncompressed_size for number in range(2))


def test_a_file_of_very_many_columns_has_no_bounds_and_its_whole_size(tmp_path: Path) -> None:
    schema = pa.schema([*FILE, *((f"c{number}", pa.int64()) for number in range(9_000))])
    found = looked(tmp_path, {"k": [1, 2, 3]}, schema=schema)
    assert (found.rows, found.bounds) == (3, None)
    assert found.bytes > 8 * 9_000
