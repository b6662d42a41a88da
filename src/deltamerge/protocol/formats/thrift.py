"""Thrift's compact protocol: structs as their fields, those that nobody knows included, and back to the same bytes.

Source: Apache Thrift, doc/specs/thrift-compact-protocol.md. Knows nothing of what the fields mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
_BOOLEANS = (TRUE, FALSE)
_NUMBERS = (I16, I32, I64)
_BYTES = (*_BOOLEANS, BYTE)  # a byte each, in a list
_LENGTHS = {TRUE: 0, FALSE: 0, BYTE: 1, DOUBLE: 8}  # of a field's value
_DEEPEST = 32

# The type and the value of each field, by its id: whole numbers, booleans and bytes are themselves, a DOUBLE is its eight bytes.
Struct = Mapping[int, tuple[int, Any]]


class Malformed(ValueError):
    """Bytes that are no struct, or one that is cut off."""


@dataclass(frozen=True, slots=True)
class Items:
    """The elements of a list or a set, all of one type; booleans are bytes."""

    type: int
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Pairs:
    """The keys and values of a map, each of one type."""

    key: int
    value: int
    values: tuple[tuple[Any, Any], ...]


def read_struct(data: bytes, at: int = 0) -> tuple[Struct, int]:
    """The struct that begins at a place, and the place behind it. Raises Malformed; what is read is never more than the bytes."""
    reader = _Reader(data, at)
    try:
        return reader.struct(0), reader.at
    except IndexError as error:
        raise Malformed("it is cut off") from error


def places(
    data: bytes, at: int = 0, walks: Mapping[int, Callable[[int], int]] | None = None
) -> tuple[dict[int, tuple[int, int]], int]:
    """The type of each field of a struct and where its value begins, and the place behind the struct. Raises Malformed.

    The values of the fields that `walks` has are walked by it: it is given where
    one begins, and gives back the place behind it.
    """
    found: dict[int, tuple[int, int]] = {}
    id = 0
    try:
        while head := data[at]:
            at, type = at + 1, head & 15
            if head >> 4:
                id += head >> 4
            else:
                number, at = _varint(data, at)
                id = _signed(number)
            if id in found or not 0 < id < 1 << 15:
                raise Malformed(f"the field {id} is there twice, or can't be")
            found[id] = (type, at)
            at = walks[id](at) if walks and id in walks else _behind(data, at, type, 0)
    except IndexError as error:
        raise Malformed("it is cut off") from error
    return found, at + 1


def each_struct(data: bytes, at: int, walk: Callable[[int], int]) -> int:
    """Walk each struct of the list that begins at a place by `walk`; the place behind the list. Raises Malformed, too, if its
    elements are something else.
    """
    try:
        count, type, at = _list_head(data, at)
        if count and type != STRUCT:
            raise Malformed("it is no list of structs")
        for _ in range(count):
            at = walk(at)
    except IndexError as error:
        raise Malformed("it is cut off") from error
    return at


def struct_end(data: bytes, at: int) -> int:
    """The place behind a struct. Raises Malformed."""
    try:
        return _behind(data, at, STRUCT, 0)
    except IndexError as error:
        raise Malformed("it is cut off") from error


def number_at(data: bytes, at: int) -> int:
    """The whole number, of any length, that begins at a place. Raises Malformed."""
    try:
        return _signed(_varint(data, at)[0])
    except IndexError as error:
        raise Malformed("it is cut off") from error


def struct_bytes(fields: Struct) -> bytes:
    """A struct as bytes, its fields in the order of their ids."""
    out = bytearray()
    _put_struct(out, fields)
    return bytes(out)


class _Reader:
    __slots__ = ("at", "data")

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at

    def varint(self) -> int:
        found = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            found |= (byte & 127) << shift
            if byte < 128:
                return found
            shift += 7
            if shift > 63:
                raise Malformed("a number is too long")

    def value(self, type: int, depth: int) -> Any:
        if type in _NUMBERS:
            return _signed(self.varint())
        if type == BINARY:
            return self.bytes(self.varint())
        if type == STRUCT:
            return self.struct(depth + 1)
        if type in (LIST, SET):
            head = self.byte()
            return self.items(head >> 4 if head >> 4 != 15 else self.varint(), head & 15, depth + 1)
        if type == BYTE:
            return self.byte()
        if type == DOUBLE:
            return self.bytes(8)
        if type == MAP:
            return self.pairs(depth + 1)
        raise Malformed(f"the type {type} is not known")

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def bytes(self, count: int) -> bytes:
        end = self.at + count
        if end > len(self.data):
            raise Malformed("it is cut off")
        found = self.data[self.at : end]
        self.at = end
        return found

    def element(self, type: int, depth: int) -> Any:
        return self.byte() if type in _BOOLEANS else self.value(type, depth)

    def items(self, count: int, type: int, depth: int) -> Items:
        self.check(count, depth)
        return Items(type, tuple([self.element(type, depth) for _ in range(count)]))

    def pairs(self, depth: int) -> Pairs:
        count = self.varint()
        self.check(count, depth)
        if not count:
            return Pairs(0, 0, ())
        types = self.byte()
        key, value = types >> 4, types & 15
        return Pairs(key, value, tuple([(self.element(key, depth), self.element(value, depth)) for _ in range(count)]))

    def check(self, count: int, depth: int) -> None:
        """Each element takes a byte or more, so that room is never made for more of them than there are bytes."""
        if count > len(self.data) - self.at:
            raise Malformed("it is cut off")
        if depth > _DEEPEST:
            raise Malformed("it is nested too deeply")

    def struct(self, depth: int) -> Struct:
        self.check(0, depth)
        data, at, end = self.data, self.at, len(self.data)
        fields: dict[int, tuple[int, Any]] = {}
        id = 0
        while True:
            head = data[at]
            at += 1
            if not head:
                self.at = at
                return fields
            type = head & 15
            if head >> 4:
                id += head >> 4
            else:
                self.at = at
                id = _signed(self.varint())
                at = self.at
            if id in fields or not 0 < id < 1 << 15:
                raise Malformed(f"the field {id} is there twice, or can't be")
            if type in _BOOLEANS:
                fields[id] = (type, type == TRUE)
                continue
            # Most fields are short numbers and texts: no call for these.
            byte = data[at]
            if type in _NUMBERS and byte < 128:
                at += 1
                fields[id] = (type, (byte >> 1) ^ -(byte & 1))
            elif type == BINARY and byte < 128 and at + 1 + byte <= end:
                fields[id] = (type, data[at + 1 : at + 1 + byte])
                at += 1 + byte
            else:
                self.at = at
                fields[id] = (type, self.value(type, depth))
                at = self.at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number without a sign, and the place behind it."""
    found = shift = 0
    while True:
        byte = data[at]
        at += 1
        found |= (byte & 127) << shift
        if byte < 128:
            return found, at
        shift += 7
        if shift > 63:
            raise Malformed("a number is too long")


