"""VARIANT values of data files: stored whole, or shredded into typed columns and put together again here.

Source: parquet-format's VariantEncoding.md and VariantShredding.md. Numbers and decimals get the smallest encoding that holds
them, as Spark gives them, so that what Spark has shredded comes back byte by byte.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.protocol.values.variant import VARIANT
from deltamerge.worker.scan.row_errors import Refused

_NULL = b"\x00"
_SHORT, _OBJECT, _ARRAY = 1, 2, 3
_WIDTHS = {
    0: 0,
    1: 0,
    2: 0,
    3: 1,
    4: 2,
    5: 4,
    6: 8,
    7: 8,
    8: 5,
    9: 9,
    10: 17,
    11: 4,
    12: 8,
    13: 8,
    14: 4,
    17: 8,
    18: 8,
    19: 8,
    20: 16,
}
_MOMENTS = {("us", True): 12, ("us", False): 13, ("ns", True): 18, ("ns", False): 19}
Ids = Mapping[bytes, int]
Encoder = Callable[[Any], bytes]


def is_shredded(type: pa.DataType) -> bool:
    """Whether a variant's group in a data file has typed columns beside, or in place of, its value."""
    return bool(pa.types.is_struct(type) and type.get_field_index("typed_value") >= 0)


def unshredded(values: pa.StructArray) -> pa.StructArray:
    """The variants of a shredded group, each a value and its metadata. Raises Refused for what no variant can be."""
    there = values.is_valid().to_pylist()
    known = [text or b"" for text in values.field("metadata").to_pylist()]
    dictionaries: dict[bytes, Ids] = {}
    for text, present in zip(known, there, strict=True):
        if present and text not in dictionaries:
            dictionaries[text] = field_ids(text)
    found = _joined(values, [dictionaries.get(text, {}) for text in known])
    # Both are missing only where a value may be; here is one, so it is a variant's null.
    encoded = pa.array(
        [(_NULL if value is None else value) if ok else None for value, ok in zip(found, there, strict=True)], pa.binary()
    )
    metadata = pa.array([text if ok else None for text, ok in zip(known, there, strict=True)], pa.binary())
    return pa.StructArray.from_arrays(
        [encoded, metadata], fields=list(VARIANT), mask=pa.array([not ok for ok in there], pa.bool_())
    )


def field_ids(metadata: bytes) -> Ids:
    """The ids of field names in a variant's metadata."""
    if not metadata or metadata[0] & 15 != 1:
        raise _malformed("its metadata has another version than 1")
    size = (metadata[0] >> 6) + 1
    count = _number(metadata, 1, size)
    first = 1 + (count + 2) * size
    ends = [_number(metadata, 1 + (at + 1) * size, size) for at in range(count + 1)]
    if first + ends[-1] > len(metadata):
        raise _malformed("its metadata is cut off")
    return {metadata[first + ends[at] : first + ends[at + 1]]: at for at in reversed(range(count))}


def _joined(group: pa.StructArray, ids: Sequence[Ids]) -> list[bytes | None]:
    """The encoded value of each slot of a group of `value` and `typed_value`, either of which may be absent; None for none."""
    count = len(group)
    columns = dict(zip(group.type.names, group.flatten(), strict=True))  # null, too, where the group is
    values = columns["value"].to_pylist() if "value" in columns else [None] * count
    if "typed_value" not in columns:
        return values
    typed = columns["typed_value"]
    there = typed.is_valid().to_pylist()
    if pa.types.is_struct(typed.type):
        parts = {name.encode(): _joined(part, ids) for name, part in zip(typed.type.names, typed.flatten(), strict=True)}
        return [
            _object(values[at], {name: part[at] for name, part in parts.items()}, ids[at]) if there[at] else values[at]
            for at in range(count)
        ]
    if any(ok and value is not None for ok, value in zip(there, values, strict=True)):
        raise _malformed("a value is there twice, as it is and typed")
    encoded = _arrays(typed, ids) if _is_list(typed.type) else _primitives(typed)
    return [encoded[at] if there[at] else values[at] for at in range(count)]


