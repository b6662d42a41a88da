"""How tables, plans and errors look on a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from deltamerge.errors import DeltaMergeError
from deltamerge.merge.plan.prune import FunnelStep
from deltamerge.merge.report import MergeReport
from deltamerge.protocol.schema.types import StructType
from deltamerge.protocol.values.plain import plain_rows

_BAR = 30
# The metrics that count the rows that a commit is about, by operation; those that it only copied are left out.
_ROWS = {
    "MERGE": ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted"),
    "DELETE": ("numDeletedRows",),
    "UPDATE": ("numUpdatedRows",),
}
_WRITTEN = ("numOutputRows",)


def error_view(error: DeltaMergeError) -> RenderableType:
    """An error: condition, cause, hint."""
    body: list[RenderableType] = [Text(error.detail)]
    if error.hint:
        body.append(Text(f"Hint: {error.hint}", style="green"))
    return Panel(Group(*body), title=f"[bold red]{error.condition}", title_align="left", border_style="red")


def rows_view(title: str, table: pa.Table, limit: int = 6) -> Table:
    """The first rows of an Arrow table."""
    view = Table(title=title, title_justify="left", title_style="bold", header_style="cyan", show_lines=False)
    for field in table.schema:
        numeric = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        view.add_column(field.name, justify="right" if numeric else "left")
    for row in plain_rows(table.slice(0, limit)):
        view.add_row(*["" if value is None else str(value) for value in row.values()])
    return view


def pairs_view(title: str, pairs: Sequence[tuple[str, Any]]) -> Table:
    """Names and values."""
    view = Table(title=title, title_justify="left", title_style="bold", show_header=False, box=None, padding=(0, 2))
    view.add_column(style="cyan")
    view.add_column(justify="right")
    for name, value in pairs:
        view.add_row(name, f"{value:,}" if isinstance(value, int) else str(value))
    return view


def plan_view(text: str, width: int) -> Panel:
    """A plan as `explain()` gives it; what is longer than a line of `width` columns goes on below its own beginning."""
    lines = []
    for line in text.splitlines():
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        lines += textwrap.wrap(line, width - 4, subsequent_indent=indent, break_long_words=False) or [""]
    return Panel(Text("\n".join(lines)), title="The plan", title_align="left", border_style="cyan")


def funnel_view(funnel: Sequence[FunnelStep]) -> Table:
    """What each kind of pruning left, as bars."""
    view = Table(title="Pruning funnel", title_justify="left", title_style="bold", box=None, padding=(0, 2))
    for name, justify in (("", "left"), ("files", "right"), ("bytes", "right"), ("", "left")):
        view.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    most = max((step.files for step in funnel), default=0) or 1
    for step in funnel:
        bar = "█" * max(1 if step.files else 0, round(_BAR * step.files / most))
        view.add_row(step.name, f"{step.files:,}", size_text(step.bytes), Text(bar, style="magenta"))
    return view


def result_view(report: MergeReport) -> Table:
    """The result row and the metrics that matter."""
    metrics = report.metrics
    pairs = [
        ("rows updated", report.updated),
        ("rows deleted", report.deleted),
        ("rows inserted", report.inserted),
        ("rows copied", metrics["numTargetRowsCopied"]),
        ("files replaced", metrics["numTargetFilesRemoved"]),
        ("files written", metrics["numTargetFilesAdded"]),
        ("bytes written", size_text(metrics["numTargetBytesAdded"])),
        ("time", f"{metrics['executionTimeMs']:,} ms"),
    ]
    return pairs_view(f"Merged, version {report.version}", pairs)


def history_view(history: pa.Table) -> Table:
    """Commits, newest first, with the rows that each inserted, updated and deleted."""
    view = Table(title="History", title_justify="left", title_style="bold", header_style="cyan")
    for name in ("version", "time", "operation", "rows", "by"):
        view.add_column(name, justify="right" if name in ("version", "rows") else "left")
    for row in history.to_pylist():
        rows = _rows(row["operation"], dict(row["operationMetrics"] or ()))
        moment = row["timestamp"].strftime("%Y-%m-%d %H:%M:%S")
        view.add_row(str(row["version"]), moment, row["operation"] or "", rows, row["engineInfo"] or "")
    return view


def _rows(operation: str | None, metrics: Mapping[str, str]) -> str:
    """The rows that a commit inserted, updated and deleted, or wrote; '' when it does not say so."""
    found = [metrics.get(name, "") for name in _ROWS.get(operation or "", _WRITTEN)]
    return f"{sum(map(int, found)):,}" if all(count.isdecimal() for count in found) else ""


def detail_view(detail: pa.Table, schema: StructType) -> Group:
    """A table's details and schema."""
    row = detail.to_pylist()[0]
    pairs = [
        ("location", row["location"]),
        ("files", row["numFiles"]),
        ("size", size_text(row["sizeInBytes"])),
        ("partitioned by", ", ".join(row["partitionColumns"]) or "-"),
        ("protocol", f"reader {row['minReaderVersion']}, writer {row['minWriterVersion']}"),
        ("features", ", ".join(row["tableFeatures"]) or "-"),
        *((name, value) for name, value in row["properties"]),
    ]
    columns = Table(title="Schema", title_justify="left", title_style="bold", header_style="cyan")
    for name in ("column", "type", "null"):
        columns.add_column(name)
    for field in schema:
        columns.add_row(field.name, str(field.type), "" if field.nullable else "NOT NULL")
    return Group(pairs_view("Table", pairs), columns)


def size_text(size: int) -> str:
    """A number of bytes for people."""
    amount = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:,.0f} {unit}" if unit == "B" else f"{amount:,.1f} {unit}"
        amount /= 1000
    return f"{amount:,.1f} TB"
