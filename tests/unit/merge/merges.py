"""Merges by hand: expressions, scopes, snapshots and resolved merges without a Spark session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from deltamerge.log.replay.files import FILE_SCHEMA, FileSet, table_of
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.merge.resolve.resolve import ColumnValue, ResolvedClause, ResolvedMerge
from deltamerge.merge.resolve.scope import Scope
from deltamerge.merge.statement.clauses import Action, ClauseKind, MergeSpec
from deltamerge.protocol.schema.types import DataType, PrimitiveType, StructField, StructType, schema_json
from deltamerge.protocol.table.actions import Metadata, Protocol
from deltamerge.spark.expressions.expression import Expression
from deltamerge.spark.sql.text import parse, qualifiers_of, words_of
from deltamerge.storage import open_store

COLUMN: Any = object()
FRAME: Any = object()


def struct(**types: str | DataType) -> StructType:
    """A schema of nullable fields by their types' Delta names."""
    fields = [(name, PrimitiveType(type) if isinstance(type, str) else type) for name, type in types.items()]
    return StructType(tuple(StructField(name, type) for name, type in fields))


def expression(text: str) -> Expression:
    """What is seen of an SQL text; Spark could not evaluate it."""
    tree = parse(text)
    opaque = tree is None or tree.find(exp.Star) is not None
    return Expression(lambda: COLUMN, text, tree, None if opaque else words_of(text), qualifiers_of(text))


def tree(text: str) -> exp.Expression:
    """The tree of an SQL text that parses."""
    found = parse(text)
    assert found is not None
    return found


def scope_of(target: StructType, source: StructType | None = None, case_sensitive: bool = False) -> Scope:
    """What an expression can see of target `t` and source `s`."""
    return Scope(target, source or StructType(()), "t", "s", case_sensitive)


def snapshot_of(schema: StructType, files: Sequence[Mapping[str, Any]] = (), partition_columns: Sequence[str] = ()) -> Snapshot:
    """A table with the given `add` actions, as JSON values."""
    return Snapshot(
        store=open_store("/nowhere"),
        version=3,
        timestamp=0,
        protocol=Protocol(1, 2),
        metadata=Metadata("id", schema_json(schema), tuple(partition_columns)),
        files=FileSet.of(table_of(files, FILE_SCHEMA)),
    )


def update(condition: str | None = None, kind: ClauseKind = ClauseKind.MATCHED, **values: str) -> ResolvedClause:
    """WHEN MATCHED, or by source, THEN UPDATE with values by column."""
    return _clause(kind, Action.UPDATE, condition, values)


def delete(condition: str | None = None, kind: ClauseKind = ClauseKind.MATCHED) -> ResolvedClause:
    """WHEN MATCHED, or by source, THEN DELETE."""
    return _clause(kind, Action.DELETE, condition, {})


def insert(condition: str | None = None, **values: str) -> ResolvedClause:
    """WHEN NOT MATCHED THEN INSERT with values by column."""
    return _clause(ClauseKind.NOT_MATCHED, Action.INSERT, condition, values)


def _clause(kind: ClauseKind, action: Action, condition: str | None, values: Mapping[str, str]) -> ResolvedClause:
    given = tuple(ColumnValue(name, expression(value), COLUMN) for name, value in values.items())
    return ResolvedClause(0, kind, action, expression(condition) if condition else None, given)


def merge_of(snapshot: Snapshot, source: StructType, condition: str, *clauses: ResolvedClause) -> ResolvedMerge:
    """A resolved merge of target `t` and source `s`."""
    spec = MergeSpec(FRAME, expression(condition), (), "t", "s")
    numbered = tuple(replace(clause, number=number) for number, clause in enumerate(clauses))
    return ResolvedMerge(spec, snapshot, scope_of(snapshot.schema, source), snapshot.schema, numbered)
