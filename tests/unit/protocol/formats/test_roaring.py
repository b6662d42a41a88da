"""Bitmaps of row positions: what is written is read again, and bytes that are no bitmap never pass for one."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyroaring
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamerge.protocol.formats.roaring import NATIVE, PORTABLE, MalformedBitmap, Positions, RowSet, decode, encode
from tests.effort import examples

few = examples(150)


@st.composite
def positions(draw: st.DrawFn) -> Positions:
    """Positions in clumps of every shape: single ones, runs, and random ones of any density, now and then beyond 2^32."""
    parts = []
    for _ in range(draw(st.integers(0, 5))):
        start = draw(st.sampled_from([0, 65_530, 131_072, 1 << 20, (1 << 32) - 70_000, 1 << 32, 3 << 32]))
        start += draw(st.integers(0, 200_000))
        width = draw(st.sampled_from([1, 2, 50, 5_000, 70_000, 140_000]))
        share = draw(st.sampled_from([1.0, 0.9, 0.5, 0.1, 0.01]))
        seed = draw(st.integers(0, 1_000))
        chosen = np.flatnonzero(np.random.default_rng(seed).random(width) < share) if share < 1 else np.arange(width)
        parts.append(chosen + start)
    return np.unique(np.concatenate(parts)).astype(np.int64) if parts else np.zeros(0, np.int64)


@few
@given(positions())
def test_what_is_encoded_is_decoded(rows: Positions) -> None:
    found = decode(encode(rows))
    assert (found.rows, found.end) == (len(rows), int(rows[-1]) + 1 if len(rows) else 0)
    assert np.array_equal(found.positions(), rows)


@few
@given(positions())
def test_another_library_reads_what_is_encoded(rows: Positions) -> None:
    found = pyroaring.BitMap64.deserialize(encode(rows)[4:])
    assert np.array_equal(np.fromiter(found, np.int64, len(found)), rows)


@few
@given(positions(), st.booleans())
def test_what_another_library_wrote_is_decoded(rows: Positions, optimized: bool) -> None:
    bitmap = pyroaring.BitMap64(rows.tolist())
    if optimized:
        bitmap.run_optimize()
    assert np.array_equal(decode(struct.pack("<I", PORTABLE) + bitmap.serialize()).positions(), rows)


@few
@given(positions().map(lambda rows: rows[rows < 1 << 32]), st.sampled_from("<>"))
def test_the_native_layout_is_decoded(rows: Positions, order: str) -> None:
    low = pyroaring.BitMap(rows.tolist())
    low.run_optimize()
    bitmaps = [low.serialize(), pyroaring.BitMap([7]).serialize()]
    data = struct.pack(f"{order}II", NATIVE, 2) + b"".join(struct.pack(f"{order}I", len(bitmap)) + bitmap for bitmap in bitmaps)
    assert decode(data).positions().tolist() == [*rows.tolist(), (1 << 32) + 7]


@few
@given(positions(), st.integers(0, 200_000), st.integers(1, 100_000))
def test_a_mask_says_of_each_row_whether_it_is_in_the_set(rows: Positions, first: int, count: int) -> None:
    found = decode(encode(rows)).mask(first, count)
    assert np.array_equal(found, np.isin(np.arange(first, first + count), rows))


def test_the_smallest_container_is_chosen() -> None:
    assert len(encode(np.arange(1_000_000))) < 300
    rng = np.random.default_rng(0)
    assert len(encode(np.flatnonzero(rng.random(65_536) < 0.5))) < 8_300
    assert len(encode(np.flatnonzero(rng.random(65_536) < 0.01))) < 2 * 800


@pytest.mark.parametrize("rows", [[-1, 2], [1, 1 << 40]])
def test_what_can_be_no_row_of_a_file_is_not_encoded(rows: list[int]) -> None:
    with pytest.raises(ValueError, match="are no rows of a file"):
        encode(np.array(rows))


GOOD = encode(np.unique(np.concatenate([np.arange(9), np.arange(70_000, 140_000, 2), np.arange(200_000, 260_000)])))


@examples(400)
@given(st.data())
def test_damaged_bytes_are_refused_or_a_set_that_its_counts_describe(data: st.DataObject) -> None:
    damaged = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, 200) | st.integers(0, len(GOOD) - 1))
        damaged[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.sampled_from([len(GOOD), len(GOOD), len(GOOD) - 1, 40]))
    try:
        found = decode(bytes(damaged[:cut]))
    except MalformedBitmap:
        return
    rows = found.positions() if found.rows < 1 << 20 else np.zeros(found.rows)
    assert len(rows) == found.rows
    assert cut == len(GOOD)
    if found.rows < 1 << 20:
        assert (np.diff(rows) > 0).all()


@examples(400)
@given(st.sampled_from([PORTABLE, NATIVE]), st.binary(max_size=200))
def test_random_bytes_are_refused(magic: int, data: bytes) -> None:
    try:
        found = decode(struct.pack("<I", magic) + data)
    except MalformedBitmap:
        return
    assert found.rows <= 65_536 * len(data)


def broken(**parts: Any) -> bytes:
    """A portable bitmap of one container with the given parts replaced."""
    found = {"magic": PORTABLE, "buckets": 1, "bucket": 0, "cookie": 12_346, "count": 1, "key": 0, "rows": 3, "offset": 16}
    found = {**found, "data": [1, 2, 3], "tail": b"", **parts}
    head = struct.pack("<IQIII", *(found[name] for name in ("magic", "buckets", "bucket", "cookie", "count")))
    head += struct.pack("<HHI", found["key"], found["rows"] - 1, found["offset"])
    return head + struct.pack(f"<{len(found['data'])}H", *found["data"]) + bytes(found["tail"])


def test_the_bitmap_that_is_not_broken_is_one() -> None:
    assert decode(broken()).positions().tolist() == [1, 2, 3]
    assert decode(broken(buckets=0)[:12]) == RowSet()


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"", "ends too early"),
        (broken(magic=1), "unknown magic number 01000000"),
        (broken(buckets=1 << 60), "ends too early"),
        (broken(bucket=1 << 31), "bucket"),
        (broken(cookie=5), "unknown cookie 5"),
        (broken(count=1 << 31), "ends too early"),
        (broken(offset=17), "offset"),
        (broken(data=[1, 3, 3]), "not in order"),
        (broken(data=[1, 2]), "ends too early"),
        (broken(tail=b"x"), "1 bytes follow"),
        (broken(rows=5_000, data=[0xFFFF] * 4_096), "another number of positions"),
    ],
)
def test_each_defect_is_named(data: bytes, cause: str) -> None:
    with pytest.raises(MalformedBitmap, match=cause):
        decode(data)


@pytest.mark.parametrize("runs", [[(5, 1), (6, 1)], [(9, 0), (2, 2)], [(65_535, 3)], [], [(0, 0)]])
def test_runs_that_overlap_or_leave_the_container_are_refused(runs: list[tuple[int, int]]) -> None:
    head = struct.pack("<IQI", PORTABLE, 1, 0) + struct.pack("<IB", 12_347, 1) + struct.pack("<HH", 0, 3)
    data = head + struct.pack("<H", len(runs)) + b"".join(struct.pack("<HH", *run) for run in runs)
    with pytest.raises(MalformedBitmap, match="runs"):
        decode(data)
