"""MERGE text run on a session."""

from __future__ import annotations

from deltamerge.commands.rows.merge_rows import merge_rows
from deltamerge.merge.run import explained
from deltamerge.merge.sql import bind
from deltamerge.merge.statement.parse import parse_merge, says_merge
from deltamerge.spark.expressions.identifiers import with_identifiers
from deltamerge.spark.read.view_targets import show_newest
from deltamerge.spark.read.views import TableViews
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.rows import one_row
from deltamerge.spark.sql.literals import Arguments, with_arguments
from deltamerge.spark.sql.variables import with_variables


def run_merge_text(spark: Session, text: str, arguments: Arguments | None = None) -> Frame | None:
    """Run MERGE text and return its result row, EXPLAIN MERGE its plan; None for a text that is neither."""
    merge = with_variables(spark, text)
    if not says_merge(merge) or parse_merge(merge) is None:
        return None
    statement = parse_merge(with_identifiers(spark, with_arguments(merge, arguments)))
    assert statement is not None
    with TableViews(spark) as views:
        bound = bind(spark, statement, views)
        if statement.explain:
            return one_row(spark, {"plan": str(explained(spark, bound.table, bound.spec))})
        report = merge_rows(spark, bound.table, bound.spec)
    show_newest(spark, bound.target, bound.table)
    return report.to_frame(spark)
