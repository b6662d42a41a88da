"""The benchmark's table and change batches: shaped like TPC-DS web_returns, keyed by order and item; the same every time."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import write_deltalake

KEYS = ("wr_order_number", "wr_item_sk")
_LINES = 4
_NEW_ITEM = 10_000_000


def table_path(root: Path, rows: int, files: int = 16, scattered: bool = False) -> Path:
    """The Delta table of `rows` rows in `files` files, made when it is not there; clustered by order unless scattered."""
    path = root / f"web_returns-{rows}-{files}{'-scattered' if scattered else ''}"
    if not (path / "ready.json").exists():
        shutil.rmtree(path, ignore_errors=True)
        order = np.random.default_rng(1).permutation(rows) if scattered else np.arange(rows)
        for number, ids in enumerate(np.array_split(order, files)):
            write_deltalake(path, web_returns(ids), mode="append" if number else "overwrite")
        (path / "ready.json").write_text(json.dumps({"rows": rows}))
    return path


def web_returns(ids: np.ndarray) -> pa.Table:
    """The rows with the given numbers: 24 columns, values that depend on nothing but the number."""
    rng = np.random.default_rng(int(ids[0]) + 7 if len(ids) else 7)
    count = len(ids)
    columns = {
        "wr_order_number": pa.array(ids // _LINES + 1),
        "wr_item_sk": pa.array(ids % _LINES * 4_500 + ids * 2_654_435_761 % 4_500),
    }
    for n in range(10):
        columns[f"wr_sk_{n}"] = pa.array(rng.integers(0, 200_000, count), mask=rng.random(count) < 0.02)
    for n in range(9):
        columns[f"wr_amt_{n}"] = pa.array(np.round(rng.random(count) * 1_000, 2))
    columns["wr_return_quantity"] = pa.array(rng.integers(0, 100, count).astype(np.int32))
    reasons = np.array([f"reason {n} in words" for n in range(60)], dtype=object)
    columns["wr_reason"] = pa.array(reasons[rng.integers(0, 60, count)])
    columns["wr_returned_date"] = pa.array(rng.integers(8_000, 20_000, count).astype(np.int32)).cast(pa.date32())
    return pa.table(columns)


def batch(rows: int, first: int, last: int, matched: int, new: int, seed: int) -> pa.Table:
    """A change batch: `matched` random rows numbered within [first, last), and `new` rows with items that do not exist."""
    rng = np.random.default_rng(seed)
    hit = np.sort(rng.choice(np.arange(first, last), matched, replace=False)) if matched else np.arange(0)
    parts = [web_returns(hit)] if matched else []
    if new:
        base = web_returns(np.sort(rng.choice(np.arange(first, last), new, replace=False)))
        parts.append(base.set_column(1, "wr_item_sk", pc.add(base["wr_item_sk"], _NEW_ITEM)))
    return pa.concat_tables(parts)


def batch_path(root: Path, name: str, table: pa.Table) -> Path:
    """A batch as a Parquet file, which every engine reads as its source."""
    path = root / f"{name}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
    return path
