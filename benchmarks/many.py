"""Fifty merges in a row into one table, by each engine: the seconds, and the files that are left. `python -m benchmarks.many`.

Each merge updates rows anywhere in the table and inserts others; the batches are the same for all engines, whose tables must
agree at the end. Engines take turns, merge by merge. Prints the table of docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import mean
from typing import Any

import deltalake
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.cases import upsert
from benchmarks.data import KEYS, Shape
from benchmarks.engines import ENGINES, OURS, OURS_DV, SPARK, SPARK_DV
from benchmarks.host import Host
from benchmarks.merge import FOLDER
from benchmarks.rounds import MOST_SECONDS
from benchmarks.tables import fresh_copy, table_path

MERGES, MATCHED, NEW = 50, 80, 20
_CASE = upsert(1.0, 0.01, 0.001)
_AT_ENDS = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--merges", type=int, default=MERGES)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="for tables and batches")
    given = parser.parse_args()
    folder = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    host = Host("delta", folder)
    try:
        for layout in ("clustered", "partitioned"):
            print(f"\n{measured(host, folder, Shape(given.rows, layout=layout), given.merges)}", flush=True)
    finally:
        host.stop()


def measured(host: Host, folder: Path, shape: Shape, merges: int) -> str:
    """A Markdown table of what became of a table by each engine. Raises ValueError where they disagree."""
    root = Path(tempfile.mkdtemp(dir=folder, prefix="many-"))
    engines = (OURS, SPARK, OURS_DV, SPARK_DV)
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    try:
        for place, name in enumerate(engines):
            fresh_copy(table_path(folder, shape), shape, root / str(place), ENGINES[name].vectors, feed=False)
        for number in range(merges):
            source = root / f"batch-{number}.parquet"
            write_batch(source, shape, number)
            for place, name in enumerate(engines):
                command = {"do": "merge", "engine": name, "case": _CASE.name, "table": str(root / str(place))}
                answer = host.ask({**command, "source": str(source), "shape": asdict(shape)}, MOST_SECONDS)
                seconds[name].append(answer["seconds"])
        checks = [
            host.ask({"do": "check", "table": str(root / str(place)), "where": "true"}, MOST_SECONDS)["check"]
            for place in range(len(engines))
        ]
        if any(check != checks[0] for check in checks):
            raise ValueError(f"the engines disagree: {checks}")
        lines = [f"{merges} merges into {shape.rows:,} rows in {shape.files} files, {shape.layout}:", "", *_head()]
        lines += [_line(name, seconds[name], root / str(place), checks[0][0]) for place, name in enumerate(engines)]
        return "\n".join(lines)
    finally:
        shutil.rmtree(root)


def write_batch(path: Path, shape: Shape, number: int) -> None:
    """A batch of rows from anywhere in the table, and of rows between them that it does not have."""
    rng = np.random.default_rng(number + 1)
    matched = shape.table(np.sort(rng.choice(shape.rows, MATCHED, replace=False)))
    new = shape.table(np.sort(rng.choice(shape.rows, NEW, replace=False)))
    new = new.set_column(1, KEYS[1], pa.array(np.full(NEW, 1_000_000 + number)))
    pq.write_table(pa.concat_tables([matched, new]), path)


def _head() -> Sequence[str]:
    titles = (
        "engine",
        f"first {_AT_ENDS}, mean",
        f"last {_AT_ENDS}, mean",
        "live files",
        "MB in them",
        "MB in the folder",
        "rows marked",
    )
    return ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]


def _line(name: str, seconds: Sequence[float], table: Path, rows: int) -> str:
    adds = pa.table(deltalake.DeltaTable(table).get_add_actions(flatten=True)).to_pylist()
    every = sum(file.stat().st_size for file in table.rglob("*") if file.is_file())
    figures: list[Any] = [f"{mean(part):.2f} s" for part in (seconds[:_AT_ENDS], seconds[-_AT_ENDS:])]
    figures += [len(adds), f"{sum(add['size_bytes'] for add in adds) / 1e6:.1f}", f"{every / 1e6:.0f}"]
    figures.append(sum(add["num_records"] for add in adds) - rows)
    return f"| {' | '.join(map(str, (name, *figures)))} |"


if __name__ == "__main__":
    main()
