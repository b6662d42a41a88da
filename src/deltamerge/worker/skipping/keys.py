"""The runtime filter: which rows of the target can have a match in the source, by their join keys.

An exact filter knows all distinct source keys: each column's values, and which combinations of them occur. It never
drops a row that could match; equality is Spark's: NaN equals NaN, -0.0 equals 0.0, null equals null only for `<=>`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


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


def normalized(values: Any) -> Any:
    """Values in the form in which equal ones have equal bits: -0.0 becomes 0.0, and every NaN the same one."""
    if not pa.types.is_floating(values.type):
        return values
    positive = pc.add(values, pa.scalar(0.0, values.type))
    nan = pc.is_nan(positive)
    return pc.if_else(nan, pa.scalar(np.nan, values.type), positive) if pc.any(nan).as_py() else positive


def build_filter(columns: Sequence[str], keys: Sequence[Any], null_safe: Sequence[bool]) -> tuple[KeyFilter, pa.Array]:
    """The filter over source keys, given as one array per key column, and each source row's key id (null: can't match).

    Key ids count the distinct keys from 0.
    """
    values = tuple(pc.unique(_flat(normalized(key)).drop_null()) for key in keys)
    plain = KeyFilter(tuple(columns), values, tuple(null_safe), None)
    codes = plain.codes_of(keys)
    if len(values) == 1 and not null_safe[0]:
        return plain, codes
    distinct = pc.unique(codes.drop_null())
    full = KeyFilter(plain.columns, values, plain.null_safe, distinct)
    return full, pc.index_in(codes, distinct).cast(pa.int64())


def fits_codes(keys: Sequence[Any]) -> bool:
    """Whether the combinations of these key columns can be numbered in 64 bits."""
    product = 1
    for key in keys:
        product *= len(key) + 2
    return product < 2**62


def _flat(values: Any) -> Any:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
