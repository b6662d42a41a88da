"""Values, tables and data files for the tests of the worker layer."""

from __future__ import annotations

import contextlib
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import settings
from hypothesis import strategies as st

from deltamerge.budgets import current_budgets
from deltamerge.protocol.formats.roaring import encode
from deltamerge.protocol.table.actions import DeletionVector
from deltamerge.protocol.table.deletion_vector import file_of_vectors, z85_encode
from deltamerge.worker.scan.store import DataStore
from deltamerge.worker.scan.vectors import Vector
from deltamerge.worker.write.stats import StatsColumn
from deltamerge.worker.write.write import WriteSpec

examples = settings(max_examples=40, deadline=None)

UTC_TIME = pa.timestamp("us", tz="UTC")
DECIMAL = pa.decimal128(9, 2)
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats() | st.sampled_from([0.0, -0.0, float("nan")]),
    DECIMAL: st.decimals(-9999999, 9999999, allow_nan=False, allow_infinity=False, places=2).map(lambda price: price + 0),
    pa.date32(): st.dates(),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(max_size=5),
    pa.binary(): st.binary(max_size=5),
    UTC_TIME: st.datetimes().map(lambda moment: pa.scalar(moment.replace(tzinfo=UTC), UTC_TIME).as_py()),
}
types = st.sampled_from(list(VALUES))


@st.composite
def columns_alike(draw: st.DrawFn, type: pa.DataType, *sizes: int) -> list[list[Any]]:
    """Lists of values of one type with the given lengths, nulls among them, drawn from few distinct values."""
    pool = [*draw(st.lists(VALUES[type], min_size=1, max_size=5)), None]
    if pa.types.is_floating(type):
        pool += [float("nan"), 0.0, -0.0]
    return [draw(st.lists(st.sampled_from(pool), min_size=size, max_size=size)) for size in sizes]


def equal_in_spark(value: Any) -> Any:
    """A value such that two are equal in Python exactly when Spark's `<=>` holds: NaN equals NaN, 0.0 equals -0.0."""
    return "NaN" if isinstance(value, float) and value != value else value


def bag(rows: Iterable[Any]) -> Counter[str]:
    """Rows without their order, told apart to the bit: NaN equals NaN, and -0.0 is not 0.0."""
    return Counter(repr(row) for row in rows)


def chunked(values: Sequence[Any], type: pa.DataType, cut: int) -> pa.ChunkedArray:
    """Values as an Arrow column of two chunks, one of which may be empty."""
    return pa.chunked_array([pa.array(values[:cut], type), pa.array(values[cut:], type)], type)


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """An empty folder for one example of a property."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def store_at(root: Path) -> DataStore:
    """The folder as a worker reaches it."""
    return DataStore("file", str(root))


def write_spec(root: Path, schema: pa.Schema, partition_columns: Sequence[str] = (), **options: Any) -> WriteSpec:
    """How to write tables of `schema`, without statistics unless `options` has some."""
    stored = pa.schema([field for field in schema if field.name not in partition_columns])
    return WriteSpec(
        store_at(root),
        schema,
        options.pop("stored", stored),
        tuple(partition_columns),
        **{"stats": (), "budgets": current_budgets(), **options},
    )


def bounded(schema: pa.Schema) -> tuple[StatsColumn, ...]:
    """Statistics with bounds for every column of a flat schema."""
    return tuple(StatsColumn((field.name,), field.type, True) for field in schema)


def vector_of(root: Path, rows: Iterable[int], inline: bool = False) -> Vector | None:
    """A deletion vector of the given rows, in a new file of the folder unless it is `inline`; None for no rows."""
    positions = np.array(sorted(rows), np.int64)
    if not len(positions):
        return None
    data = encode(positions)
    if inline:
        return Vector(DeletionVector("i", z85_encode(data + bytes(-len(data) % 4)), len(data), len(positions)))
    content, offsets = file_of_vectors([encode(np.array([0])), data])
    name = f"deletion_vector_{len(list(root.iterdir()))}.bin"
    (root / name).write_bytes(content)
    return Vector(DeletionVector("p", name, len(data), len(positions), offsets[1]), store_at(root), name)


def data_files(root: Path) -> list[str]:
    """The names of all files below a folder."""
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def read_rows(root: Path, name: str, partition: Mapping[str, Any], order: Sequence[str]) -> list[tuple[Any, ...]]:
    """The rows of a data file, its partition values filled in, as tuples in the order of the given columns."""
    found = pq.ParquetFile(root / name).read().to_pylist()
    values = {name: value.as_py() for name, value in partition.items()}
    return [tuple({**row, **values}[column] for column in order) for row in found]


def raw_texts(*values: bytes | None) -> pa.StringArray:
    """Texts of any bytes, UTF-8 or not."""
    return pa.array(values, pa.binary()).view(pa.string())


# Texts that are no UTF-8: a stray byte, a cut character, a lone surrogate, and one beyond the length of statistics.
BROKEN = (b"a\xffb", b"\xc3", b"\xed\xa0\x80", b"z" * 40 + b"\xfe")
MOMENT = datetime(2020, 2, 29, 12, 30, 1, 1, tzinfo=UTC)
DAY = date(1999, 12, 31)
PRICE = Decimal("12.34")
