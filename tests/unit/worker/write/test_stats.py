"""Statistics of written files are true bounds and exact counts, as JSON that every Delta reader parses."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deltamerge.worker.scan.columns import PHYSICAL
from deltamerge.worker.write.stats import FileStats, StatsColumn
from deltamerge.worker.write.write import DataFileWriter
from tests.unit.worker.data import DECIMAL, UTC_TIME, bounded, examples, folder, write_spec

NTZ = pa.timestamp("us")
YEAR_ONE, YEAR_TEN_THOUSAND = -62_135_596_800_000_000, 253_402_300_800_000_000
MARGINS = ["a", "z", "é", "\ud7ff", "\ue000", "\uffff", "\U0001f600", "\U0010ffff"]


def stats_of(root: Path, tables: Sequence[pa.Table], columns: Sequence[StatsColumn], **options: Any) -> dict[str, Any]:
    """The parsed statistics of one file with a row group for each table; numbers stay exact."""
    writer = DataFileWriter(write_spec(root, tables[0].schema, stats=tuple(columns), **options), {}, "", 0)
    for table in tables:
        writer.write(table)
        writer.flush()
    (file,) = writer.close()
    found = json.loads(file.stats, parse_float=Decimal, parse_int=Decimal, parse_constant=pytest.fail)
    return dict(found)


def column_stats(values: Sequence[Any], type: pa.DataType, cut: int = 0) -> tuple[Any, Any]:
    """The bounds of one column, null where there are none; counts are checked on the way."""
    array = pa.array(values, type)
    schema = pa.schema([("c", type)])
    parts = [pa.table([part], schema=schema) for part in (array.slice(0, cut), array.slice(cut))]
    with folder() as root:
        found = stats_of(root, parts, bounded(schema))
    assert found["numRecords"] == len(array)
    assert found["nullCount"] == {"c": array.null_count}
    assert set(found["minValues"]) >= set(found["maxValues"])
    return found["minValues"].get("c"), found["maxValues"].get("c")


def rows_of(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.none() | values, min_size=1, max_size=8)


@examples
@given(st.sampled_from([8, 16, 32, 64]), st.data())
def test_integer_bounds_are_exact(bits: int, data: st.DataObject) -> None:
    values = data.draw(rows_of(st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)))
    type = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[bits]
    known = [value for value in values if value is not None]
    low, high = column_stats(values, type, data.draw(st.integers(0, len(values) - 1)))
    assert (low, high) == ((min(known), max(known)) if known else (None, None))


@examples
@given(st.integers(1, 38), st.data())
def test_decimal_bounds_are_exact_at_every_precision(precision: int, data: st.DataObject) -> None:
    scale = data.draw(st.integers(0, precision))
    digits = data.draw(rows_of(st.integers(-(10**precision) + 1, 10**precision - 1)))
    values = [None if value is None else Decimal((value < 0, tuple(map(int, str(abs(value)))), -scale)) for value in digits]
    known = [value for value in values if value is not None]
    low, high = column_stats(values, pa.decimal128(precision, scale), data.draw(st.integers(0, len(values) - 1)))
    assert (low, high) == ((min(known), max(known)) if known else (None, None))


@examples
@given(st.sampled_from([pa.float32(), pa.float64()]), st.data())
def test_float_bounds_hold_with_nan_as_the_largest_value(type: pa.DataType, data: st.DataObject) -> None:
    special = st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0])
    values = data.draw(rows_of(st.floats(width=type.bit_width) | special))
    low, high = column_stats(values, type, data.draw(st.integers(0, len(values) - 1)))
    known = [value for value in values if value is not None and not math.isnan(value)]
    has_nan = any(value is not None and math.isnan(value) for value in values)
    if not known:
        assert (low, high) == (("NaN", "NaN") if has_nan else (None, None))
        return
    parse = np.dtype(type.to_pandas_dtype()).type
    if low is None:
        assert {math.inf, float(np.finfo(parse).max)} <= set(map(abs, known))
        return
    assert parse(low) <= min(known)
    assert high == "NaN" if has_nan else parse(high) >= max(known)
    if all(map(math.isfinite, known)):
        assert parse(low) == min(known)
        assert has_nan or parse(high) == max(known)


@pytest.mark.parametrize("type", [pa.float32(), pa.float64()])
@pytest.mark.parametrize("sign", [1, -1])
def test_infinity_beside_the_largest_number_has_no_bounds(type: pa.DataType, sign: int) -> None:
    """They look like those that an older PyArrow writes of infinity alone."""
    largest = float(np.finfo(type.to_pandas_dtype()).max)
    assert column_stats([sign * largest, sign * math.inf], type, 0) == (None, None)
    assert column_stats([sign * largest, sign * 1.0], type, 0) != (None, None)


@examples
@given(rows_of(st.dates(date.min, date.max)), st.integers(0, 8))
@example([date.min, date.max], 1)
def test_date_bounds_are_exact(values: list[date | None], cut: int) -> None:
    known = [value for value in values if value is not None]
    low, high = column_stats(values, pa.date32(), cut % len(values))
    assert [low, high] == ([min(known).isoformat(), max(known).isoformat()] if known else [None, None])


@examples
@given(st.sampled_from([UTC_TIME, NTZ]), rows_of(st.integers(YEAR_ONE, YEAR_TEN_THOUSAND - 1)), st.integers(0, 8))
@example(UTC_TIME, [YEAR_ONE, YEAR_TEN_THOUSAND - 1], 1)
def test_timestamp_bounds_are_cut_to_the_millisecond_below(type: pa.DataType, values: list[int | None], cut: int) -> None:
    known = [value for value in values if value is not None]
    low, high = column_stats(pa.array(values, pa.int64()).cast(type), type, cut % len(values))
    assert (low is None) == (not known)
    if known:
        assert low.endswith("Z") == (type == UTC_TIME)
        assert [micros(low), micros(high)] == [value // 1000 * 1000 for value in (min(known), max(known))]


def micros(text: str) -> int:
    return (datetime.fromisoformat(text.removesuffix("Z")) - datetime.fromisoformat("1970-01-01")) // timedelta(microseconds=1)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([0, YEAR_TEN_THOUSAND]).cast(UTC_TIME),
        pa.array([0, YEAR_ONE - 1]).cast(NTZ),
        pa.array([2**63 - 1, -(2**63)]).cast(UTC_TIME),
        pa.array([0, 2_932_897], pa.int32()).cast(pa.date32()),
        pa.array([0, -719_163], pa.int32()).cast(pa.date32()),
        pa.array([2**31 - 1, -(2**31)], pa.int32()).cast(pa.date32()),
    ],
    ids=["year 10000", "year 0", "all of 64 bits", "date in year 10000", "date in year 0", "all of 32 bits"],
)
def test_years_that_have_no_four_digits_have_no_bounds(values: pa.Array) -> None:
    assert column_stats(values, values.type) == (None, None)


@examples
@given(
    rows_of(st.text(max_size=3) | st.lists(st.sampled_from(MARGINS), min_size=28, max_size=40).map("".join)), st.integers(0, 8)
)
@example(["\U0010ffff" * 40], 0)
@example(["a" * 31 + "\U0010ffff" * 9 + "b"], 0)
@example(["", None], 1)
def test_string_bounds_hold_by_bytes_however_long_the_strings(values: list[str | None], cut: int) -> None:
    known = [value.encode() for value in values if value is not None]
    low, high = column_stats(values, pa.string(), cut % len(values))
    assert (low is None) == (not known)
    if known:
        assert low == min(known).decode()[:32]
    if high is None:
        assert not known or "\U0010ffff" in max(known).decode()[31:]
    elif known and max(known) != high.encode():
        assert max(known) < high.encode()
        assert max(known).startswith(high[:-1].encode())
        assert len(high) <= 65


def test_long_upper_bounds_are_cut_where_a_greater_character_can_stand() -> None:
    assert column_stats(["b" * 100], pa.string()) == ("b" * 32, "b" * 32 + "\x7f")
    assert column_stats(["b" * 32 + "\x7f" * 9], pa.string())[1] == "b" * 32 + "\U0010ffff"
    assert column_stats(["b" * 32], pa.string()) == ("b" * 32, "b" * 32)


def test_strings_that_are_no_text_have_no_bounds() -> None:
    broken = pa.array([b"\xff", b"a"]).view(pa.string())
    for cut in (0, 1):
        assert column_stats(broken, pa.string(), cut) == (None, None)
        assert column_stats(broken.take([1, 0]), pa.string(), cut) == (None, None)


HOME = pa.struct([("city", pa.string()), ("number", pa.int32())])
PERSON = pa.struct([("home", HOME), ("age", pa.float64())])


@examples
@given(
    st.lists(
        st.none()
        | st.fixed_dictionaries(
            {
                "home": st.none()
                | st.fixed_dictionaries({"city": st.none() | st.text(max_size=3), "number": st.none() | st.integers(0, 9)}),
                "age": st.none() | st.floats(allow_nan=False, allow_infinity=False),
            }
        ),
        min_size=1,
        max_size=6,
    )
)
def test_nested_fields_count_missing_parents_as_nulls(people: list[dict[str, Any] | None]) -> None:
    table = pa.table({"person": pa.array(people, PERSON)})
    paths = {("person", "home", "city"): pa.string(), ("person", "home", "number"): pa.int32(), ("person", "age"): pa.float64()}
    with folder() as root:
        found = stats_of(root, [table], [StatsColumn(path, type, True) for path, type in paths.items()])
    for path in paths:
        values = [_dig(person, path[1:]) for person in people]
        known = [value for value in values if value is not None]
        assert _dig(found["nullCount"], path) == len(values) - len(known)
        bounds = _dig(found["minValues"], path), _dig(found["maxValues"], path)
        if path[-1] == "age" and known:
            bounds = float(bounds[0]), float(bounds[1])
        assert bounds == ((min(known), max(known)) if known else (None, None))


def _dig(value: Any, path: Sequence[str]) -> Any:
    for name in path:
        value = value.get(name) if value is not None else None
    return value


@pytest.mark.parametrize("type", [DECIMAL, pa.float64(), pa.string(), UTC_TIME], ids=str)
def test_a_column_of_nulls_has_a_count_and_no_bounds(type: pa.DataType) -> None:
    assert column_stats([None, None], type, 1) == (None, None)


def test_columns_without_bounds_have_a_null_count(tmp_path: Path) -> None:
    table = pa.table({"flag": [True, None], "data": [b"a", b"b"], "list": [[1], None]})
    columns = [StatsColumn((field.name,), field.type, False) for field in table.schema]
    found = stats_of(tmp_path, [table], columns)
    assert found == {"numRecords": 2, "minValues": {}, "maxValues": {}, "nullCount": {"flag": 1, "data": 0, "list": 1}}


def test_statistics_go_by_physical_names(tmp_path: Path) -> None:
    logical = pa.schema([pa.field("id", pa.int64(), metadata={PHYSICAL: b'col "1"'})])
    stored = pa.schema([('col "1"', pa.int64())])
    found = stats_of(
        tmp_path, [pa.table({"id": [7]}, schema=logical)], [StatsColumn(('col "1"',), pa.int64(), True)], stored=stored
    )
    assert found["minValues"] == found["maxValues"] == {'col "1"': 7}


def test_names_with_dots_never_get_the_bounds_of_another_column(tmp_path: Path) -> None:
    table = pa.table({"a.b": [5], "a": [{"b": 900}]})
    found = stats_of(tmp_path, [table], [StatsColumn(("a.b",), pa.int64(), True), StatsColumn(("a", "b"), pa.int64(), True)])
    assert found["nullCount"] == {"a.b": 0, "a": {"b": 0}}
    assert found["minValues"].get("a.b") in (None, 5)
    assert found["minValues"].get("a") in (None, {"b": 900})


def test_an_ambiguous_column_with_nan_has_no_bounds(tmp_path: Path) -> None:
    table = pa.table({"a.b": [1.0, math.nan], "a": [{"b": 2.0}, {"b": 3.0}]})
    found = stats_of(tmp_path, [table], [StatsColumn(("a.b",), pa.float64(), True)])
    assert found["minValues"] == found["maxValues"] == {}


def test_a_file_written_without_footer_statistics_has_counts_only(tmp_path: Path) -> None:
    table = pa.table({"id": [1, 2]})
    pq.write_table(table, tmp_path / "file", write_statistics=False)
    stats = FileStats(bounded(table.schema))
    stats.add(table)
    text = stats.finish(pq.read_metadata(tmp_path / "file"))
    assert json.loads(text) == {"numRecords": 2, "minValues": {}, "maxValues": {}, "nullCount": {"id": 0}}


class OneLeaf:
    """The schema of a footer with one column."""

    def __len__(self) -> int:
        return 1

    def column(self, _: int) -> Any:
        return SimpleNamespace(path="id")


@pytest.mark.parametrize(
    "second", [None, SimpleNamespace(has_min_max=False, num_values=1, physical_type="INT64")], ids=["no statistics", "no bounds"]
)
def test_bounds_that_one_row_group_does_not_know_are_not_known(second: Any) -> None:
    first = SimpleNamespace(has_min_max=True, min_raw=1, max_raw=2, num_values=2, physical_type="INT64")
    assert json.loads(FileStats([StatsColumn(("id",), pa.int64(), True)]).finish(footer_of(first, second)))["minValues"] == {}


def footer_of(*statistics: Any) -> Any:
    groups = [SimpleNamespace(column=lambda _, found=found: SimpleNamespace(statistics=found)) for found in statistics]
    return SimpleNamespace(schema=OneLeaf(), num_row_groups=len(groups), row_group=lambda number: groups[number])


LARGEST, LARGEST_SINGLE = float(np.finfo(np.float64).max), float(np.finfo(np.float32).max)


@pytest.mark.parametrize(
    ("type", "low", "high", "known"),
    [
        ("DOUBLE", LARGEST, math.inf, False),
        ("DOUBLE", -math.inf, -LARGEST, False),
        ("FLOAT", LARGEST_SINGLE, math.inf, False),
        ("FLOAT", -math.inf, -LARGEST_SINGLE, False),
        ("DOUBLE", LARGEST, LARGEST, True),
        ("DOUBLE", LARGEST_SINGLE, math.inf, True),
        ("DOUBLE", 1.0, math.inf, True),
        ("FLOAT", -math.inf, math.inf, True),
    ],
)
def test_infinity_alone_has_no_bounds_as_older_arrows_write_it(type: str, low: float, high: float, known: bool) -> None:
    found = SimpleNamespace(has_min_max=True, min_raw=low, max_raw=high, num_values=1, physical_type=type)
    kind = pa.float64() if type == "DOUBLE" else pa.float32()
    text = FileStats([StatsColumn(("id",), kind, True)]).finish(footer_of(found))
    assert [bool(json.loads(text)[name]) for name in ("minValues", "maxValues")] == [known, known]


@pytest.mark.parametrize("values", [[math.inf], [-math.inf, -math.inf], [math.inf, -math.inf]])
def test_bounds_of_infinite_values_are_never_finite(tmp_path: Path, values: list[float]) -> None:
    told = stats_of(tmp_path, [pa.table({"x": values})], [StatsColumn(("x",), pa.float64(), True)])
    assert {*told["minValues"].values(), *told["maxValues"].values()} <= {"Infinity", "-Infinity"}


def test_texts_and_names_are_not_escaped(tmp_path: Path) -> None:
    name, value = "\U00020000", "\U00020001" * 40
    table = pa.table({name: [value]})
    writer = DataFileWriter(write_spec(tmp_path, table.schema, stats=bounded(table.schema)), {}, "", 0)
    writer.write(table)
    (file,) = writer.close()
    assert "\\" not in file.stats
    assert f'"minValues":{{"{name}":"{value[:32]}"}}' in file.stats