def _is_list(type: pa.DataType) -> bool:
    return bool(pa.types.is_list(type) or pa.types.is_large_list(type))


def _arrays(lists: Any, ids: Sequence[Ids]) -> list[bytes]:
    offsets = lists.offsets.to_numpy()
    below = lists.values.slice(offsets[0], offsets[-1] - offsets[0])
    owners = np.repeat(np.arange(len(lists)), np.diff(offsets)).tolist()
    items = [_NULL if item is None else item for item in _joined(below, [ids[owner] for owner in owners])]
    starts = offsets - offsets[0]
    return [_array(items[start:end]) for start, end in pairwise(starts.tolist())]


def _array(items: Sequence[bytes]) -> bytes:
    large = len(items) > 255
    body, offsets, size = _laid_out(items)
    header = (large << 2 | size - 1) << 2 | _ARRAY
    return bytes([header]) + len(items).to_bytes(4 if large else 1, "little") + offsets + body


def _object(rest: bytes | None, parts: Mapping[bytes, bytes | None], ids: Ids) -> bytes:
    """An object of shredded fields, those aside that it does not have, and of the fields of a value that holds the others."""
    fields = {name: part for name, part in parts.items() if part is not None}
    numbers = {}
    for name in fields:
        if name not in ids:
            raise _malformed("its metadata lacks the name of a shredded field")
        numbers[name] = ids[name]
    if rest is not None:
        names = {number: name for name, number in ids.items()}
        for number, value in _fields(rest):
            left = names.get(number)
            if left is None or left in parts:
                raise _malformed("a field is there twice, or has no name")
            fields[left], numbers[left] = value, number
    order = sorted(fields)
    large = len(order) > 255
    width = _bytes_for(max(numbers.values(), default=0))
    body, offsets, size = _laid_out([fields[name] for name in order])
    header = (large << 4 | width - 1 << 2 | size - 1) << 2 | _OBJECT
    listed = b"".join(numbers[name].to_bytes(width, "little") for name in order)
    return bytes([header]) + len(order).to_bytes(4 if large else 1, "little") + listed + offsets + body


def _laid_out(items: Sequence[bytes]) -> tuple[bytes, bytes, int]:
    """Values one behind the other, their offsets, and the bytes of an offset."""
    ends = np.cumsum([0, *map(len, items)]).tolist()
    size = _bytes_for(ends[-1])
    return b"".join(items), b"".join(end.to_bytes(size, "little") for end in ends), size


def _fields(value: bytes) -> list[tuple[int, bytes]]:
    """The fields of an encoded object: their names' ids and their values."""
    if not value or value[0] & 3 != _OBJECT:
        raise _malformed("what is left of a shredded object is none")
    header = value[0] >> 2
    count_size, width, size = 4 if header >> 4 & 1 else 1, (header >> 2 & 3) + 1, (header & 3) + 1
    count = _number(value, 1, count_size)
    ids = 1 + count_size
    offsets = ids + count * width
    first = offsets + (count + 1) * size
    found = []
    for at in range(count):
        start = first + _number(value, offsets + at * size, size)
        found.append((_number(value, ids + at * width, width), value[start : start + _length(value, start)]))
    return found


def _length(value: bytes, at: int) -> int:
    """The bytes of the encoded value that begins at a place: those of an object's fields need not be in order."""
    if at >= len(value):
        raise _malformed("a value is cut off")
    kind, header = value[at] & 3, value[at] >> 2
    if kind == _SHORT:
        length = 1 + header
    elif kind == 0:
        if header in (15, 16):
            length = 5 + _number(value, at + 1, 4)
        elif header in _WIDTHS:
            length = 1 + _WIDTHS[header]
        else:
            raise _malformed(f"a value has the unknown type {header}")
    else:
        large, width = (header >> 4 & 1, (header >> 2 & 3) + 1) if kind == _OBJECT else (header >> 2 & 1, 0)
        count_size, size = 4 if large else 1, (header & 3) + 1
        count = _number(value, at + 1, count_size)
        last = at + 1 + count_size + count * (width + size)
        length = last + size + _number(value, last, size) - at
    if at + length > len(value):
        raise _malformed("a value is cut off")
    return length


