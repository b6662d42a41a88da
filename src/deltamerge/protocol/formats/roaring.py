"""Sets of row positions as serialized 64-bit Roaring bitmaps: read without being expanded, written as delta-spark does.

Knows nothing of files and descriptors. Source: PROTOCOL.md, "Deletion Vector Format"; the Roaring format specification;
delta-spark's RoaringBitmapArray, for its native layout.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

PORTABLE, NATIVE = 1681511377, 1681511376
MOST_ROWS = 1 << 40
_ROWS = 1 << 16
_ARRAY_ROWS = 4_096
_BITMAP_BYTES = 8_192
_WITH_RUNS, _WITHOUT_RUNS = 12_347, 12_346
_OFFSETS_FROM = 4


class MalformedBitmap(ValueError):
    """The bytes are no bitmap; the message says why."""


@dataclass(frozen=True, slots=True)
class Container:
    """The positions of up to 65,536 rows: `key` is their common part without the lowest 16 bits, `rows` how many there are.

    `kind` says what `data` is: "array" (the low 16 bits), "bitmap" (8,192 bytes), "runs" (pairs of start and length - 1).
    """

    key: int
    rows: int
    kind: str
    data: npt.NDArray[Any]

    def positions(self) -> Positions:
        """The positions, ascending."""
        if self.kind == "array":
            low = self.data.astype(np.int64)
        elif self.kind == "bitmap":
            low = np.flatnonzero(np.unpackbits(self.data, bitorder="little"))
        else:
            starts, lengths = self.data[:, 0].astype(np.int64), self.data[:, 1].astype(np.int64) + 1
            before = np.cumsum(lengths) - lengths
            low = np.arange(self.rows, dtype=np.int64) + np.repeat(starts - before, lengths)
        return low + (self.key << 16)


@dataclass(frozen=True)
class RowSet:
    """A set of row positions, as containers in ascending order of their keys."""

    containers: tuple[Container, ...] = ()

    @property
    def rows(self) -> int:
        """How many positions are in the set."""
        return sum(container.rows for container in self.containers)

    @property
    def end(self) -> int:
        """The largest position plus one; 0 for the empty set."""
        return int(self.containers[-1].positions()[-1]) + 1 if self.containers else 0

    def positions(self) -> Positions:
        """All positions, ascending: 8 bytes for each, so that callers first look at `end`."""
        parts = [container.positions() for container in self.containers]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    def mask(self, first: int, count: int) -> Mask:
        """For each of `count` positions from `first` on, whether it is in the set."""
        found = np.zeros(count, np.bool_)
        for container in self.containers:
            if (first >> 16) <= container.key <= ((first + count - 1) >> 16):
                places = container.positions() - first
                found[places[(places >= 0) & (places < count)]] = True
        return found


def decode(data: bytes) -> RowSet:
    """The set that `data` is, in the portable or the native layout. Raises MalformedBitmap; allocates little beside `data`."""
    reader = _Reader(data)
    magic = bytes(reader.array("u1", 4))
    if magic == struct.pack("<I", PORTABLE):
        containers = _portable(reader)
    elif magic == struct.pack("<I", NATIVE):
        containers = _native(reader, "<u4")
    elif magic == struct.pack(">I", NATIVE):
        # The protocol's own example of an inline vector has its numbers, but not its bitmaps, in this order.
        containers = _native(reader, ">u4")
    else:
        raise MalformedBitmap(f"unknown magic number {magic.hex()}")
    if reader.left:
        raise MalformedBitmap(f"{reader.left} bytes follow its end")
    return RowSet(tuple(containers))


def _portable(reader: _Reader) -> list[Container]:
    found: list[Container] = []
    before = -1
    for _ in range(reader.count("<u8", 12)):
        key = reader.number("<u4")
        if not before < key < 1 << 31:
            raise MalformedBitmap(f"the bucket {key} follows the bucket {before}")
        before = key
        found += _bitmap(reader, key << 16)
    return found


def _native(reader: _Reader, number: str) -> list[Container]:
    found: list[Container] = []
    for key in range(reader.count(number, 12)):
        size = reader.number(number)
        left = reader.left
        found += _bitmap(reader, key << 16)
        if left - reader.left != size:
            raise MalformedBitmap(f"the bitmap {key} has {left - reader.left} bytes instead of {size}")
    return found


def _bitmap(reader: _Reader, key: int) -> Iterator[Container]:
    """The containers of one 32-bit bitmap, their keys raised by `key`."""
    begin = reader.at
    cookie = reader.number("<u4")
    runs = np.zeros(0, np.bool_)
    if cookie & 0xFFFF == _WITH_RUNS:
        count = (cookie >> 16) + 1
        runs = np.unpackbits(reader.array("u1", (count + 7) // 8), count=count, bitorder="little").astype(np.bool_)
    elif cookie == _WITHOUT_RUNS:
        count = reader.number("<u4")
    else:
        raise MalformedBitmap(f"unknown cookie {cookie}")
    header = reader.array("<u2", 2 * count).reshape(-1, 2)
    keys, rows = header[:, 0].astype(np.int64), header[:, 1].astype(np.int64) + 1
    if (keys[1:] <= keys[:-1]).any():
        raise MalformedBitmap("its containers are not in order")
    offsets = reader.array("<u4", count) if count >= _OFFSETS_FROM or not len(runs) else None
    for place in range(count):
        if offsets is not None and int(offsets[place]) != reader.at - begin:
            raise MalformedBitmap("the offset of a container is wrong")
        yield _container(reader, key + int(keys[place]), int(rows[place]), bool(len(runs) and runs[place]))


def _container(reader: _Reader, key: int, rows: int, runs: bool) -> Container:
    if runs:
        pairs = reader.array("<u2", 2 * reader.number("<u2")).reshape(-1, 2)
        starts, ends = pairs[:, 0].astype(np.int64), pairs[:, 0].astype(np.int64) + pairs[:, 1]
        if int((ends - starts + 1).sum()) != rows or ends[-1] >= _ROWS or (starts[1:] <= ends[:-1]).any():
            raise MalformedBitmap("the runs of a container are wrong")
        return Container(key, rows, "runs", pairs)
    if rows <= _ARRAY_ROWS:
        low = reader.array("<u2", rows)
        if (low[1:] <= low[:-1]).any():
            raise MalformedBitmap("the positions of a container are not in order")
        return Container(key, rows, "array", low)
    bits = reader.array("u1", _BITMAP_BYTES)
    if int(np.unpackbits(bits).sum(dtype=np.int64)) != rows:
        raise MalformedBitmap("a container has another number of positions than it says")
    return Container(key, rows, "bitmap", bits)


class _Reader:
    """Numbers from bytes, one after the other; asking for more than there is raises MalformedBitmap."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self.at

    def array(self, type: str, count: int) -> npt.NDArray[Any]:
        size = np.dtype(type).itemsize * count
        if size > self.left:
            raise MalformedBitmap("it ends too early")
        found = np.frombuffer(self._data, type, count, self.at) if count else np.zeros(0, type)
        self.at += size
        return found

    def number(self, type: str) -> int:
        return int(self.array(type, 1)[0])

    def count(self, type: str, each: int) -> int:
        """A number of things that have at least `each` bytes."""
        found = self.number(type)
        if found * each > self.left:
            raise MalformedBitmap("it ends too early")
        return found


