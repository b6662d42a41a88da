"""Statistics of files that somebody else has written: the same whether the footer or the rows say them."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltamerge.worker.scan.row_errors import Refused
from deltamerge.worker.scan.scan import FileTask
from deltamerge.worker.scan.store import DataStore
from deltamerge.worker.write.existing import ExistingSpec, schemas_of, stats_of
from tests.unit.worker.data import bounded

UTC = pa.timestamp("us", "UTC")
TABLE = pa.table(
    {
        "i": pa.array([3, None, -5], pa.int16()),
        "d": pa.array([Decimal("1.50"), Decimal("-99999999999999999999999999999.25"), None], pa.decimal128(38, 2)),
        "day": pa.array([date(2020, 1, 2), None, date(1600, 1, 1)]),
        "f": pa.array([float("nan"), -1.5, None], pa.float32()),
        "t": pa.array([datetime(2020, 1, 1, 0, 0, 0, 1999), None, datetime(1999, 1, 1)], UTC),
        "s": ["b", None, "a"],
        "st": pa.array([{"x": 1}, None, {"x": None}], pa.struct([("x", pa.int64())])),
        "void": pa.array([None] * 3, pa.int32()),
    }
)
EXPECTED = (
    {"i": -5, "d": Decimal("-99999999999999999999999999999.25"), "day": "1600-01-01", "f": Decimal("-1.5"), "s": "a"},
    {"i": 3, "d": Decimal("1.50"), "day": "2020-01-02", "f": "NaN", "s": "b"},
    {"i": 1, "d": 1, "day": 1, "f": 1, "t": 1, "s": 1, "st": {"x": 2}, "void": 3},
)


def stats(root: Path, schema: pa.Schema, **options: Any) -> dict[str, Any]:
    """The statistics of the table written with `options`, as of columns of `schema`; numbers stay exact."""
    pq.write_table(TABLE, root / "f.parquet", row_group_size=2, **options)
    columns = [*bounded(pa.schema([field for field in schema if field.name != "st"]))]
    nested = bounded(pa.schema([("x", pa.int64())]))[0]
    spec = ExistingSpec(
        DataStore("file", str(root)),
        ((FileTask(0, "f.parquet", {}),),),
        schema,
        (*columns, type(nested)(("st", "x"), nested.type, True)),
    )
    text = stats_of(spec, 0).column("stats")[0].as_py()
    return dict(json.loads(text, parse_float=Decimal))


@pytest.mark.parametrize("options", [{}, {"write_statistics": False}, {"use_deprecated_int96_timestamps": True}])
def test_footers_and_rows_say_the_same(tmp_path: Path, options: dict[str, Any]) -> None:
    found = stats(tmp_path, TABLE.schema, **options)
    lows, highs, nulls = EXPECTED
    assert found["numRecords"] == 3
    assert found["minValues"] == {**lows, "t": "1999-01-01T00:00:00.000Z", "st": {"x": 1}}
    assert found["maxValues"] == {**highs, "t": "2020-01-01T00:00:00.001Z", "st": {"x": 1}}
    assert found["nullCount"] == nulls


def test_columns_of_wider_types_and_of_other_files(tmp_path: Path) -> None:
    fields = {field.name: field for field in TABLE.schema}
    fields |= {"i": pa.field("I", pa.int32()), "other": pa.field("other", pa.string())}
    found = stats(tmp_path, pa.schema(list(fields.values())))
    assert (found["minValues"]["I"], found["maxValues"]["I"], found["nullCount"]["other"]) == (-5, 3, 3)


def test_each_different_schema_comes_once(tmp_path: Path) -> None:
    tasks = []
    for number, column in enumerate(("a", "b", "a")):
        pq.write_table(pa.table({column: [1]}), tmp_path / f"{number}.parquet")
        tasks.append(FileTask(number, f"{number}.parquet", {}))
    found = schemas_of(ExistingSpec(DataStore("file", str(tmp_path)), (tuple(tasks),)), 0)
    assert (found.column("file").to_pylist(), found.column("spark").null_count) == ([0, 1], 2)


def test_files_are_on_the_disk_before_a_table_is_made_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr("deltamerge.disk._sync", synced.append)
    tasks = []
    for number in range(3):
        pq.write_table(pa.table({"a": [1]}), tmp_path / f"{number}.parquet")
        tasks.append(FileTask(number, f"{number}.parquet", {}))
    schemas_of(ExistingSpec(DataStore("file", str(tmp_path)), (tuple(tasks[:2]), tuple(tasks[2:]))), 0)
    assert sorted(synced[:2]) == [str(tmp_path / f"{number}.parquet") for number in (0, 1)]
    assert sorted(synced[2:]) == sorted(map(str, [tmp_path, *tmp_path.parents]))


def test_a_file_that_is_no_parquet_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,2\n" * 10)
    with pytest.raises(Refused, match=r"x\.csv"):
        schemas_of(ExistingSpec(DataStore("file", str(tmp_path)), ((FileTask(0, "x.csv", {}),),)), 0)
