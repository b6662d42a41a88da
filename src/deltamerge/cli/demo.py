"""The demo: a real change batch merged into a real table, and the result proven by readers that are not this library."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table

from deltamerge.activation import activate
from deltamerge.cli.flights import KEYS, Flights, load_flights
from deltamerge.cli.render import plan_panel, rendered, rows_view
from deltamerge.cli.session import local_session
from deltamerge.commands.table.describe import history_table, history_view
from deltamerge.display.shown import page_of
from deltamerge.display.views import Pairs
from deltamerge.errors import DeltaMergeError
from deltamerge.log.replay.table import open_log
from deltamerge.spark.pyspark.older import arrow_frame
from deltamerge.tables import DeltaMergeBuilder, DeltaTable

_SHOWN = ["op", "month", "day", "carrier", "flight", "origin", "dest", "dep_delay", "arr_delay"]
_SUMS = ("dep_delay", "arr_delay", "distance")


def run_demo(folder: Path, console: Console) -> None:
    """Make the table in `folder` anew, merge the batch, show and prove the result. Raises DeltaMergeError."""
    began = time.perf_counter()
    path = folder.resolve() / "flights"
    shutil.rmtree(path, ignore_errors=True)
    console.print(Rule("deltamerge: a change batch into a year of flights"))
    with console.status("Reading the flights"):
        flights = load_flights()  # before Spark starts: the data may not be installed
    with console.status("Starting Spark"), _session() as spark:
        _show_batch(flights, console)
        activate(spark)
        with console.status("Writing January to November as a Delta table partitioned by month"):
            arrow_frame(spark, flights.table).write.format("delta").partitionBy("month").save(str(path))
        builder = _merge(spark, str(path), flights.batch)
        console.print(plan_panel(builder.explain()))
        report = builder.run()
        console.print(rendered(page_of(report)))
        _run_sql(spark, str(path), flights.late, console)
        console.print(rendered(history_view(history_table(open_log(str(path))))))
        with console.status("Reading the table with delta-rs and DuckDB"):
            proofs = _proofs(path, flights.expected)
    _show_proofs(proofs, console)
    seconds = time.perf_counter() - began
    command, shown = os.path.relpath(sys.argv[0]), os.path.relpath(path)
    console.print(
        Panel(
            f"Done in {seconds:.0f} s. The table is at\n  [bold]{path}[/bold]\n"
            f"Try next:\n  {command} history {shown}\n  {command} detail {shown}\n"
            'and in your own code\n  [bold]deltamerge.activate(spark)[/bold]\nfor format("delta") and SQL, and\n'
            "  [bold]from deltamerge.tables import DeltaTable[/bold]\nin place of delta.tables.",
            border_style="green",
        )
    )


def _session() -> Any:
    return local_session("deltamerge demo")


def _merge(spark: Any, path: str, batch: pa.Table) -> DeltaMergeBuilder:
    source = arrow_frame(spark, batch).alias("s")
    condition = " AND ".join(f"t.{key} = s.{key}" for key in KEYS)
    columns = {name: f"s.{name}" for name in batch.column_names if name != "op"}
    return (
        DeltaTable.forPath(spark, path)
        .alias("t")
        .merge(source, condition)
        .whenMatchedDelete("s.op = 'D'")
        .whenMatchedUpdate("s.op = 'U'", {"dep_delay": "s.dep_delay", "arr_delay": "s.arr_delay"})
        .whenNotMatchedInsert("s.op = 'I'", columns)
    )


def _show_batch(flights: Flights, console: Console) -> None:
    counts = pc.value_counts(flights.batch["op"]).to_pylist()
    meaning = {"I": "new flights of December", "U": "corrected delays", "D": "cancelled flights to delete"}
    console.print(
        rendered(
            Pairs(
                "The data",
                (
                    ("flights from January to November", f"{flights.table.num_rows:,}"),
                    *((meaning[count["values"]], f"{count['counts']:,}") for count in counts),
                ),
            )
        )
    )
    sample = pa.concat_tables([flights.batch.filter(pc.equal(flights.batch["op"], op)).slice(0, 2) for op in "IUD"])
    console.print(rendered(rows_view("The change batch", sample.select(_SHOWN), 6)))


def _run_sql(session: Any, path: str, late: pa.Table, console: Console) -> None:
    """What stands around a merge, as SQL that a user of the session asks."""
    arrow_frame(session, late).createOrReplaceTempView("late")
    same = " AND ".join(f"t.{key} = s.{key}" for key in KEYS)
    delays = ", ".join(f"{name} = s.{name}" for name in ("dep_delay", "arr_delay"))
    table = f"delta.`{path}`"
    view = Table(title="SQL in the same session, by spark.sql(..)", title_justify="left", title_style="bold", header_style="cyan")
    view.add_column("statement", overflow="fold")
    for name in ("result", "time"):
        view.add_column(name, justify="right")
    statements: list[tuple[str, Callable[[Any], str]]] = [
        (
            f"MERGE INTO {table} t USING late s ON {same} WHEN MATCHED THEN UPDATE SET {delays}",
            lambda row: f"{row['num_updated_rows']:,} delays of December corrected",
        ),
        (
            f"OPTIMIZE {table} ZORDER BY (carrier)",
            lambda row: f"{row['metrics']['numFilesRemoved']} files sorted by carrier",
        ),
        (f"VACUUM {table} DRY RUN", lambda row: "nothing is old enough to delete" if row is None else row["path"]),
        (
            f"SELECT count(*) AS flights FROM {table} VERSION AS OF 0",  # noqa: S608
            lambda row: f"{row['flights']:,} flights before the merge",
        ),
    ]
    for statement, result in statements:
        with console.status(statement.partition(" ")[0]):
            began = time.perf_counter()
            row = session.sql(statement).first()
        view.add_row(statement.replace(path, os.path.relpath(path)), result(row), f"{time.perf_counter() - began:.1f} s")
    console.print(view)


def _proofs(path: Path, expected: pa.Table) -> list[tuple[str, tuple[int, ...]]]:
    """Row count and column sums: as they must be, and as readers outside this library find them."""
    import deltalake
    import duckdb

    table = deltalake.DeltaTable(str(path))
    wanted = ", ".join(f"sum({name})" for name in _SUMS)
    files = [uri.removeprefix("file://") for uri in table.file_uris()]
    counted = duckdb.sql(f"select count(*), {wanted} from read_parquet($1)", params=[files]).fetchall()[0]  # noqa: S608
    return [
        ("expected", _checksum(expected)),
        ("delta-rs", _checksum(table.to_pyarrow_table())),
        ("DuckDB", tuple(int(value) for value in counted)),
    ]


def _checksum(table: pa.Table) -> tuple[int, ...]:
    return (table.num_rows, *(int(pc.sum(table[name]).as_py()) for name in _SUMS))


def _show_proofs(proofs: list[tuple[str, tuple[int, ...]]], console: Console) -> None:
    view = Table(title="Proof from outside", title_justify="left", title_style="bold", header_style="cyan")
    for name in ("read by", "rows", *(f"sum of {name}" for name in _SUMS)):
        view.add_column(name, justify="left" if name == "read by" else "right")
    for name, values in proofs:
        view.add_row(name, *[f"{value:,}" for value in values])
    console.print(view)
    if len({values for _, values in proofs}) != 1:
        raise DeltaMergeError("DELTAMERGE_DEMO_FAILED", "The readers do not agree on the table's content.")
    console.print("[green]All agree.[/green]")
