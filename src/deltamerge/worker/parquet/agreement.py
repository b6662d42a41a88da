"""Whether a file agrees with itself where it says twice how many values of a column chunk are null, or what their bounds are.

Values are not read: what a file says once, or the same each time, is believed.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from deltamerge.protocol.formats.thrift import BINARY, FALSE, I64, TRUE, Items, Struct
from deltamerge.worker.parquet.footer import Chunk, get
from deltamerge.worker.parquet.places import DICTIONARY, Walked
from deltamerge.worker.parquet.plain import NotSpliceable, Reason
from deltamerge.worker.parquet.schema import Leaf

_FORMATS = {0: "B", 1: "i", 2: "q", 4: "f", 5: "d"}  # of physical types, as the module struct has them
_TEXTS, _FIXED, _FLOATING = 6, 7, (4, 5)
_BOUNDS, _OLD_BOUNDS = (6, 5), (2, 1)  # the least and the greatest value


@dataclass(frozen=True, slots=True)
class Told:
    """What is said of the pages of a chunk: how many values are null, and the least and the greatest other value of each page.

    None stands for what is not said of all of them.
    """

    nulls: int | None
    bounds: tuple[Sequence[bytes], Sequence[bytes]] | None


def check_statistics(chunk: Chunk, leaf: Leaf) -> None:
    """Raises NotSpliceable for a chunk whose statistics no values have."""
    said = chunk.statistics
    nulls, nans = get(said, 3, 0), get(said, 9, 0)
    if not 0 <= nulls <= chunk.values or (nulls and not leaf.definition):
        _refuse("it has more nulls than values, or nulls where none may be")
    if not 0 <= nans <= chunk.values - nulls:
        _refuse("it has more NaN than values")
    if nulls == chunk.values and any(id in said for id in (*_BOUNDS, *_OLD_BOUNDS)):
        _refuse("values that are all null have bounds")
    for low, high in (_BOUNDS, _OLD_BOUNDS) if leaf.type in _FORMATS else (_BOUNDS,):
        if low in said and high in said and _is_above(leaf, *_values(leaf, (said[low][1], said[high][1]))):
            _refuse("the least value is above the greatest")
    histogram = get(get(chunk.meta, 16, {}), 3)
    counts = () if histogram is None else histogram.values
    if not counts:
        return
    if sum(counts) != chunk.values or min(counts) < 0:
        _refuse("the histogram of levels has other values")
    if 3 in said and not leaf.repetition and chunk.values - counts[-1] != nulls:
        _refuse("the histogram of levels has other nulls")


def check_told(chunk: Chunk, leaf: Leaf, told: Told) -> None:
    """Raises NotSpliceable where pages have other nulls or bounds than their chunk, as far as both are said."""
    said = chunk.statistics
    if told.nulls is not None and get(said, 3, told.nulls) != told.nulls:
        _refuse("its pages have other nulls")
    low, high = get(said, 6), get(said, 5)
    # parquet-rs calls a page void that has as many nulls as rows, be there other values in its lists.
    if leaf.repetition or told.bounds is None or low is None or high is None or False in (get(said, 7), get(said, 8)):
        return
    lows, highs = told.bounds
    if not lows:
        _refuse("its pages have no values, and it has bounds")
    if leaf.type == _TEXTS:
        agrees = low.startswith(min(lows)) and _may_be_cut(high, max(highs))
    else:
        bounds, least, greatest = _values(leaf, (low, high)), _values(leaf, lows), _values(leaf, highs)
        # Writers differ in what they say of pages with NaN.
        has_nan = leaf.type in _FLOATING and any(map(math.isnan, (*bounds, *least, *greatest)))
        agrees = has_nan or bounds == (min(least), max(greatest))
    if not agrees:
        _refuse("its pages have other bounds")


def told_by_index(index: Struct) -> Told:
    """What the column index says of a chunk's pages. Raises NotSpliceable for one that is not understood."""
    voids, lows, highs = _items(index, 1, TRUE, FALSE), _items(index, 2, BINARY), _items(index, 3, BINARY)
    counts = _items(index, 5, I64) if 5 in index else None
    if not len(voids) == len(lows) == len(highs) == len(voids if counts is None else counts):
        raise NotSpliceable(Reason.INDEXES, "a column index is not understood")
    if TRUE in voids:
        lows, highs = ([bound for bound, void in zip(of, voids, strict=True) if void != TRUE] for of in (lows, highs))
    return Told(None if counts is None else sum(counts), (lows, highs))


def told_by_headers(pages: Iterable[Walked]) -> Told:
    """What the headers of pages say of them."""
    nulls: int | None = 0
    lows, highs = list[bytes](), list[bytes]()
    has_bounds = True
    for page in pages:
        if page.kind == DICTIONARY:
            continue
        nulls = None if nulls is None or page.nulls is None else nulls + page.nulls
        low, high = get(page.said, 6), get(page.said, 5)
        if isinstance(low, bytes) and isinstance(high, bytes):
            lows.append(low)
            highs.append(high)
        elif page.nulls != page.values:
            has_bounds = False
    return Told(nulls, (lows, highs) if has_bounds else None)


def _items(index: Struct, id: int, *types: int) -> Sequence[Any]:
    items = get(index, id)
    if not isinstance(items, Items) or (items.values and items.type not in types):
        raise NotSpliceable(Reason.INDEXES, "a column index is not understood")
    return items.values


def _values(leaf: Leaf, bounds: Sequence[bytes]) -> Sequence[Any]:
    """Bounds as values that compare as those of the column do."""
    if leaf.type in _FORMATS:
        try:
            return struct.unpack(f"<{len(bounds)}{_FORMATS[leaf.type]}", b"".join(bounds))
        except struct.error as error:
            raise NotSpliceable(Reason.STATISTICS, "a bound is no value of its column") from error
    if leaf.type == _FIXED and leaf.is_decimal:
        return tuple(int.from_bytes(bound, "big", signed=True) for bound in bounds)
    return tuple(bounds)


def _is_above(leaf: Leaf, low: Any, high: Any) -> bool:
    """Whether one value is above another as Spark compares them: NaN above all others, and both zeros alike."""
    return bool(low > high) or (leaf.type in _FLOATING and math.isnan(low) and not math.isnan(high))


def _may_be_cut(text: bytes, other: bytes) -> bool:
    """Whether the other is the text, or a shorter one above it, as page indexes have it of long texts."""
    return other == text or (other > text and len(other) < len(text))


def _refuse(detail: str) -> NoReturn:
    raise NotSpliceable(Reason.STATISTICS, detail)
