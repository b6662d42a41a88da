"""MERGE text bound to a session: the same `MergeSpec` that the builder makes, and the tables that the text names.

A table named as delta.`path` is read by this library wherever it stands in the text; other names are the session's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from deltamerge.log.replay.table import DeltaLog
from deltamerge.merge.statement.clauses import Assignment, Clause, MergeSpec
from deltamerge.merge.statement.parse import SqlClause, Statement
from deltamerge.spark.expressions.expression import Expression
from deltamerge.spark.plans.attributes import attribute_of
from deltamerge.spark.read.catalog import NamedTable, named_frame
from deltamerge.spark.read.view_targets import changed_table
from deltamerge.spark.read.views import TableViews
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.storage import open_table
from deltamerge.spark.sql.tables import with_ctes
from deltamerge.spark.sql.text import name_parts_of


@dataclass(frozen=True)
class BoundStatement:
    """A statement's target, as it was named and opened, and what is to be merged into it."""

    target: NamedTable
    table: DeltaLog
    spec: MergeSpec


def bind(spark: Session, statement: Statement, views: TableViews) -> BoundStatement:
    """Open the tables that a statement names; `views` stand for the tables in its queries. Raises AnalysisError."""
    target = changed_table(spark, statement.target, "MERGE")

    def ready(text: str) -> Expression:
        return views.expression(text, statement.ctes)

    source, source_name = _source(spark, statement, views)
    table = open_table(spark, target.location)
    spec = MergeSpec(
        source,
        ready(statement.condition),
        tuple(_clause(clause, ready) for clause in statement.clauses),
        target.name if statement.target_alias is None else (statement.target_alias,),
        source_name if statement.source_alias is None else (statement.source_alias,),
        statement.with_schema_evolution or None,
    )
    return BoundStatement(target, table, replace(spec, source_read=views.read_of(table.store)))


def _source(spark: Session, statement: Statement, views: TableViews) -> tuple[Frame, tuple[str, ...]]:
    """The rows to merge, and the name that qualifies their columns where Spark does not know it."""
    name = () if statement.source_is_query or statement.ctes else name_parts_of(statement.source)
    if name:
        return named_frame(spark, name)
    query = statement.source if statement.source_is_query else f"TABLE {statement.source}"
    frame = views.query(with_ctes(f"({query})", statement.ctes))
    return frame, () if statement.source_is_query else name_parts_of(statement.source)


def _clause(clause: SqlClause, ready: Callable[[str], Expression]) -> Clause:
    return Clause(
        clause.kind,
        clause.action,
        None if clause.condition is None else ready(clause.condition),
        assignments_of(clause.assignments, ready),
        clause.star,
        tuple(map(_name, clause.excluded)),
    )


def assignments_of(pairs: Iterable[tuple[str, str | None]], ready: Callable[[str], Expression]) -> tuple[Assignment, ...]:
    """Assignments in text as `ready` makes expressions of their values; one without a value is to the column's DEFAULT."""
    return tuple(Assignment(_name(column), None if value is None else ready(value)) for column, value in pairs)


def _name(text: str) -> str:
    return attribute_of(name_parts_of(text))
