"""The runtime filter: which rows of the target can have a match in the source, by their join keys.

An exact filter knows all distinct source keys: each column's values, and which combinations of them occur, or, of whole numbers,
one number for each key. It never drops a row that could match; equality is Spark's: NaN equals NaN, -0.0 equals 0.0, null equals
null only for `<=>`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.budgets import DEFAULTS
from deltamerge.worker.skipping.numbers import KeyNumbers, Numbers, is_new, numbered, places_in


@dataclass(frozen=True)
class KeyFilter:
    """The distinct keys of a source over some target columns.

    `values` has, per column, the distinct non-null values in the column's own type; `codes` the combinations that
    occur, sorted, as numbers in the mixed radix of the columns' counts (None for a single column, where each value
    occurs). `null_safe` says per column whether null is a value that matches null.
    """

    columns: tuple[str, ...]
    values: tuple[pa.Array, ...]
    null_safe: tuple[bool, ...]
    codes: pa.Array | None

    def codes_of(self, columns: Sequence[Any]) -> pa.Array:
        """The code of each row's key, null where the source has no such key."""
        total: Any = None
        for column, values, null_safe in zip(columns, self.values, self.null_safe, strict=True):
            code = pc.index_in(_flat(normalized(column)), values).cast(pa.int64())
            if null_safe:
                code = pc.if_else(pc.is_null(_flat(column)), len(values), code)
            total = code if total is None else pc.add(pc.multiply(total, len(values) + 1), code)
        return total

    def mask(self, columns: Sequence[Any]) -> np.ndarray[Any, Any]:
        """Whether each row's key occurs in the source; `columns` are the key columns in order."""
        codes = self.codes_of(columns)
        found = pc.is_valid(codes) if self.codes is None else pc.is_in(codes, self.codes)
        return np.asarray(found.to_numpy(zero_copy_only=False))

    def ids_of(self, columns: Sequence[Any]) -> pa.Array:
        """The id of each row's key: its place among the source's distinct keys, null where it has none."""
        codes = self.codes_of(columns)
        return codes if self.codes is None else pc.index_in(codes, self.codes).cast(pa.int64())

    def bounds(self, at: int) -> tuple[Any, Any] | None:
        """The smallest and largest value of one key column as Arrow scalars; None when nothing can be said by them."""
        values = self.values[at]
        if self.null_safe[at] or not len(values) or pa.types.is_nested(values.type):
            return None
        if pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
            return None
        found = pc.min_max(values)
        return found["min"], found["max"]


@dataclass(frozen=True, eq=False)
class NumberFilter:
    """The distinct keys of a source over several target columns of whole numbers, dates or times, as one number each: `numbers`
    says how they become that, `known` has those that occur, ascending. A null matches nothing.
    """

    columns: tuple[str, ...]
    numbers: KeyNumbers
    known: Numbers = field(repr=False)

    def mask(self, columns: Sequence[Any]) -> np.ndarray[Any, Any]:
        """Whether each row's key occurs in the source; `columns` are the key columns in order."""
        return np.asarray(self._places(columns) >= 0)

    def ids_of(self, columns: Sequence[Any]) -> pa.Array:
        """The id of each row's key: its place among the source's distinct keys, null where it has none."""
        ids = self._places(columns)
        return pa.array(ids, mask=ids < 0)

    def bounds(self, at: int) -> tuple[Any, Any] | None:
        """The smallest and largest value of one key column as Arrow scalars; None when there is no value."""
        values = self.numbers.values[at]
        return None if values.null_count else (values[0], values[1])

    def _places(self, columns: Sequence[Any]) -> Numbers:
        """The place of each row's key, -1 where there is none."""
        # What is looked up in order is found in the caches, and numbers are sorted fast.
        rows, numbers = self.numbers.ordered(columns)
        places, found = places_in(self.known, numbers)
        ids = np.full(len(columns[0]), -1)
        ids[rows[found]] = places[found]
        return ids


ExactFilter = KeyFilter | NumberFilter


def normalized(values: Any) -> Any:
    """Values in the form in which equal ones have equal bits: -0.0 becomes 0.0, and every NaN the same one."""
    if not pa.types.is_floating(values.type):
        return values
    positive = pc.add(values, pa.scalar(0.0, values.type))
    nan = pc.is_nan(positive)
    return pc.if_else(nan, pa.scalar(np.nan, values.type), positive) if pc.any(nan).as_py() else positive


def distinct_values(values: Any) -> pa.Array:
    """The different values but null, in the form in which equal ones have equal bits."""
    return pc.unique(_flat(normalized(values)).drop_null())


def build_filter(
    columns: Sequence[str], keys: Sequence[Any], null_safe: Sequence[bool], numbered_rows: int = DEFAULTS.numbered_rows
) -> tuple[ExactFilter, pa.Array]:
    """The filter over source keys, given as one array per key column, and each source row's key id (null: can't match).

    Key ids count the distinct keys from 0. From `numbered_rows` source rows on keys are looked up as numbers, if they can be.
    """
    if len(keys) > 1 and len(keys[0]) >= numbered_rows and not any(null_safe):
        numbers = numbered(keys)
        if numbers is not None:
            return _number_filter(columns, keys, numbers)
    values = tuple(map(distinct_values, keys))
    plain = KeyFilter(tuple(columns), values, tuple(null_safe), None)
    codes = plain.codes_of(keys)
    if len(values) == 1 and not null_safe[0]:
        return plain, codes
    distinct = pc.unique(codes.drop_null())
    full = KeyFilter(plain.columns, values, plain.null_safe, distinct)
    return full, pc.index_in(codes, distinct).cast(pa.int64())


def _number_filter(columns: Sequence[str], keys: Sequence[Any], numbers: KeyNumbers) -> tuple[NumberFilter, pa.Array]:
    rows, ascending = numbers.ordered(keys)
    first = is_new(ascending)
    ids = np.full(len(keys[0]), -1)
    ids[rows] = np.cumsum(first) - 1
    return NumberFilter(tuple(columns), numbers, ascending[first]), pa.array(ids, mask=ids < 0)


def fits_codes(keys: Sequence[Any]) -> bool:
    """Whether the combinations of these key columns can be numbered in 64 bits."""
    product = 1
    for key in keys:
        product *= len(key) + 2
    return product < 2**62


def _flat(values: Any) -> Any:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
