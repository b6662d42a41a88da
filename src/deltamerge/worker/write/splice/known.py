"""What the footer says of a column chunk that is copied: enough for the statistics of its values to be as if they were read.

Where it does not say so with certainty, the values are read, and the footer says it from then on.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.protocol.formats.thrift import BINARY, I64, STRUCT, TRUE
from deltamerge.worker.parquet.footer import Chunk, get, with_meta
from deltamerge.worker.parquet.plain import NotPaged, Whole
from deltamerge.worker.parquet.schema import OPTIONAL, Node
from deltamerge.worker.write.existing import stored_bounds
from deltamerge.worker.write.stats import Path, StatsColumn

_INT32, _INT64, _FLOAT, _DOUBLE, _TEXTS = 1, 2, 4, 5, 6
# Writers whose bounds of numbers are values that occur, also where they don't say so.
_EXACT_NUMBERS = (b"parquet-cpp-arrow ", b"parquet-mr ", b"parquet-rs ", b"delta-rs ", b"DuckDB ", b"Polars")
_EXACT_TEXTS = (b"parquet-cpp-arrow ",)
_MOST_TEXT_BYTES = 4_096


@dataclass(frozen=True)
class Known:
    """Of some values: how many are null, whether there is NaN, and of texts the least and the greatest."""

    nulls: int
    has_nan: bool = False
    texts: tuple[bytes, bytes] | None = None


@dataclass(frozen=True)
class Place:
    """Where the values of a column with statistics are: the first leaf that holds them, whether it is the column itself, how many
    of its parents, itself included, may be null, and how many bytes each value has if all have as many.
    """

    leaf: int
    is_leaf: bool
    levels: int
    bytes: int = 0


def place_of(columns: tuple[Node, ...], path: Path) -> Place | None:
    """The place of a column with statistics, by its path of physical names; None where there is none."""
    first = levels = 0
    nodes = columns
    found: Node | None = None
    for name in path:
        found = None
        for node in nodes:
            if node.name == name.encode():
                found = node
                break
            first += len(node.leaves)
        if found is None:
            return None
        levels += found.repetition == OPTIONAL
        nodes = found.below
    return None if found is None else Place(first, not found.below, levels, get(found.element, 2, 0))


def known_of(
    chunk: Chunk, column: StatsColumn, place: Place, writer: bytes, nan_free: Collection[Path], rows: int
) -> Known | None:
    """What the footer says of the values of a column with statistics; None where that is less than all that they need."""
    if not place.is_leaf:
        nulls = _nulls_by_levels(chunk, place, rows)
        return None if nulls is None or column.bounded else Known(nulls)
    statistics = chunk.statistics
    nulls = get(statistics, 3)
    if nulls is None or not 0 <= nulls <= chunk.values:
        return None
    if not column.bounded or nulls == chunk.values:
        return Known(nulls)
    low, high = get(statistics, 6), get(statistics, 5)
    exact = get(statistics, 8), get(statistics, 7)
    has_bounds = low is not None and high is not None
    if pa.types.is_string(column.type):
        is_sure = has_bounds and (exact == (True, True) or (exact == (None, None) and writer.startswith(_EXACT_TEXTS)))
        return Known(nulls, texts=(low, high)) if is_sure else None
    nans = 0
    if pa.types.is_floating(column.type):
        nans = get(statistics, 9, 0 if column.path in nan_free else -1)
        if not 0 <= nans <= chunk.values - nulls:
            return None
        if nans and nans == chunk.values - nulls and not has_bounds:
            return Known(nulls, has_nan=True)
        # NaN is no bound: readers take such ones for none.
        if has_bounds and any(math.isnan(_bound(bound, chunk.meta[1][1])) for bound in (low, high)):
            return None
    is_sure = has_bounds and (exact == (True, True) or (exact == (None, None) and writer.startswith(_EXACT_NUMBERS)))
    return Known(nulls, has_nan=nans > 0) if is_sure else None


def _nulls_by_levels(chunk: Chunk, place: Place, rows: int) -> int | None:
    """How many rows of a column with more than one value in a row are null, by the histogram of its levels."""
    sizes = get(chunk.meta, 16, {})
    histogram = get(sizes, 3)
    counts = () if histogram is None else histogram.values
    if len(counts) <= place.levels or sum(counts) != chunk.values or any(count < 0 for count in counts):
        return None
    nulls = sum(counts[: place.levels])
    return nulls if nulls <= rows else None


@dataclass(frozen=True)
class Seen:
    """What was found in values that were read: nulls, NaN, and the least and the greatest other, as Parquet orders them."""

    nulls: int
    nans: int = 0
    bounds: tuple[Any, Any] | None = None

    def with_others(self, other: Seen) -> Seen:
        """What was found in these values and others."""
        found = [bounds for bounds in (self.bounds, other.bounds) if bounds is not None]
        bounds = (min(low for low, _ in found), max(high for _, high in found)) if found else None
        return Seen(self.nulls + other.nulls, self.nans + other.nans, bounds)


def seen_in(values: Any, column: StatsColumn) -> Seen:
    """What is found in values of a column with bounds."""
    if pa.types.is_string(column.type):
        found = pc.min_max(values.cast(pa.binary()))
        bounds = (found["min"].as_py(), found["max"].as_py()) if found["min"].is_valid else None
        return Seen(values.null_count, 0, bounds)
    numbers = stored_bounds(values, column.type)
    nans = int(pc.sum(pc.is_nan(values)).as_py() or 0) if pa.types.is_floating(column.type) else 0
    return Seen(values.null_count, nans, (numbers[0], numbers[1]) if numbers else None)


def seen_after(chunk: Chunk, column: StatsColumn, known: Known, before: Any, removed: Any, after: Any) -> Seen:
    """What is found in all values of a chunk of which those `before` became those `after`, the `removed` among them being gone.

    Raises NotPaged where a bound may be gone: others than these values may have it, or none.
    """
    nulls = known.nulls - before.null_count + after.null_count
    if not column.bounded:
        return Seen(nulls)
    gone, new = seen_in(removed, column), seen_in(after, column)
    if known.nulls == chunk.values:
        return Seen(nulls, new.nans, new.bounds)
    low, high = (_bound(get(chunk.statistics, id), chunk.meta[1][1]) for id in (6, 5))
    if new.bounds is not None and new.bounds[0] <= low:
        low = new.bounds[0]
    elif gone.bounds is not None and gone.bounds[0] <= low:
        raise NotPaged(Whole.BOUNDS)
    if new.bounds is not None and new.bounds[1] >= high:
        high = new.bounds[1]
    elif gone.bounds is not None and gone.bounds[1] >= high:
        raise NotPaged(Whole.BOUNDS)
    return Seen(nulls, new.nans, (low, high))


def _bound(data: bytes, kind: int) -> Any:
    if kind in (_FLOAT, _DOUBLE):
        return struct.unpack("<f" if kind == _FLOAT else "<d", data)[0]
    if kind in (_INT32, _INT64):
        return int.from_bytes(data, "little", signed=True)
    return data if kind == _TEXTS else int.from_bytes(data, "big", signed=True)


def with_nulls(chunk: Chunk, nulls: int | None) -> Chunk:
    """The chunk of which no more is said than how many of its values are null, None for nothing."""
    meta = {id: field for id, field in chunk.meta.items() if id != 12}
    return with_meta(chunk, meta if nulls is None else {**meta, 12: (STRUCT, {3: (I64, nulls)})})


def with_seen(chunk: Chunk, column: StatsColumn, place: Place, seen: Seen) -> Chunk:
    """The chunk with the statistics of all of its values."""
    found: dict[int, tuple[int, Any]] = {3: (I64, seen.nulls)}
    if pa.types.is_floating(column.type):
        found[9] = (I64, seen.nans)
    bounds = None if seen.bounds is None else _bound_bytes(chunk, place, seen.bounds)
    if bounds is not None:
        found |= {6: (BINARY, bounds[0]), 5: (BINARY, bounds[1]), 7: (TRUE, True), 8: (TRUE, True)}
    return with_meta(chunk, {**chunk.meta, 12: (STRUCT, found)})


def _bound_bytes(chunk: Chunk, place: Place, bounds: tuple[Any, Any]) -> tuple[bytes, bytes] | None:
    low, high = bounds
    if isinstance(low, bytes):
        return (low, high) if len(low) + len(high) <= _MOST_TEXT_BYTES else None
    kind = chunk.meta[1][1]
    return _plain(low, kind, place.bytes, -0.0), _plain(high, kind, place.bytes, 0.0)


def _plain(value: Any, kind: int, length: int, zero: float) -> bytes:
    """A number as Parquet stores it; of the two zeros the one that is beyond the other."""
    if kind in (_FLOAT, _DOUBLE):
        return struct.pack("<f" if kind == _FLOAT else "<d", zero if value == 0 else value)
    if kind in (_INT32, _INT64):
        return int(value).to_bytes(4 if kind == _INT32 else 8, "little", signed=True)
    return int(value).to_bytes(length or 16, "big", signed=True)
