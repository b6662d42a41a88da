"""RESTORE [TABLE] name [TO] [FOR] VERSION AS OF n | TIMESTAMP AS OF time.

Source: delta-spark's DeltaSqlBase.g4. The time may be any expression that has one value.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltamerge.commands.layout.restore import restore_table, restored_frame
from deltamerge.spark.read.travel import time_of
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.sql.reader import Reader
from deltamerge.statements.target import TableOrPath, table_or_path


@dataclass(frozen=True, slots=True)
class Restore:
    """A RESTORE: to a version, or to the newest one at the time that an SQL expression says."""

    table: TableOrPath
    version: int | None = None
    timestamp: str | None = None

    def run(self, spark: Session) -> Frame:
        """Restore and return delta-spark's row of metrics."""
        log, _ = self.table.opened(spark, "RESTORE")
        time = None if self.timestamp is None else time_of(spark, self.timestamp, "DELTA_TIMESTAMP_INVALID")
        return restored_frame(spark, restore_table(spark, log, self.version, time))


def parse_restore(reader: Reader) -> Restore:
    """Read what follows RESTORE. Raises ParseError."""
    reader.take("TABLE")
    table = table_or_path(reader)
    reader.take("TO")
    reader.take("FOR")
    by_version = reader.take("VERSION") or reader.take("SYSTEM_VERSION")
    if not by_version and not reader.take("SYSTEM_TIME"):
        reader.expect("TIMESTAMP")
    reader.expect("AS")
    reader.expect("OF")
    found = Restore(table, version=reader.number()) if by_version else Restore(table, timestamp=reader.expression())
    reader.end()
    return found
