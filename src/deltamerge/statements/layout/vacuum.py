"""VACUUM name|'path' [FULL|LITE] [USING INVENTORY name|(query)] [RETAIN n HOURS] [DRY RUN], words in any order.

Source: delta-spark's DeltaSqlBase.g4.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pyarrow as pa

from deltamerge.commands.layout.vacuum import VacuumRequest, vacuum_table
from deltamerge.spark.read.views import TableViews
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.rows import rows_frame
from deltamerge.spark.sql.reader import Reader
from deltamerge.statements.target import TableOrPath, table_or_path
from deltamerge.storage.location import location_text


@dataclass(frozen=True, slots=True)
class Vacuum:
    """A VACUUM, and the query of the inventory that it goes by."""

    table: TableOrPath
    request: VacuumRequest = field(default_factory=VacuumRequest)
    inventory: str | None = None

    def run(self, spark: Session) -> Frame:
        """Delete and return the table's place; in a dry run the places of what would be deleted."""
        log, _ = self.table.opened(spark, "VACUUM")
        request = self.request
        with TableViews(spark) as views:
            if self.inventory is not None:
                request = replace(request, inventory=views.query(self.inventory))
            done = vacuum_table(spark, log, request)
        root = location_text(log.store.url)
        paths = [f"{root}/{name}" for name in done.names] if request.dry_run else [root]
        return rows_frame(spark, pa.table({"path": pa.array(paths, pa.string())}))


def parse_vacuum(reader: Reader) -> Vacuum:
    """Read what follows VACUUM. Raises ParseError."""
    found = Vacuum(table_or_path(reader))
    seen: set[str] = set()
    while not reader.done and not reader.sees(";"):
        found = _with_modifier(reader, found, seen)
    reader.end()
    return found


def _with_modifier(reader: Reader, found: Vacuum, seen: set[str]) -> Vacuum:
    words = ("FULL", "LITE", "USING", "RETAIN", "DRY")
    word = next((word for word in words if reader.sees(word)), None)
    if word is None:
        raise reader.error("PARSE_SYNTAX_ERROR", f"Syntax error: {', '.join(words[:-1])} or {words[-1]} expected")
    kind = "LITE/FULL" if word in ("FULL", "LITE") else word
    if kind in seen:
        raise reader.error("DUPLICATE_CLAUSES", f"Found duplicate clauses: {kind}")
    seen.add(kind)
    reader.expect(word)
    if word == "USING":
        reader.expect("INVENTORY")
        query = reader.enclosed() if reader.sees("(") else f"TABLE {reader.name_text()}"
        return replace(found, inventory=query)
    request = found.request
    if word == "RETAIN":
        request = replace(request, retention_hours=reader.fraction())
        reader.expect("HOURS")
    elif word == "DRY":
        reader.expect("RUN")
        request = replace(request, dry_run=True)
    else:
        request = replace(request, lite=word == "LITE")
    return replace(found, request=request)
