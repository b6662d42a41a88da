"""OPTIMIZE name|'path' [FULL] [WHERE predicate] [ZORDER BY (column, ..)], REORG TABLE name [WHERE predicate] APPLY (PURGE).

Source: delta-spark's DeltaSqlBase.g4.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltamerge.commands.layout.optimize import Optimize, Reorg, optimize_table
from deltamerge.errors import AnalysisError
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.sql.reader import Reader
from deltamerge.statements.target import TableOrPath, table_or_path


@dataclass(frozen=True, slots=True)
class OptimizeStatement:
    """An OPTIMIZE or a REORG of the table of a name."""

    table: TableOrPath
    request: Optimize

    def run(self, spark: Session) -> Frame:
        """Optimize and return delta-spark's row: the table's place, and metrics."""
        log, _ = self.table.opened(spark, "OPTIMIZE" if self.request.reorg is None else "REORG")
        return optimize_table(spark, log, self.request)


def parse_optimize(reader: Reader) -> OptimizeStatement:
    """Read what follows OPTIMIZE. Raises ParseError."""
    table = table_or_path(reader)
    full = reader.take("FULL")
    predicates = (reader.expression("ZORDER"),) if reader.take("WHERE") else ()
    z_order: tuple[str, ...] = ()
    if reader.take("ZORDER"):
        reader.expect("BY")
        z_order = tuple(reader.listed(reader.name_text)) if reader.sees("(") else _names(reader)
    reader.end()
    return OptimizeStatement(table, Optimize(predicates, z_order, full))


def parse_reorg(reader: Reader) -> OptimizeStatement:
    """Read what follows REORG TABLE. Raises ParseError, AnalysisError for what is not supported."""
    table = table_or_path(reader)
    predicates = (reader.expression("APPLY"),) if reader.take("WHERE") else ()
    reader.expect("APPLY")
    reader.expect("(")
    if reader.sees("UPGRADE"):
        raise AnalysisError(
            "DELTAMERGE_UNSUPPORTED_CLAUSE",
            "REORG TABLE .. APPLY (UPGRADE UNIFORM (..)) is not supported.",
            parameters={"clause": "UPGRADE UNIFORM"},
            hint="This library writes no Iceberg metadata. APPLY (PURGE) rewrites files of which rows are deleted.",
        )
    reader.expect("PURGE")
    reader.expect(")")
    reader.end()
    return OptimizeStatement(table, Optimize(predicates, reorg=Reorg.PURGE))


def _names(reader: Reader) -> tuple[str, ...]:
    found = [reader.name_text()]
    while reader.take(","):
        found.append(reader.name_text())
    return tuple(found)
