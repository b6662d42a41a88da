"""`EXPLAIN [mode] DELETE|UPDATE|INSERT ..`: what a statement would do, in one row; nothing is run.

DELETE and UPDATE are explained as MERGE is, whatever the mode; an INSERT is Spark's plan of its query, in that mode.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from deltamerge.spark.read.catalog import NamedTable, delta_named
from deltamerge.spark.read.views import TableViews
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.rows import one_row
from deltamerge.spark.session.storage import open_table
from deltamerge.spark.sql.reader import Reader
from deltamerge.spark.sql.tables import query_with_ctes
from deltamerge.statements.rows.delete import Delete, parse_delete
from deltamerge.statements.rows.insert import Insert, parse_insert
from deltamerge.statements.rows.update import Update, parse_update
from deltamerge.statements.statement import Parser

MODES = ("EXTENDED", "FORMATTED", "COST", "CODEGEN")
"""The modes of EXPLAIN; it may have none."""


@dataclass(frozen=True, slots=True)
class ExplainedInsert:
    """An INSERT of which the plan is asked for, in one of Spark's modes."""

    insert: Insert
    mode: str

    def run(self, spark: Session) -> Frame | None:
        """One row, `plan`; None where the table is no Delta table. Raises DeltaMergeError."""
        found = delta_named(spark, self.insert.target)
        if not isinstance(found, NamedTable):
            return None
        if self.insert.refused is not None:
            raise self.insert.refused
        snapshot = open_table(spark, found.location).snapshot()
        word = "OVERWRITE" if self.insert.overwrites else "INTO"
        with TableViews(spark) as views:
            query = query_with_ctes(self.insert.query_for(spark, snapshot.schema), self.insert.ctes)
            plan = views.plan(query, self.mode)
        return one_row(spark, {"plan": f"INSERT {word} {snapshot.store.url}, version {snapshot.version}\n{plan}"})


def _delete(reader: Reader) -> Delete:
    return replace(parse_delete(reader), explains=True)


def _update(reader: Reader) -> Update:
    return replace(parse_update(reader), explains=True)


def _insert_in(mode: str) -> Parser:
    def parse(reader: Reader) -> ExplainedInsert | None:
        insert = parse_insert(reader)
        return None if insert is None else ExplainedInsert(insert, mode)

    return parse


def _parsers() -> Mapping[tuple[str, ...], Parser]:
    found: dict[tuple[str, ...], Parser] = {}
    for mode in ("", *MODES):
        words = ("EXPLAIN", *mode.split())
        found |= {(*words, "DELETE", "FROM"): _delete, (*words, "UPDATE"): _update, (*words, "INSERT"): _insert_in(mode)}
    return found


EXPLAINED = _parsers()
"""By the words that an explained statement begins with."""
