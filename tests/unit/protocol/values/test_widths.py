"""About how many bytes values take."""

from __future__ import annotations

import pyarrow as pa

from deltamerge.protocol.values.widths import is_fixed, row_width, width


def test_fixed_types_take_their_bytes_and_others_some() -> None:
    assert [width(t) for t in (pa.int64(), pa.int32(), pa.int8(), pa.bool_(), pa.date32())] == [8, 4, 1, 1, 4]
    assert [width(t) for t in (pa.decimal128(38, 2), pa.timestamp("us", "UTC"), pa.float32())] == [16, 8, 4]
    assert {width(t) for t in (pa.string(), pa.binary(), pa.list_(pa.int8()), pa.struct([("a", pa.int8())]))} == {32}


def test_a_row_takes_what_its_values_take() -> None:
    assert row_width(pa.schema([("a", pa.int64()), ("b", pa.string())])) == 40
    assert row_width(pa.schema([])) == 0


def test_which_types_have_one_width() -> None:
    assert all(map(is_fixed, (pa.int64(), pa.bool_(), pa.date32(), pa.decimal128(9, 2), pa.timestamp("us"))))
    assert not any(map(is_fixed, (pa.string(), pa.binary(), pa.list_(pa.int8()), pa.struct([("a", pa.int8())]))))
