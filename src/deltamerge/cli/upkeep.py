"""`deltamerge history`, `detail`, `vacuum`, `restore`, which need no Spark, and `optimize`, `convert`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

import typer

from deltamerge.cli.options import (
    AsJson,
    Conf,
    Remote,
    StorageOption,
    TablePath,
    Timestamp,
    Version,
    pairs_of,
)
from deltamerge.cli.output import console, show
from deltamerge.cli.session import NoSpark, session
from deltamerge.commands.layout.restore import restore_table
from deltamerge.commands.layout.vacuum import CHECKED, VacuumRequest, vacuum_table
from deltamerge.commands.table.convert import Convert, convert_table
from deltamerge.commands.table.describe import changed_rows, detail_page, detail_table, history_table, history_view
from deltamerge.display.views import Grid, Pairs, counted, grid_of, size_text
from deltamerge.log.replay.commit_times import milliseconds
from deltamerge.log.replay.table import DeltaLog, open_log
from deltamerge.spark.pyspark.older import arrow_rows
from deltamerge.tables import DeltaTable
from deltamerge.tables.arguments import partition_schema

_WIDTH = 117  # of a history with the writer of each commit


def _opened(table: str, storage_option: list[str] | None) -> DeltaLog:
    return open_log(table, pairs_of(storage_option, "--storage-option"))


def history(
    table: TablePath,
    limit: Annotated[int, typer.Option(metavar="N", min=0, help="The most commits that are shown.")] = 20,
    as_json: AsJson = False,
    storage_option: StorageOption = None,
) -> None:
    """Show a table's commits, newest first, with the rows that each inserted, updated and deleted."""
    found = history_table(_opened(table, storage_option), limit + 1)
    shown = found.slice(0, limit)
    note = f"There are older commits: --limit {2 * limit or 20} shows more." if shown.num_rows < found.num_rows else ""

    def view() -> Grid:
        return replace(_as_wide(history_view(shown), console().width), note=note)

    show(view, lambda: [_commit(row) for row in shown.to_pylist()], as_json)


def _as_wide(view: Grid, width: int) -> Grid:
    """A history, whose last column is left out where it would break each commit into several lines."""
    if width >= _WIDTH:
        return view
    return replace(view, columns=view.columns[:-1], rows=tuple(row[:-1] for row in view.rows))


def _commit(row: Mapping[str, Any]) -> dict[str, Any]:
    texts = {name: dict(row[name] or ()) for name in ("operationParameters", "operationMetrics")}
    return {**row, **texts, "rows": changed_rows(row)}


def detail(table: TablePath, as_json: AsJson = False, storage_option: StorageOption = None) -> None:
    """Show a table's schema, size, properties and protocol."""
    snapshot = _opened(table, storage_option).snapshot()
    (row,) = detail_table(snapshot).to_pylist()
    columns = [{"name": field.name, "type": str(field.type), "nullable": field.nullable} for field in snapshot.schema]
    data = {**row, "properties": dict(row["properties"]), "version": snapshot.version, "columns": columns}
    show(lambda: detail_page(snapshot), lambda: data, as_json)


def vacuum(
    table: TablePath,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be deleted.")] = False,
    retain: Annotated[
        float | None,
        typer.Option(
            "--retain", metavar="HOURS", help="Keep what versions of these hours need, in place of what the table says."
        ),
    ] = None,
    check_retention: Annotated[
        bool,
        typer.Option("--check-retention/--no-check-retention", help="Whether fewer hours than the table says are refused."),
    ] = True,
    as_json: AsJson = False,
    storage_option: StorageOption = None,
) -> None:
    """Delete files that no version of the last days needs: 7 days, where the table says no other time."""
    if retain is not None and not math.isfinite(retain):
        raise typer.BadParameter("It is no number of hours.", param_hint="--retain")
    spark = NoSpark({CHECKED: str(check_retention).lower()})
    log = _opened(table, storage_option)
    done = vacuum_table(spark, log, VacuumRequest(retain, dry_run))  # type: ignore[arg-type]
    what = "file or empty folder" if len(done.names) == 1 else "files and empty folders"
    said = f"{'would delete' if dry_run else 'deleted'} {len(done.names):,} {what}, {size_text(done.size)}"
    rows = [{"path": name} for name in done.names]
    data = {"dry_run": dry_run, "deleted": list(done.names), "bytes": done.size}
    show(lambda: grid_of(said, rows, ("path",)) if dry_run and rows else Pairs("", ((said, ""),)), lambda: data, as_json)


