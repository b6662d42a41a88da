"""`UPDATE table [alias] SET column = value, .. [WHERE condition]`.

Source: Spark's grammar, `updateTable`; delta-spark's UpdateCommand.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltamerge.commands.rows.dml import explain_update, update_rows
from deltamerge.merge.sql import assignments_of
from deltamerge.merge.statement.parse import set_list
from deltamerge.spark.expressions.expression import Expression
from deltamerge.spark.read.view_targets import show_newest
from deltamerge.spark.read.views import TableViews
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.rows import one_row
from deltamerge.spark.sql.reader import Reader
from deltamerge.statements.target import Target, target_of


@dataclass(frozen=True, slots=True)
class Update:
    """UPDATE by columns and the texts of their values, None for DEFAULT; as `Delete`."""

    target: Target
    assignments: tuple[tuple[str, str | None], ...]
    condition: str | None
    ctes: str = ""
    explains: bool = False

    def run(self, spark: Session) -> Frame | None:
        """One row, num_affected_rows, or the plan; None where the table is no Delta table."""
        found = self.target.opened(spark)
        if found is None:
            return None
        with TableViews(spark) as views:

            def ready(text: str) -> Expression:
                return views.expression(text, self.ctes)

            condition = None if self.condition is None else ready(self.condition)
            assignments = assignments_of(self.assignments, ready)
            if self.explains:
                return one_row(spark, {"plan": explain_update(spark, found.log, assignments, condition, found.qualifier)})
            read = views.read_of(found.log.store)
            metrics = update_rows(spark, found.log, assignments, condition, found.qualifier, read)
        show_newest(spark, found.named, found.log)
        return one_row(spark, {"num_affected_rows": metrics.get("numUpdatedRows", 0)})


def parse_update(reader: Reader, ctes: str = "") -> Update:
    """What follows UPDATE. Raises ParseError."""
    target = target_of(reader, "SET")
    if (target.alias or "").upper() == "WHERE" and not reader.sees("SET"):  # a name to Spark
        raise reader.error("PARSE_SYNTAX_ERROR", "Syntax error: SET expected before WHERE", "Write UPDATE .. SET .. WHERE ..")
    reader.expect("SET")
    assignments = set_list(reader, "WHERE")
    condition = reader.expression() if reader.take("WHERE") else None
    reader.end()
    return Update(target, assignments, condition, ctes)