def _primitives(values: pa.Array) -> list[bytes | None]:
    """Typed values as encoded ones, null where they are."""
    type = values.type
    if pa.types.is_boolean(type):
        return _encoded(values, lambda value: b"\x04" if value else b"\x08")
    if pa.types.is_signed_integer(type):
        return _encoded(values, _integer)
    if pa.types.is_float32(type):
        return _encoded(values, lambda value: b"\x38" + struct.pack("<f", value))
    if pa.types.is_float64(type):
        return _encoded(values, lambda value: b"\x1c" + struct.pack("<d", value))
    if pa.types.is_decimal(type) and type.scale >= 0:
        return _encoded(values, lambda value: _decimal(value, type.scale))
    if pa.types.is_date32(type):
        return _encoded(values.cast(pa.int32()), lambda value: b"\x2c" + struct.pack("<i", value))
    if pa.types.is_time64(type) and type.unit == "us":
        return _encoded(values.cast(pa.int64()), lambda value: b"\x44" + struct.pack("<q", value))
    if pa.types.is_timestamp(type) and (type.unit, type.tz is not None) in _MOMENTS:
        header = bytes([_MOMENTS[type.unit, type.tz is not None] << 2])
        return _encoded(values.cast(pa.int64()), lambda value: header + struct.pack("<q", value))
    if pa.types.is_string(type) or pa.types.is_large_string(type):
        return _encoded(values.cast(pa.large_binary()), _text)
    if pa.types.is_binary(type) or pa.types.is_large_binary(type):
        return _encoded(values, lambda value: b"\x3c" + struct.pack("<I", len(value)) + value)
    if pa.types.is_fixed_size_binary(type) and type.byte_width == 16:
        return _encoded(values, lambda value: b"\x50" + value)
    raise _malformed(f"values are shredded as {type}")


def _encoded(values: pa.Array, encode: Encoder) -> list[bytes | None]:
    return [None if value is None else encode(value) for value in values.to_pylist()]


def _integer(value: int) -> bytes:
    kind, size = next(
        (kind, size) for kind, size in ((3, 1), (4, 2), (5, 4), (6, 8)) if -1 << 8 * size - 1 <= value < 1 << 8 * size - 1
    )
    return bytes([kind << 2]) + value.to_bytes(size, "little", signed=True)


def _decimal(value: Decimal, scale: int) -> bytes:
    sign, digits, _ = value.as_tuple()
    unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
    most = max(len(str(abs(unscaled))), scale)
    kind, size = (8, 4) if most <= 9 else (9, 8) if most <= 18 else (10, 16)
    return bytes([kind << 2, scale]) + unscaled.to_bytes(size, "little", signed=True)


def _text(value: bytes) -> bytes:
    if len(value) < 64:
        return bytes([len(value) << 2 | _SHORT]) + value
    return b"\x40" + struct.pack("<I", len(value)) + value


def _bytes_for(number: int) -> int:
    return max(1, (number.bit_length() + 7) // 8)


def _number(data: bytes, at: int, size: int) -> int:
    if at + size > len(data):
        raise _malformed("it is cut off")
    return int.from_bytes(data[at : at + size], "little")


def _malformed(reason: str) -> Refused:
    return Refused("DELTAMERGE_CORRUPT_DATA_FILE", f"A data file has a malformed variant: {reason}.")


def required(values: pa.StructArray, type: pa.StructType) -> pa.StructArray:
    """Variants as data files hold them: both binaries are there, also where the variant is null."""
    parts = [pc.fill_null(values.field(at), b"") for at in range(2)]
    return pa.StructArray.from_arrays(parts, fields=list(type), mask=pc.is_null(values) if values.null_count else None)
