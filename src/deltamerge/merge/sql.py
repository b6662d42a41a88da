"""MERGE text run on a session: the same `MergeSpec` that the builder makes, and the tables that the text names.

A table named as delta.`path` is read by this library wherever it stands in the text; other names are the session's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from deltamerge.log.replay.table import DeltaLog
from deltamerge.merge.run import explained, run_merge
from deltamerge.merge.statement.clauses import Assignment, Clause, MergeSpec
from deltamerge.merge.statement.parse import SqlClause, Statement, parse_merge, says_merge
from deltamerge.spark.expressions.expression import Expression, from_clause
from deltamerge.spark.expressions.identifiers import with_identifiers
from deltamerge.spark.expressions.queries import query_frame
from deltamerge.spark.read.catalog import PathViews, location_of, named_frame
from deltamerge.spark.session.attributes import attribute_of
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.rows import one_row
from deltamerge.spark.session.storage import open_table
from deltamerge.spark.sql.literals import Arguments, with_arguments
from deltamerge.spark.sql.tables import with_ctes, with_short_names
from deltamerge.spark.sql.text import name_parts_of
from deltamerge.spark.sql.variables import with_variables


def run_sql(spark: Session, text: str, arguments: Arguments | None = None) -> Frame:
    """Run MERGE text and return its result row, EXPLAIN MERGE its plan; what is neither goes to Spark unchanged."""
    merge = with_variables(spark, text)
    if not says_merge(merge) or parse_merge(merge) is None:
        frame: Frame = spark.sql(text) if arguments is None else spark.sql(text, arguments)  # type: ignore[arg-type]
        return frame
    statement = parse_merge(with_identifiers(spark, with_arguments(merge, arguments)))
    assert statement is not None
    with PathViews(spark) as views:
        bound = bind(spark, statement, views)
        if statement.explain:
            return one_row(spark, {"plan": explained(spark, bound.table, bound.spec)})
        return run_merge(spark, bound.table, bound.spec).to_frame(spark)


@dataclass(frozen=True)
class BoundStatement:
    """A statement's target and what is to be merged into it."""

    table: DeltaLog
    spec: MergeSpec


def bind(spark: Session, statement: Statement, views: PathViews) -> BoundStatement:
    """Open the tables that a statement names; `views` stand for the paths in its queries. Raises AnalysisError."""
    table = open_table(spark, location_of(spark, statement.target))
    source_name = () if statement.source_is_query or statement.ctes else name_parts_of(statement.source)
    short = [statement.target] if statement.target_alias is None else []
    short += [source_name] if statement.source_alias is None and source_name else []

    @cache
    def home() -> tuple[str, str]:
        return spark.catalog.currentCatalog(), spark.catalog.currentDatabase()

    def named(text: str) -> str:
        return attribute_of(name_parts_of(with_short_names(text, short, home)))

    def ready(text: str) -> Expression:
        return from_clause(views.named(with_ctes(with_short_names(text, short, home), statement.ctes)))

    spec = MergeSpec(
        _source(spark, statement, source_name, views),
        ready(statement.condition),
        tuple(_clause(clause, named, ready) for clause in statement.clauses),
        statement.target_alias or statement.target[-1],
        statement.source_alias or (source_name[-1] if source_name else None),
        statement.with_schema_evolution or None,
    )
    return BoundStatement(table, spec)


def _source(spark: Session, statement: Statement, name: tuple[str, ...], views: PathViews) -> Frame:
    if name:
        return named_frame(spark, name)
    query = statement.source if statement.source_is_query else f"TABLE {statement.source}"
    frame = query_frame(spark, views.named(with_ctes(f"({query})", statement.ctes)))
    return frame if statement.source_is_query else frame.alias(statement.source.strip("`"))


def _clause(clause: SqlClause, named: Callable[[str], str], ready: Callable[[str], Expression]) -> Clause:
    return Clause(
        clause.kind,
        clause.action,
        None if clause.condition is None else ready(clause.condition),
        tuple(Assignment(named(column), None if value is None else ready(value)) for column, value in clause.assignments),
        clause.star,
        tuple(map(named, clause.excluded)),
    )