def encode(positions: Positions) -> bytes:
    """Ascending, distinct positions below 2^40 in the portable layout, with the containers that delta-spark would choose."""
    if len(positions) and not 0 <= positions[0] <= positions[-1] < MOST_ROWS:
        raise ValueError(f"positions from {positions[0]} to {positions[-1]} are no rows of a file")
    # delta-spark keeps an array of bitmaps, so that it writes the empty ones before the last, too.
    buckets = int(positions[-1] >> 32) + 1 if len(positions) else 0
    edges = np.searchsorted(positions, np.arange(buckets + 1, dtype=np.int64) << 32)
    parts = [struct.pack("<IQ", PORTABLE, buckets)]
    for key in range(buckets):
        parts += [struct.pack("<I", key), _encode_bitmap(positions[edges[key] : edges[key + 1]] & 0xFFFFFFFF)]
    return b"".join(parts)


def _encode_bitmap(positions: Positions) -> bytes:
    keys = positions >> 16
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    found = [_encode_container(part) for part in np.split((positions & 0xFFFF).astype("<u2"), starts[1:])] if len(keys) else []
    count = len(found)
    rows = np.diff(np.append(starts, len(positions)))
    header = np.stack([keys[starts], rows - 1], axis=1).astype("<u2").tobytes()
    if any(runs for runs, _ in found):
        flags = np.packbits([runs for runs, _ in found], bitorder="little").tobytes()
        head = struct.pack("<I", _WITH_RUNS | ((count - 1) << 16)) + flags + header
        with_offsets = count >= _OFFSETS_FROM
    else:
        head = struct.pack("<II", _WITHOUT_RUNS, count) + header
        with_offsets = True
    bodies = [body for _, body in found]
    if with_offsets:
        sizes = np.array([len(body) for body in bodies], np.int64)
        head += (len(head) + 4 * count + np.cumsum(sizes) - sizes).astype("<u4").tobytes()
    return head + b"".join(bodies)


def _encode_container(low: npt.NDArray[Any]) -> tuple[bool, bytes]:
    """One container's bytes, and whether it holds runs: it does when that is smaller."""
    breaks = np.flatnonzero(np.diff(low) != 1) + 1
    plain = 2 * len(low) if len(low) <= _ARRAY_ROWS else _BITMAP_BYTES
    if 2 + 4 * (len(breaks) + 1) < plain:
        starts, ends = low[np.append(0, breaks)], low[np.append(breaks, len(low)) - 1]
        pairs = np.stack([starts, ends - starts], axis=1)
        return True, struct.pack("<H", len(pairs)) + pairs.tobytes()
    if len(low) <= _ARRAY_ROWS:
        return False, low.tobytes()
    bits = np.zeros(_ROWS, np.uint8)
    bits[low] = 1
    return False, np.packbits(bits, bitorder="little").tobytes()
