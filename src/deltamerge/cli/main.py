"""The commands. Each prints for people; errors are one screen: condition, cause, hint."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import pyspark
import typer
from rich.console import Console

from deltamerge._version import __version__
from deltamerge.cli.demo import run_demo
from deltamerge.cli.render import detail_view, error_view, history_view
from deltamerge.commands.table.describe import detail_table, history_table
from deltamerge.errors import DeltaMergeError
from deltamerge.log.replay.table import open_log

app = typer.Typer(no_args_is_help=True, add_completion=False)
console = Console()


def _show_version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@app.callback()
def options(
    show_version: Annotated[
        bool, typer.Option("--version", help="Show the version, and that of PySpark.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """MERGE INTO for Delta Lake tables, without a JAR."""


@app.command()
def demo(
    folder: Annotated[Path, typer.Argument(help="Where the demo's table is made.")] = Path("deltamerge-demo"),
) -> None:
    """Merge a change batch into the 336,776 flights of New York's 2013, and prove the result from outside."""
    run_demo(folder, console)


@app.command()
def history(
    table: Annotated[str, typer.Argument(help="Path of a Delta table.")],
    limit: Annotated[int, typer.Option(min=0, help="The most commits that are shown.")] = 20,
) -> None:
    """Show a table's commits, newest first."""
    console.print(history_view(history_table(open_log(table), limit)))


@app.command()
def detail(table: Annotated[str, typer.Argument(help="Path of a Delta table.")]) -> None:
    """Show a table's schema, size, properties and protocol."""
    snapshot = open_log(table).snapshot()
    console.print(detail_view(detail_table(snapshot), snapshot.schema))


@app.command()
def version() -> None:
    """Show the version, and that of PySpark."""
    console.print(f"deltamerge {__version__}, PySpark {pyspark.__version__}", highlight=False)


def main() -> None:
    """Run the command line; errors of this library end it with status 1 and without a traceback."""
    try:
        app()
    except DeltaMergeError as error:
        Console(stderr=True).print(error_view(error))
        sys.exit(1)
