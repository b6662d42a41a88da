"""How views, rows and errors look on a terminal, and what is shown of a table."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text
from rich.tree import Tree as Branches

from deltamerge.display.views import Bars, Grid, Node, Page, Pairs, Tree, View, grid_of, seen
from deltamerge.errors import DeltaMergeError
from deltamerge.protocol.values.plain import plain_rows

_BAR = 30

# What hints say in the terms of the library, and what the command line has for it.
_TERMS = {
    ".withSchemaEvolution(), in SQL MERGE WITH SCHEMA EVOLUTION INTO": "--schema-evolution",
    "DeltaTable.history()": "`deltamerge history`",
    "keepLatest(by, keys=[..])": "--key",
}


def error_text(error: DeltaMergeError) -> Text:
    """An error: condition, cause, hint."""
    text = Text.assemble((f"{error.condition}: ", "bold red"), seen(error.detail, but="\n\t"))
    hint = seen(_hint(error), but="\n\t")
    return text.append(f"\nHint: {hint}", style="green") if hint else text


def _hint(error: DeltaMergeError) -> str:
    """What to do about an error, in the terms of the command line."""
    if error.condition == "DELTA_MISSING_DELTA_TABLE":
        return _missing_hint(str(error.parameters.get("tableName", "")))
    if error.condition == "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES":
        return (
            "Rename the columns, or make the table beforehand, with a property that allows such names: "
            "deltamerge sql 'CREATE TABLE delta.`/data/t` (`a name` STRING) "
            'TBLPROPERTIES ("delta.columnMapping.mode" = "name")\''
        )
    if re.search(r"No FileSystem for scheme|FileSystem not found", error.detail):
        return (
            "Spark reads the files of --source itself, and has no connector for this store. Copy them to this machine, "
            "or add the connector by --conf spark.jars.packages=.., for S3 hadoop-aws in the version of Spark's Hadoop."
        )
    if error.detail.startswith("Unable to infer schema for "):
        return "In --source there is no file of its format, or none that says its columns."
    if error.condition == "DELTA_EMPTY_DIRECTORY":
        return "Name a folder in which Parquet files are. `deltamerge merge --create` makes a table of one file."
    if error.condition == "DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT":
        return "If nothing writes or reads older versions, add --no-check-retention."
    if error.condition == "DELTAMERGE_STORAGE_REFUSED" and error.hint and "storage_options" in error.hint:
        return (
            "No credentials were found: give them by --storage-option, which sql has not, "
            "or by AWS_*, AZURE_* or GOOGLE_* in the environment."
        )
    if "Parquet type: INT64 (TIMESTAMP(NANOS" in error.detail:
        return (
            "Spark reads no times in nanoseconds, which pandas and PyArrow write. Write them in microseconds: "
            "df.to_parquet(.., coerce_timestamps='us', allow_truncated_timestamps=True). "
            "Or add --conf spark.sql.legacy.parquet.nanosAsLong=true, which reads them as whole numbers."
        )
    if error.condition == "TABLE_OR_VIEW_NOT_FOUND" and not error.hint:
        return "A table that is in no catalog goes by its path: delta.`/data/customers`, with the statement in single quotes."
    hint = error.hint or ""
    for said, here in _TERMS.items():
        hint = hint.replace(said, here)
    return hint


def _missing_hint(place: str) -> str:
    path = Path(place)
    if path.is_file():
        return (
            f"This is a file, and a table is a folder. `deltamerge merge --source {place} --target FOLDER --create ..` makes one."
        )
    if path.is_dir() and any(path.rglob("*.parquet")):
        return f"`deltamerge convert {place}` makes a folder of Parquet files a table."
    return "Check the path. `deltamerge merge --create` makes a table that is not there."


def rendered(view: View | Page) -> RenderableType:
    """A view on a terminal."""
    if isinstance(view, Page):
        head = Text.assemble((f"{seen(view.heading)} ", "bold"), seen(view.line)) if view.heading else _text(view.line)
        parts: list[RenderableType] = [head]
        for part in view.views:
            parts += [Text(), rendered(part)]
        return Group(*parts)
    if isinstance(view, Grid):
        return _grid(view)
    if isinstance(view, Pairs):
        return _pairs(view)
    return _bars(view) if isinstance(view, Bars) else _tree(view)


def _text(text: str, style: str = "") -> Text:
    return Text(seen(text), style)


def _grid(view: Grid) -> RenderableType:
    if not view.columns:
        return _text(view.title, "bold")
    table = Table(header_style="cyan")
    for name in view.columns:
        table.add_column(_text(name), justify="right" if name in view.numeric else "left", overflow="fold")
    for row in view.rows:
        table.add_row(*[_text(cell.text, "bold yellow" if cell.marked else "") for cell in row])
    return _titled(view.title, table, view.note)


def _pairs(view: Pairs) -> RenderableType:
    table = _plain()
    table.add_column(style="cyan")
    table.add_column(overflow="fold")
    for name, value in view.pairs:
        table.add_row(_text(name), _text(value))
    return _titled(view.title, table)


def _bars(view: Bars) -> RenderableType:
    table = _plain(heads=any(view.heads))
    table.add_column("")
    for head in view.heads:
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("")
    for bar in view.bars:
        length = round(_BAR * bar.share) or (1 if bar.share else 0)
        table.add_row(_text(bar.name), *map(_text, bar.texts), Text("\N{FULL BLOCK}" * length, "magenta"))
    return _titled(view.title, table)


def _tree(view: Tree) -> Branches:
    root = Branches(_text(view.title, "bold"), guide_style="dim")
    for node in view.nodes:
        _grow(root, node)
    return root


def _grow(branch: Branches, node: Node) -> None:
    text = _text(node.text if node.chosen else f"no {node.text}", "" if node.chosen else "dim")
    below = branch.add(text.append(f" \N{EM DASH} {seen(node.why)}", style="dim") if node.why else text)
    for child in node.below:
        _grow(below, child)


def _plain(heads: bool = False) -> Table:
    return Table(show_header=heads, header_style="cyan", box=None, padding=(0, 2))


def _titled(title: str, view: RenderableType, note: str = "") -> RenderableType:
    """A view below its title, which may be wider than the view."""
    parts = [*([_text(title, "bold")] if title else []), view, *([_text(note, "dim")] if note else [])]
    return Group(*parts) if len(parts) > 1 else view


def rows_view(title: str, table: pa.Table, limit: int | None = None) -> Grid:
    """The rows of an Arrow table, at most `limit` of them."""
    numeric = [f.name for f in table.schema if pa.types.is_integer(f.type) or pa.types.is_floating(f.type)]
    return grid_of(title, plain_rows(table if limit is None else table.slice(0, limit)), table.column_names, numeric)


def plan_panel(text: str) -> RenderableType:
    """A plan as `explain()` gives it."""
    return Group(Rule("The plan", align="left", style="cyan"), Text(text, overflow="fold"))
