"""Thrift's compact protocol: what is read is written again, and bytes that are no struct are told apart without much memory."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamerge.protocol.formats import thrift as t
from tests.unit.worker.data import examples

numbers = st.integers(-(2**62), 2**62)
SINGLE: list[tuple[int, st.SearchStrategy[Any]]] = [
    (t.TRUE, st.just(True)),
    (t.FALSE, st.just(False)),
    (t.BYTE, st.integers(0, 255)),
    (t.I16, st.integers(-(2**15), 2**15 - 1)),
    (t.I32, st.integers(-(2**31), 2**31 - 1)),
    (t.I64, numbers),
    (t.DOUBLE, st.binary(min_size=8, max_size=8)),
    (t.BINARY, st.binary(max_size=200)),
]
singles = st.one_of([st.tuples(st.just(type), values) for type, values in SINGLE])
KEYS = [(t.TRUE, st.integers(1, 2)), *SINGLE[2:]]


def _lists(type: int, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(values, max_size=20).map(lambda found: (t.LIST, t.Items(type, tuple(found))))


def _maps(key: Any, value: Any) -> st.SearchStrategy[Any]:
    pairs = st.lists(st.tuples(key[1], value[1]), max_size=4)
    return pairs.map(lambda found: (t.MAP, t.Pairs(key[0], value[0], tuple(found)) if found else t.Pairs(0, 0, ())))


def _larger(fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    structs = st.dictionaries(st.integers(1, 2**15 - 1) | st.integers(1, 9), fields, max_size=6)
    elements = [*KEYS, (t.STRUCT, structs)]
    lists = st.sampled_from(elements).flatmap(lambda kind: _lists(*kind))
    maps = st.tuples(st.sampled_from(KEYS), st.sampled_from(elements)).flatmap(lambda kinds: _maps(*kinds))
    return structs.map(lambda found: (t.STRUCT, found)) | lists | maps


fields = st.recursive(singles, _larger, max_leaves=20)
structs = st.dictionaries(st.integers(1, 2**15 - 1) | st.integers(1, 20), fields, max_size=8)


@examples
@given(structs, st.binary(max_size=4))
def test_a_struct_is_read_as_it_was_written(struct: t.Struct, rest: bytes) -> None:
    data = t.struct_bytes(struct)
    assert t.read_struct(data + rest) == (struct, len(data))
    assert t.read_struct(rest + data, len(rest)) == (struct, len(rest) + len(data))


@examples
@given(structs, st.data())
def test_a_struct_that_is_cut_off_is_none(struct: t.Struct, data: st.DataObject) -> None:
    whole = t.struct_bytes(struct)
    with pytest.raises(t.Malformed):
        t.read_struct(whole[: data.draw(st.integers(0, len(whole) - 1))])


@examples
@given(st.binary(max_size=400))
def test_any_bytes_are_a_struct_or_malformed(data: bytes) -> None:
    try:
        found, end = t.read_struct(data)
    except t.Malformed:
        return
    assert end <= len(data)
    assert t.read_struct(t.struct_bytes(found))[0] == found


@pytest.mark.parametrize(
    "data",
    [
        bytes([0x19, 0xFC, 0xFF, 0xFF, 0xFF, 0xFF, 0x07]),  # a list of two thousand million structs
        bytes([0x18, 0xFF, 0xFF, 0xFF, 0xFF, 0x07]),  # a text of as many bytes
        bytes([0x1B, 0xFF, 0xFF, 0xFF, 0xFF, 0x07, 0x88]),  # a map of as many pairs
        bytes([0x1C]) * 100_000,  # structs within structs
        bytes([0x19, 0x19]) * 50_000,  # lists within lists
        bytes([0x16]) + b"\xff" * 100_000,  # a number without an end
        bytes([0x16, 0x02, 0x06, 0x02, 0x02]),  # a field that is there twice
        bytes([0x1D]),
    ],
)
def test_giant_sizes_take_no_memory(data: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(t.Malformed):
            t.read_struct(data)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_memory_is_a_small_multiple_of_the_bytes() -> None:
    data = bytes([0x19, 0xFC]) + b"\xa0\x8d\x06" + bytes(100_000)  # a hundred thousand empty structs, of a byte each
    tracemalloc.start()
    t.read_struct(data + b"\x00")
    assert tracemalloc.get_traced_memory()[1] < 200 * len(data)
    tracemalloc.stop()