def _list_head(data: bytes, at: int) -> tuple[int, int, int]:
    """How many elements a list has, their type, and where the first begins. No element is shorter than a byte."""
    head = data[at]
    count, at = (head >> 4, at + 1) if head >> 4 != 15 else _varint(data, at + 1)
    if count > len(data) - at:
        raise Malformed("it is cut off")
    return count, head & 15, at


def _behind(data: bytes, at: int, type: int, depth: int) -> int:
    """The place behind a value that is a struct's field; IndexError where there is none."""
    if depth > _DEEPEST:
        raise Malformed("it is nested too deeply")
    if type == STRUCT:
        while head := data[at]:
            at += 1
            if head < 16:
                at = _behind_number(data, at)
            type = head & 15
            # Most fields are numbers and short texts: no call for these.
            if type in _NUMBERS:
                while data[at] > 127:
                    at += 1
                at += 1
            elif type == BINARY and data[at] < 128:
                at += 1 + data[at]
            elif type not in _BOOLEANS:
                at = _behind(data, at, type, depth + 1)
        return at + 1
    if type in (LIST, SET):
        count, type, at = _list_head(data, at)
        if type in _BYTES:
            return at + count
        if type in _NUMBERS:
            for _ in range(count):
                while data[at] > 127:
                    at += 1
                at += 1
            return at
        for _ in range(count):
            at = _behind(data, at, type, depth + 1)
        return at
    if type == MAP:
        return _behind_map(data, at, depth)
    if type == BINARY:
        length, at = _varint(data, at)
        return at + length
    if type in _NUMBERS:
        return _behind_number(data, at)
    if type not in _LENGTHS:
        raise Malformed(f"the type {type} is not known")
    return at + _LENGTHS[type]


def _behind_number(data: bytes, at: int) -> int:
    while data[at] > 127:
        at += 1
    return at + 1


def _behind_map(data: bytes, at: int, depth: int) -> int:
    count, at = _varint(data, at)
    if count > len(data) - at:
        raise Malformed("it is cut off")
    if not count:
        return at
    types = (data[at] >> 4, data[at] & 15)
    at += 1
    for _ in range(count):
        for type in types:
            at = at + 1 if type in _BOOLEANS else _behind(data, at, type, depth + 1)
    return at


def _signed(number: int) -> int:
    return (number >> 1) ^ -(number & 1)


def _put_varint(out: bytearray, number: int) -> None:
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)


def _put_number(out: bytearray, number: int) -> None:
    _put_varint(out, number << 1 if number >= 0 else (-number << 1) - 1)


def _put(out: bytearray, type: int, value: Any) -> None:
    if type in _NUMBERS:
        _put_number(out, value)
    elif type == BINARY:
        _put_varint(out, len(value))
        out += value
    elif type == STRUCT:
        _put_struct(out, value)
    elif type in (LIST, SET):
        count = len(value.values)
        out.append(min(count, 15) << 4 | value.type)
        if count >= 15:
            _put_varint(out, count)
        for item in value.values:
            _put_element(out, value.type, item)
    elif type == BYTE:
        out.append(value)
    elif type == DOUBLE:
        out += value
    else:
        _put_varint(out, len(value.values))
        if value.values:
            out.append(value.key << 4 | value.value)
        for key, item in value.values:
            _put_element(out, value.key, key)
            _put_element(out, value.value, item)


def _put_element(out: bytearray, type: int, value: Any) -> None:
    if type in _BOOLEANS:
        out.append(value)
    else:
        _put(out, type, value)


def _put_struct(out: bytearray, fields: Struct) -> None:
    last = 0
    for id in sorted(fields):
        type, value = fields[id]
        if type in _BOOLEANS:
            type = TRUE if value else FALSE
        if id - last < 16:
            out.append(id - last << 4 | type)
        else:
            out.append(type)
            _put_number(out, id)
        if type not in _BOOLEANS:
            _put(out, type, value)
        last = id
    out.append(0)
