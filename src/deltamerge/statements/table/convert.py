"""CONVERT TO DELTA name [NO STATISTICS] [PARTITIONED BY (column type, ..)].

Source: delta-spark's DeltaSqlBase.g4.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltamerge.commands.table.convert import Convert, convert_table
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.rows import no_rows
from deltamerge.spark.sql.reader import Reader
from deltamerge.statements.clauses import ColumnText, any_name, column, columns_of


@dataclass(frozen=True, slots=True)
class ConvertStatement:
    """A conversion as a statement says it; `partitions` is None where it says nothing of them."""

    name: tuple[str, ...]
    collects_stats: bool = True
    partitions: tuple[ColumnText, ...] | None = None

    def run(self, spark: Session) -> Frame:
        """Convert and return no rows."""
        partitions = None if self.partitions is None else columns_of(list(self.partitions))
        convert_table(spark, Convert(self.name, partitions, self.collects_stats))
        return no_rows(spark)


def parse_convert(reader: Reader) -> ConvertStatement:
    """Read what follows CONVERT TO DELTA. Raises ParseError."""
    name, collects = any_name(reader), True
    if reader.take("NO"):
        reader.expect("STATISTICS")
        collects = False
    partitions = None
    if reader.take("PARTITIONED"):
        reader.expect("BY")
        partitions = tuple(reader.listed(lambda: column(reader)))
    reader.end()
    return ConvertStatement(name, collects, partitions)
