"""VACUUM name|'path' [FULL] [RETAIN n HOURS] [DRY RUN], the words behind the name in any order.

Source: delta-spark's DeltaSqlBase.g4. LITE and USING INVENTORY are refused by name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from deltamerge.commands.layout.vacuum import vacuum_table
from deltamerge.errors import AnalysisError
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.rows import rows_frame
from deltamerge.spark.sql.reader import Reader
from deltamerge.statements.target import TableOrPath, table_or_path
from deltamerge.storage.location import location_text


@dataclass(frozen=True, slots=True)
class Vacuum:
    """A VACUUM, of all that is older than a time in hours, or than the table's own."""

    table: TableOrPath
    retention_hours: float | None = None
    dry_run: bool = False

    def run(self, spark: Session) -> Frame:
        """Delete and return the table's place; in a dry run the places of what would be deleted."""
        log, _ = self.table.opened(spark, "VACUUM")
        done = vacuum_table(spark, log, self.retention_hours, self.dry_run)
        root = location_text(log.store.url)
        paths = [f"{root}/{name}" for name in done.names] if self.dry_run else [root]
        return rows_frame(spark, pa.table({"path": pa.array(paths, pa.string())}))


def parse_vacuum(reader: Reader) -> Vacuum:
    """Read what follows VACUUM. Raises ParseError, AnalysisError for what is not supported."""
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
    if word in ("LITE", "USING"):
        clause = "LITE" if word == "LITE" else "USING INVENTORY"
        raise AnalysisError(
            "DELTAMERGE_UNSUPPORTED_CLAUSE",
            f"VACUUM {clause} is not supported.",
            parameters={"clause": clause},
            hint="Leave it out: VACUUM lists the folder, and deletes all that LITE would delete.",
        )
    if word == "RETAIN":
        hours = reader.fraction()
        reader.expect("HOURS")
        return replace(found, retention_hours=hours)
    if word == "DRY":
        reader.expect("RUN")
        return replace(found, dry_run=True)
    return found
