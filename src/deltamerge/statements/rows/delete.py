"""`DELETE FROM table [alias] [WHERE condition]`. Source: Spark's grammar, `deleteFromTable`; delta-spark's DeleteCommand."""

from __future__ import annotations

from dataclasses import dataclass

from deltamerge.commands.rows.dml import delete_rows, explain_delete
from deltamerge.spark.read.view_targets import show_newest
from deltamerge.spark.read.views import TableViews
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.rows import one_row
from deltamerge.spark.sql.reader import Reader
from deltamerge.statements.target import Target, target_of


@dataclass(frozen=True, slots=True)
class Delete:
    """DELETE of the rows for which the text of a condition is true; `ctes` begins with WITH. If it `explains` nothing is run."""

    target: Target
    condition: str | None
    ctes: str = ""
    explains: bool = False

    def run(self, spark: Session) -> Frame | None:
        """One row, num_affected_rows, or the plan; None where the table is no Delta table."""
        found = self.target.opened(spark)
        if found is None:
            return None
        with TableViews(spark) as views:
            condition = None if self.condition is None else views.expression(self.condition, self.ctes)
            if self.explains:
                return one_row(spark, {"plan": explain_delete(spark, found.log, condition, found.qualifier)})
            metrics = delete_rows(spark, found.log, condition, found.qualifier)
        show_newest(spark, found.named, found.log)
        return one_row(spark, {"num_affected_rows": metrics.get("numDeletedRows", 0)})


def parse_delete(reader: Reader, ctes: str = "") -> Delete:
    """What follows DELETE FROM. Raises ParseError."""
    target = target_of(reader, "WHERE")
    condition = reader.expression() if reader.take("WHERE") else None
    reader.end()
    return Delete(target, condition, ctes)
