"""Shredded variants come back as Spark encodes them whole; what no variant can be is refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from deltamerge.protocol.values.variant import STORED_VARIANT, VARIANT, is_variant
from deltamerge.worker.scan.columns import conform
from deltamerge.worker.scan.row_errors import Refused
from deltamerge.worker.scan.variants import field_ids

EMPTY = b"\x01\x00\x00"
NAMES = b"\x01\x02\x00\x01\x02ab"  # the names a and b


def shredded(type: pa.DataType, rows: list[Any]) -> pa.Array:
    fields = [pa.field("metadata", pa.binary(), False), pa.field("value", pa.binary()), pa.field("typed_value", type)]
    return pa.array(rows, pa.struct(fields))


def values(array: pa.Array) -> list[bytes | None]:
    found = conform(array, VARIANT)
    assert found.type.equals(VARIANT)
    return [None if value is None else value["value"] for value in found.to_pylist()]


TYPED = [
    (pa.bool_(), True, b"\x04"),
    (pa.bool_(), False, b"\x08"),
    (pa.int64(), 1, b"\x0c\x01"),
    (pa.int64(), -129, b"\x10\x7f\xff"),
    (pa.int64(), 1 << 31, b"\x18" + (1 << 31).to_bytes(8, "little")),
    (pa.int32(), 70000, b"\x14" + (70000).to_bytes(4, "little")),
    (pa.float64(), 1.5, b"\x1c\x00\x00\x00\x00\x00\x00\xf8\x3f"),
    (pa.float32(), 1.5, b"\x38\x00\x00\xc0\x3f"),
    (pa.decimal128(5, 2), Decimal("-1.50"), b"\x20\x02\x6a\xff\xff\xff"),
    (pa.decimal128(20, 2), Decimal("12345678901.25"), b"\x24\x02" + (1234567890125).to_bytes(8, "little")),
    (pa.decimal128(38, 0), Decimal(10**30), b"\x28\x00" + (10**30).to_bytes(16, "little")),
    (pa.date32(), dt.date(1970, 1, 3), b"\x2c\x02\x00\x00\x00"),
    (pa.timestamp("us", "UTC"), 5, b"\x30\x05" + bytes(7)),
    (pa.timestamp("us"), 5, b"\x34\x05" + bytes(7)),
    (pa.timestamp("ns"), 5, b"\x4c\x05" + bytes(7)),
    (pa.time64("us"), 5, b"\x44\x05" + bytes(7)),
    (pa.string(), "é", b"\x09\xc3\xa9"),
    (pa.string(), "x" * 64, b"\x40\x40\x00\x00\x00" + b"x" * 64),
    (pa.binary(), b"ab", b"\x3c\x02\x00\x00\x00ab"),
    (pa.binary(16), bytes(16), b"\x50" + bytes(16)),
]


@pytest.mark.parametrize(("type", "value", "encoded"), TYPED, ids=[str(index) for index in range(len(TYPED))])
def test_a_typed_value_is_encoded_as_spark_would(type: pa.DataType, value: Any, encoded: bytes) -> None:
    typed = pa.array([value, None, None], type)
    fields = [pa.array([EMPTY] * 3), pa.array([None, b"\x00", b"\x05x"], pa.binary()), typed]
    array = pa.StructArray.from_arrays(fields, ["metadata", "value", "typed_value"])
    assert values(array) == [encoded, b"\x00", b"\x05x"]


def test_a_missing_value_is_a_variant_null_and_a_null_group_is_null() -> None:
    rows = [{"metadata": EMPTY, "value": None, "typed_value": None}, None]
    assert values(shredded(pa.int64(), rows)) == [b"\x00", None]
    assert values(shredded(pa.int64(), rows).slice(1)) == [None]


OBJECT = pa.struct([("a", pa.struct([("value", pa.binary()), ("typed_value", pa.int64())]))])


def test_an_object_has_its_shredded_fields_and_what_is_left_in_the_order_of_names() -> None:
    one = {"value": None, "typed_value": 1}
    none = {"value": None, "typed_value": None}
    rows = [
        {"metadata": NAMES, "value": None, "typed_value": {"a": one}},
        {"metadata": NAMES, "value": b"\x02\x01\x01\x00\x02\x0c\x07", "typed_value": {"a": one}},
        {"metadata": NAMES, "value": None, "typed_value": {"a": none}},
        {"metadata": NAMES, "value": None, "typed_value": {"a": {"value": b"\x00", "typed_value": None}}},
    ]
    both = b"\x02\x02\x00\x01\x00\x02\x04\x0c\x01\x0c\x07"
    assert values(shredded(OBJECT, rows)) == [b"\x02\x01\x00\x00\x02\x0c\x01", both, b"\x02\x00\x00", b"\x02\x01\x00\x00\x01\x00"]


def test_arrays_have_their_own_items_also_in_a_slice_and_many_take_four_bytes_for_their_number() -> None:
    type = pa.list_(pa.struct([("value", pa.binary()), ("typed_value", pa.int32())]))
    item = {"value": None, "typed_value": 1}
    rows = [
        {"metadata": EMPTY, "value": None, "typed_value": [item, {"value": b"\x00", "typed_value": None}]},
        {"metadata": EMPTY, "value": None, "typed_value": []},
        {"metadata": EMPTY, "value": None, "typed_value": [item] * 256},
    ]
    two, large = b"\x03\x02\x00\x02\x03\x0c\x01\x00", values(shredded(type, rows))[2]
    assert values(shredded(type, rows))[:2] == [two, b"\x03\x00\x00"]
    assert values(shredded(type, rows).slice(1)) == [b"\x03\x00\x00", large]
    assert large is not None
    assert large[:5] == b"\x17\x00\x01\x00\x00"
    assert len(large) == 5 + 257 * 2 + 512


REFUSED = [
    ("twice, as it is and typed", pa.int64(), {"metadata": EMPTY, "value": b"\x00", "typed_value": 1}),
    ("lacks the name", OBJECT, {"metadata": EMPTY, "value": None, "typed_value": {"a": {"value": b"\x00", "typed_value": None}}}),
    ("is left of a shredded object", OBJECT, {"metadata": NAMES, "value": b"\x00", "typed_value": {"a": None}}),
    ("a field is there twice", OBJECT, {"metadata": NAMES, "value": b"\x02\x01\x00\x00\x01\x00", "typed_value": {"a": None}}),
    ("another version", pa.int64(), {"metadata": b"\x02", "value": None, "typed_value": 1}),
    ("shredded as uint8", pa.uint8(), {"metadata": EMPTY, "value": None, "typed_value": 1}),
]


@pytest.mark.parametrize(("reason", "type", "row"), REFUSED, ids=[reason for reason, _, _ in REFUSED])
def test_what_no_variant_can_be_is_refused(reason: str, type: pa.DataType, row: dict[str, Any]) -> None:
    with pytest.raises(Refused, match=reason):
        values(shredded(type, [row]))


def test_names_have_their_ids_and_metadata_that_is_cut_off_is_refused() -> None:
    assert field_ids(NAMES) == {b"a": 0, b"b": 1}
    with pytest.raises(Refused, match="cut off"):
        field_ids(NAMES[:-1])


def test_only_marked_structs_are_variants() -> None:
    assert is_variant(VARIANT)
    assert not is_variant(STORED_VARIANT)
    assert not is_variant(pa.binary())
    plain = pa.array([{"metadata": b"m", "value": b"v"}], pa.struct([("metadata", pa.binary()), ("value", pa.binary())]))
    assert values(plain) == [b"v"]
