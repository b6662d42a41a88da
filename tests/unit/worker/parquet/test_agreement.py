"""What a file says twice of its values, and not alike, is found out before a byte of it is copied."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltamerge.protocol.formats.thrift import BINARY, BYTE, FALSE, I32, I64, LIST, STRUCT, TRUE, Items, Struct
from deltamerge.worker.parquet.agreement import Told, check_statistics, check_told, told_by_headers, told_by_index
from deltamerge.worker.parquet.footer import Chunk
from deltamerge.worker.parquet.places import DATA, DICTIONARY, Walked
from deltamerge.worker.parquet.plain import NotSpliceable, Reason
from deltamerge.worker.parquet.schema import Leaf
from deltamerge.worker.scan.row_errors import Refused
from tests.unit.worker.data import bounded
from tests.unit.worker.write.splicing import IDS, NAME, ROWS, by_arrow, edited_statistics, update_of

INT32, INT64, FLOAT, DOUBLE, TEXT, FIXED = 1, 2, 4, 5, 6, 7
NAN = float("nan")


def whole(value: int) -> bytes:
    return value.to_bytes(8, "little", signed=True)


def number(value: float) -> bytes:
    return struct.pack("<d", value)


def wide(value: int) -> bytes:
    return value.to_bytes(16, "big", signed=True)


def leaf_of(type: int, definition: int = 1, repetition: int = 0, is_decimal: bool = False) -> Leaf:
    return Leaf((b"c",), type, 16 if type == FIXED else 0, definition, repetition, is_decimal)


def chunk_of(type: int, said: Struct, levels: tuple[int, ...] | None = None) -> Chunk:
    """A chunk of ten values."""
    meta: dict[int, tuple[int, Any]] = {1: (I32, type), 5: (I64, 10), 12: (STRUCT, said)}
    if levels is not None:
        meta[16] = (STRUCT, {3: (LIST, Items(I64, levels))})
    return Chunk({}, meta, 4, 4)


def between(low: bytes, high: bytes, **others: int) -> Struct:
    """Statistics with bounds, and other numbers by their fields."""
    return {6: (BINARY, low), 5: (BINARY, high), **{int(name[1:]): (I64, value) for name, value in others.items()}}


def outcome(check: Callable[..., None], *said: Any) -> str | None:
    """Why the check refuses, None if it does not."""
    try:
        check(*said)
    except NotSpliceable as error:
        return str(error).removeprefix(f"{Reason.STATISTICS.value}: ")
    return None


ABOVE = "the least value is above the greatest"


@pytest.mark.parametrize(
    ("type", "low", "high", "expected"),
    [
        (INT64, whole(-8), whole(9), None),
        (INT64, whole(9), whole(9), None),
        (INT64, whole(9), whole(-8), ABOVE),
        (INT32, struct.pack("<i", -1), struct.pack("<i", 256), None),
        (INT32, struct.pack("<i", 256), struct.pack("<i", -1), ABOVE),
        (0, b"\0", b"\1", None),
        (0, b"\1", b"\0", ABOVE),
        (FLOAT, struct.pack("<f", -2.5), struct.pack("<f", 1.5), None),
        (FLOAT, struct.pack("<f", 1.5), struct.pack("<f", -2.5), ABOVE),
        (DOUBLE, number(0.0), number(-0.0), None),
        (DOUBLE, number(1e300), number(-1e300), ABOVE),
        (DOUBLE, number(float("inf")), number(NAN), None),
        (DOUBLE, number(NAN), number(NAN), None),
        (DOUBLE, number(NAN), number(float("inf")), ABOVE),
        (TEXT, b"a", b"\xc3\xa9", None),
        (TEXT, b"", b"", None),
        (TEXT, b"ab", b"a", ABOVE),
    ],
)
def test_no_least_value_is_above_the_greatest(type: int, low: bytes, high: bytes, expected: str | None) -> None:
    assert outcome(check_statistics, chunk_of(type, between(low, high)), leaf_of(type)) == expected
    old = {2: (BINARY, low), 1: (BINARY, high)}
    # The old fields compare texts as nobody knows how.
    wanted = expected if type != TEXT else None
    assert outcome(check_statistics, chunk_of(type, old), leaf_of(type)) == wanted


def test_long_decimals_have_a_sign_and_other_bytes_none() -> None:
    low, high = wide(-5), wide(7)
    for is_decimal, expected in ((True, None), (False, ABOVE)):
        leaf = leaf_of(FIXED, is_decimal=is_decimal)
        assert outcome(check_statistics, chunk_of(FIXED, between(low, high)), leaf) == expected
        turned = chunk_of(FIXED, between(high, low))
        assert outcome(check_statistics, turned, leaf) == (None if expected else ABOVE)


MANY = "it has more nulls than values, or nulls where none may be"
NULLS, LEVELS = "the histogram of levels has other nulls", "the histogram of levels has other values"


@pytest.mark.parametrize(
    ("said", "leaf", "levels", "expected"),
    [
        ({3: (I64, -1)}, leaf_of(INT64), None, MANY),
        ({3: (I64, 11)}, leaf_of(INT64), None, MANY),
        ({3: (I64, 10)}, leaf_of(INT64), None, None),
        ({3: (I64, 1)}, leaf_of(INT64, definition=0), None, MANY),
        ({3: (I64, 0)}, leaf_of(INT64, definition=0), None, None),
        ({3: (I64, 4), 9: (I64, 7)}, leaf_of(DOUBLE), None, "it has more NaN than values"),
        ({3: (I64, 4), 9: (I64, 6)}, leaf_of(DOUBLE), None, None),
        (between(whole(1), whole(2), f3=10), leaf_of(INT64), None, "values that are all null have bounds"),
        ({3: (I64, 10), 1: (BINARY, whole(1))}, leaf_of(INT64), None, "values that are all null have bounds"),
        ({3: (I64, 4)}, leaf_of(INT64), (4, 6), None),
        ({3: (I64, 3)}, leaf_of(INT64), (4, 6), NULLS),
        ({3: (I64, 5)}, leaf_of(INT64, definition=2), (1, 4, 5), None),
        ({3: (I64, 1)}, leaf_of(INT64, definition=2), (1, 4, 5), NULLS),
        # Writers differ in whether an empty list is a null.
        ({3: (I64, 1)}, leaf_of(INT64, definition=2, repetition=1), (1, 4, 5), None),
        ({}, leaf_of(INT64), (4, 6), None),
        ({}, leaf_of(INT64), (4, 7), LEVELS),
        ({}, leaf_of(INT64), (-4, 14), LEVELS),
    ],
)
def test_nulls_are_as_many_as_there_may_be(said: Struct, leaf: Leaf, levels: Any, expected: str | None) -> None:
    assert outcome(check_statistics, chunk_of(leaf.type, said, levels), leaf) == expected


OTHER, VOID = "its pages have other bounds", "its pages have no values, and it has bounds"


@pytest.mark.parametrize(
    ("leaf", "said", "lows", "highs", "expected"),
    [
        (leaf_of(INT64), between(whole(-3), whole(9)), (whole(5), whole(-3)), (whole(9), whole(0)), None),
        (leaf_of(INT64), between(whole(7), whole(9)), (whole(5), whole(-3)), (whole(9), whole(0)), OTHER),
        (leaf_of(INT64), between(whole(-3), whole(8)), (whole(5), whole(-3)), (whole(9), whole(0)), OTHER),
        (leaf_of(INT64), between(whole(-3), whole(8)), (b"1",), (b"2",), "a bound is no value of its column"),
        (leaf_of(INT64), between(whole(-3), whole(8)), (), (), VOID),
        # As parquet-rs has it of a list with as many nulls as rows.
        (leaf_of(INT64, repetition=1), between(whole(-3), whole(8)), (), (), None),
        (leaf_of(DOUBLE), between(number(-0.0), number(0.0)), (number(0.0),), (number(0.0),), None),
        (leaf_of(DOUBLE), between(number(1.0), number(2.0)), (number(1.0), number(NAN)), (number(9.0), number(NAN)), None),
        (leaf_of(FIXED, is_decimal=True), between(wide(-3), wide(8)), (wide(4), wide(-3)), (wide(8), wide(-1)), None),
        (leaf_of(TEXT), between(b"abc", b"xyz"), (b"ab", b"b"), (b"b", b"y"), None),
        (leaf_of(TEXT), between(b"abc", b"xyz"), (b"abc",), (b"xyz",), None),
        (leaf_of(TEXT), between(b"b", b"xyz"), (b"ab",), (b"xyz",), OTHER),
        (leaf_of(TEXT), between(b"abc", b"xyz"), (b"abc",), (b"xzz",), OTHER),
        (leaf_of(TEXT), between(b"abc", b"xyz"), (b"abc",), (b"x",), OTHER),
        # Bounds that a footer cuts off are used for nothing.
        (leaf_of(TEXT), {**between(b"ab", b"xyz"), 8: (FALSE, False)}, (b"abc",), (b"xyz",), None),
    ],
)
def test_pages_have_the_bounds_of_their_chunk(leaf: Leaf, said: Struct, lows: Any, highs: Any, expected: str | None) -> None:
    assert outcome(check_told, chunk_of(leaf.type, said), leaf, Told(None, (lows, highs))) == expected
    assert outcome(check_told, chunk_of(leaf.type, said), leaf, Told(None, None)) is None


def test_pages_have_the_nulls_of_their_chunk() -> None:
    chunk, leaf = chunk_of(INT64, {3: (I64, 4)}), leaf_of(INT64)
    assert outcome(check_told, chunk, leaf, Told(4, None)) is None
    assert outcome(check_told, chunk, leaf, Told(3, None)) == "its pages have other nulls"
    assert outcome(check_told, chunk_of(INT64, {}), leaf, Told(3, None)) is None


def index_of(voids: Items, lows: Items, highs: Items, nulls: Items | None = None) -> Struct:
    found: dict[int, tuple[int, Any]] = {1: (LIST, voids), 2: (LIST, lows), 3: (LIST, highs)}
    return found if nulls is None else {**found, 5: (LIST, nulls)}


def test_a_column_index_tells_of_pages_with_values() -> None:
    bounds = Items(BINARY, (b"a", b"\0", b"c")), Items(BINARY, (b"b", b"", b"d"))
    for type, yes, no in ((TRUE, 1, 2), (FALSE, 1, 0)):
        voids = Items(type, (no, yes, no))
        assert told_by_index(index_of(voids, *bounds)) == Told(None, ([b"a", b"c"], [b"b", b"d"]))
        assert told_by_index(index_of(voids, *bounds, Items(I64, (1, 9, 0)))).nulls == 10


@pytest.mark.parametrize(
    "index",
    [
        {},
        index_of(Items(TRUE, (2,)), Items(BINARY, (b"a",)), Items(BINARY, (b"b", b"c"))),
        index_of(Items(TRUE, (2,)), Items(BINARY, (b"a",)), Items(I64, (1,))),
        index_of(Items(TRUE, (2,)), Items(BINARY, (b"a",)), Items(BINARY, (b"b",)), Items(I64, (1, 2))),
        index_of(Items(BYTE, (2,)), Items(BINARY, (b"a",)), Items(BINARY, (b"b",))),
        {**index_of(Items(TRUE, ()), Items(BINARY, ()), Items(BINARY, ())), 1: (I64, 1)},
    ],
)
def test_a_column_index_that_is_not_understood(index: Struct) -> None:
    with pytest.raises(NotSpliceable) as caught:
        told_by_index(index)
    assert caught.value.reason is Reason.INDEXES


def test_headers_tell_where_all_do() -> None:
    first = Walked(DATA, 4, 9, 5, 1, between(b"a", b"c"))
    void, silent = Walked(DATA, 9, 12, 3, 3, {}), Walked(DATA, 12, 20, 3, None, {})
    dictionary = Walked(DICTIONARY, 0, 4, 0, None, {})
    assert told_by_headers([dictionary, first, void]) == Told(4, ([b"a"], [b"c"]))
    assert told_by_headers([first, silent]) == Told(None, None)
    odd = Walked(DATA, 4, 9, 5, 1, {6: (I64, 1), 5: (I64, 2)})
    assert told_by_headers([odd]) == Told(1, None)


def said_twice(low: int, high: int) -> Struct:
    """Bounds in both the old and the new fields."""
    return {**between(whole(low), whole(high)), 2: (BINARY, whole(low)), 1: (BINARY, whole(high))}


LIES = {
    "bounds the wrong way round": said_twice(9, -8),
    "narrow bounds": said_twice(2, 3),
    "all null": {3: (I64, 4)},
    "some null": {3: (I64, 1)},
    "fewer nulls than none": {3: (I64, -5)},
}
WRITTEN = {
    "column indexes": {},
    "headers of pages": {"write_page_index": False},
    "headers of the second version": {"write_page_index": False, "data_page_version": "2.0"},
}


@pytest.mark.parametrize("options", WRITTEN.values(), ids=list(WRITTEN))
@pytest.mark.parametrize("said", LIES.values(), ids=list(LIES))
def test_statistics_of_no_values_are_not_copied(tmp_path: Path, said: Struct, options: Any) -> None:
    """The file is written from its rows, and the log has the statistics of these."""
    by_arrow(ROWS, tmp_path / NAME, 4, **options)
    edited_statistics(tmp_path / NAME, 0, said)
    done = update_of(tmp_path, 5, stats=bounded(IDS))
    assert done.plain is Reason.STATISTICS
    stats = json.loads(done.written[0].stats)
    assert (stats["minValues"]["id"], stats["maxValues"]["id"], stats["nullCount"]["id"]) == (0, 11, 0)


@pytest.mark.parametrize("options", WRITTEN.values(), ids=list(WRITTEN))
def test_nulls_that_a_footer_hides_are_found_where_none_may_be(tmp_path: Path, options: Any) -> None:
    ids = pa.array([None if n % 4 == 3 else n for n in range(12)], pa.int64())
    by_arrow(ROWS.set_column(0, "id", ids), tmp_path / NAME, 4, **options)
    edited_statistics(tmp_path / NAME, 0, {3: (I64, 0)})
    with pytest.raises(Refused, match="NOT_NULL"):
        update_of(tmp_path, 5, stats=bounded(IDS), required=(("id",),))


def test_bounds_that_are_nan_are_none(tmp_path: Path) -> None:
    """Of a column without NaN the values are read, and the new footer has their bounds."""
    by_arrow(ROWS, tmp_path / NAME, 4)
    done = update_of(tmp_path, 5, stats=bounded(IDS))
    name = done.written[0].name
    edited_statistics(tmp_path / name, 2, between(number(NAN), number(NAN)))
    again = update_of(tmp_path, 5, stats=bounded(IDS), name=name)
    assert again.plain is None
    assert json.loads(again.written[0].stats) == json.loads(done.written[0].stats)
