"""The one query of a merge: source joined with target, the clause that applies to each row, and its new values.

Spark resolves every expression in the scope that MERGE gives it: MATCHED clauses see both sides, NOT MATCHED the source
only, NOT MATCHED BY SOURCE the target only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from deltamerge.protocol.schema.types import StructType
from deltamerge.protocol.table.constraints import TableConstraints
from deltamerge.spark.expressions.casts import assigned, same_type
from deltamerge.spark.expressions.constraints import with_constraints
from deltamerge.spark.expressions.expression import Expression
from deltamerge.spark.expressions.time import Clock
from deltamerge.spark.plans.attributes import quoted
from deltamerge.spark.session.frames import Frame, SparkType
from deltamerge.worker.scan.scan import FILE, ROW
from deltamerge.worker.write.rewrite import CLAUSE

PRESENT = "__deltamerge_present"
_STRUCT = "__deltamerge_folded"


@dataclass(frozen=True)
class ClauseQuery:
    """A clause as the query needs it: its number, its condition, and per target column the value and the value's type."""

    number: int
    condition: Expression | None
    values: Mapping[str, tuple[Expression, SparkType]]


@dataclass(frozen=True)
class ChangeQuery:
    """A merge as one query. `schema` is Spark's schema of the columns that any clause writes.

    `source` and `target` are frames with their aliases set; the target has the position columns.
    """

    source: Frame
    target: Frame
    source_alias: str
    target_alias: str
    condition: Expression
    join: str
    matched: Sequence[ClauseQuery]
    not_matched: Sequence[ClauseQuery]
    by_source: Sequence[ClauseQuery]
    schema: T.StructType


def change_rows(query: ChangeQuery) -> Frame:
    """The rows that change: file, position, clause number and new values; rows to which no clause applies are gone."""
    joined = _joined(query)
    if query.matched:
        both = F.col(FILE).isNotNull()
        if query.by_source:
            both = both & F.col(PRESENT).isNotNull()
        joined = _evaluated(joined, "matched", both, query.matched, query.schema)
    if query.by_source:
        joined = joined.select(
            *_of(query.target, query.target_alias), *_internals(joined), _folded(query.source, query.source_alias)
        )
        alone = F.col(PRESENT).isNull()
        joined = _evaluated(joined, "by_source", alone, query.by_source, query.schema)
        joined = joined.select(*_internals(joined), F.col(f"{_STRUCT}.*")).alias(query.source_alias)
    else:
        joined = joined.select(*_of(query.source, query.source_alias), *_internals(joined))
    if query.not_matched:
        joined = _evaluated(joined, "not_matched", F.col(FILE).isNull(), query.not_matched, query.schema)
    return _merged(joined, query)


def fitting(
    rows: Frame,
    schema: StructType,
    constraints: TableConstraints,
    computed: Mapping[str, Sequence[int]],
    written: Sequence[int],
    clock: Clock | None = None,
) -> Frame:
    """Changed rows as the table requires them: `computed` has the clauses for which a generated column is computed."""
    clause = F.col(CLAUSE)
    chosen = {name: clause.isin(*numbers) for name, numbers in computed.items()}
    return with_constraints(rows, schema, constraints, chosen, clause.isin(*written), clock)


def inserted_by(clauses: Sequence[int]) -> Column:
    """Whether a changed row is one that some of the clauses insert."""
    return F.col(FILE).isNull() & F.col(CLAUSE).isin(*clauses)


def applying_pairs(query: ChangeQuery) -> Frame:
    """Each pair of a target row and a source row that changes it, with the columns of both sides in sight."""
    pairs = query.source.join(query.target, query.condition.column, "inner")
    return pairs.where(clause_number(F.lit(True), query.matched).isNotNull())


def _joined(query: ChangeQuery) -> Frame:
    source, target = query.source, query.target
    if query.join == "left_anti":
        missing = [F.lit(None).cast("int").alias(FILE), F.lit(None).cast("long").alias(ROW)]
        return source.join(target, query.condition.column, "left_anti").select("*", *missing)
    if query.by_source:
        source = source.select("*", F.lit(True).alias(PRESENT))
    return source.join(target, query.condition.column, query.join)


def _of(frame: Frame, alias: str) -> list[Column]:
    """The user's columns of one side, with the side's qualifier kept."""
    names = [name for name in frame.columns if name not in (FILE, ROW, PRESENT)]
    return [F.col(f"{quoted(alias)}.{quoted(name)}") for name in names]


def _internals(frame: Frame) -> list[Column]:
    return [F.col(quoted(name)) for name in frame.columns if name.startswith("__deltamerge_")]


def _folded(source: Frame, alias: str) -> Column:
    """All source columns in one struct, so that their names are out of sight."""
    return F.struct(*_of(source, alias), F.lit(1).alias(f"{_STRUCT}_one")).alias(_STRUCT)


def _evaluated(frame: Frame, side: str, applies: Column, clauses: Sequence[ClauseQuery], schema: T.StructType) -> Frame:
    """The frame with the number of this side's applying clause and its values, each evaluated only where it applies."""
    number = f"__deltamerge_{side}"
    frame = frame.select("*", clause_number(applies, clauses).alias(number))
    chosen = F.col(number)
    raw: list[Column] = []
    final: list[Column] = []
    for position, field in enumerate(schema.fields):
        branches: list[tuple[int, Column]] = []
        for clause in clauses:
            if field.name not in clause.values:
                continue
            value, type = clause.values[field.name]
            if same_type(type, field.dataType):
                branches.append((clause.number, value.column))
                continue
            name = f"{number}_{clause.number}_{position}"
            raw.append(F.when(chosen == clause.number, value.column).alias(name))
            branches.append((clause.number, assigned(F.col(name), type, field.dataType, field.name)))
        final.append(_branched(chosen, branches, field.dataType).alias(f"{number}_value_{position}"))
    if raw:
        frame = frame.select("*", *raw)
    return frame.select("*", *final)


def clause_number(applies: Column, clauses: Sequence[ClauseQuery]) -> Column:
    """The number of the first clause whose condition is true, null where none is or where `applies` is not true."""
    number = F.lit(None).cast("int")
    for clause in reversed(clauses):
        found = F.lit(clause.number)
        number = found if clause.condition is None else F.when(clause.condition.column, found).otherwise(number)
    return F.when(applies, number)


def _branched(chosen: Column, branches: Sequence[tuple[int, Column]], type: T.DataType) -> Column:
    result = F.lit(None).cast(type)
    for number, value in branches:
        result = F.when(chosen == number, value).otherwise(result)
    return result


def _merged(frame: Frame, query: ChangeQuery) -> Frame:
    """One clause number and one value per column, whichever side they came from."""
    sides = [s for s, clauses in _sides(query) if clauses]
    numbers = [F.col(f"__deltamerge_{side}") for side in sides]
    columns = []
    for position, field in enumerate(query.schema.fields):
        values = [F.col(f"__deltamerge_{side}_value_{position}") for side in sides]
        result = values[-1]
        for number, value in reversed(list(zip(numbers[:-1], values[:-1], strict=True))):
            result = F.when(number.isNotNull(), value).otherwise(result)
        columns.append(result.alias(field.name))
    clause = F.coalesce(*numbers).alias(CLAUSE)
    return frame.select(F.col(FILE), F.col(ROW), clause, *columns).where(F.col(CLAUSE).isNotNull())


def _sides(query: ChangeQuery) -> list[tuple[str, Sequence[ClauseQuery]]]:
    return [("matched", query.matched), ("not_matched", query.not_matched), ("by_source", query.by_source)]