def restore(
    table: TablePath,
    version: Version = None,
    timestamp: Timestamp = None,
    as_json: AsJson = False,
    storage_option: StorageOption = None,
) -> None:
    """Make a table what it was: a new version that equals an older one. Say which by --version or --timestamp."""
    if (version is None) == (timestamp is None):
        raise typer.BadParameter("Say which older version is wanted, by one of the two.", param_hint="--version / --timestamp")
    log = _opened(table, storage_option)
    moment = None if timestamp is None else milliseconds(timestamp, "UTC")
    done = restore_table(NoSpark(), log, version, moment)  # type: ignore[arg-type]
    if done is None:
        data: dict[str, Any] = {"version": None}
        view = Pairs("", (("nothing to restore: this is the newest version", ""),))
    else:
        data = {"version": log.snapshot().version, **done.metrics}
        files = f"{counted(done.restored, 'file')} back, {counted(done.removed, 'file')} gone"
        view = Pairs(
            f"Restored as version {data['version']}",
            (("files", files), ("table", f"{counted(done.files_after, 'file')}, {size_text(done.size_after)}")),
        )
    show(lambda: view, lambda: data, as_json)


def optimize(
    table: TablePath,
    where: Annotated[str | None, typer.Option("--where", metavar="COND", help="Only partitions for which this is true.")] = None,
    zorder_by: Annotated[
        list[str] | None, typer.Option("--zorder-by", metavar="COL", help="Lay rows out by this column. Can be repeated.")
    ] = None,
    as_json: AsJson = False,
    remote: Remote = None,
    conf: Conf = None,
    storage_option: StorageOption = None,
) -> None:
    """Put small files together, or lay all rows out by columns."""
    log = _opened(table, storage_option)
    log.snapshot()
    with session(remote, pairs_of(conf, "--conf")) as spark:
        options = pairs_of(storage_option, "--storage-option") or None
        builder = DeltaTable.forPath(spark, log.store.url, options).optimize()
        builder = builder if where is None else builder.where(where)
        frame = builder.executeZOrderBy(zorder_by) if zorder_by else builder.executeCompaction()
        (row,) = arrow_rows(frame).to_pylist()
    metrics = row["metrics"]
    pairs = (("files replaced", f"{metrics['numFilesRemoved']:,}"), ("files written", f"{metrics['numFilesAdded']:,}"))
    show(lambda: Pairs("Optimized", pairs), lambda: metrics, as_json)


def convert(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="A folder of Parquet files.", show_default=False)],
    partitioned_by: Annotated[
        str | None,
        typer.Option("--partitioned-by", metavar="COLUMNS", help="The columns in the names of folders: 'year int, day date'."),
    ] = None,
    as_json: AsJson = False,
    remote: Remote = None,
    conf: Conf = None,
    storage_option: StorageOption = None,
) -> None:
    """Make a folder of Parquet files a Delta table, in place."""
    place = _opened(folder, storage_option).store.url
    with session(remote, pairs_of(conf, "--conf")) as spark:
        request = Convert(("parquet", place), partition_schema(partitioned_by))
        convert_table(spark, request, pairs_of(storage_option, "--storage-option") or None)
    files = _opened(folder, storage_option).snapshot().files
    pairs = (("table", place), ("files", f"{len(files):,}"), ("size", size_text(files.total_bytes)))
    show(lambda: Pairs("Converted", pairs), lambda: {"location": place, "files": len(files), "bytes": files.total_bytes}, as_json)
