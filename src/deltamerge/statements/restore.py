"""RESTORE [TABLE] name [TO] [FOR] VERSION AS OF n | TIMESTAMP AS OF time.

Source: delta-spark's DeltaSqlBase.g4. The time may be any expression that has one value.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltamerge.commands.layout.restore import restore_table, restored_frame
from deltamerge.spark.read.travel import time_of
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.sql.reader import Reader
from deltamerge.statements.named import table_name, table_of


@dataclass(frozen=True, slots=True)
class Restore:
    """A RESTORE: to a version, or to the newest one at the time that an SQL expression says."""

    name: tuple[str, ...]
    version: int | None = None
    timestamp: str | None = None

    def run(self, spark: Session) -> Frame:
        """Restore and return delta-spark's row of metrics."""
        table = table_of(spark, self.name, "RESTORE")
        time = None if self.timestamp is None else time_of(spark, self.timestamp, "DELTA_TIMESTAMP_INVALID")
        return restored_frame(spark, restore_table(spark, table, self.version, time))


def parse_restore(reader: Reader) -> Restore:
    """Read what follows RESTORE. Raises ParseError."""
    reader.take("TABLE")
    name = table_name(reader)
    reader.take("TO")
    reader.take("FOR")
    by_version = reader.take("VERSION") or reader.take("SYSTEM_VERSION")
    if not by_version and not reader.take("SYSTEM_TIME"):
        reader.expect("TIMESTAMP")
    reader.expect("AS")
    reader.expect("OF")
    found = Restore(name, version=reader.number()) if by_version else Restore(name, timestamp=reader.expression())
    reader.end()
    return found
