"""Evaluating a merge's expressions on rows that are already at hand in Arrow: matched pairs, and rows of one side alone.

The rows become local relations in which every name means what it means in MERGE; Spark evaluates, nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import AnalysisException
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from deltamerge.protocol.schema.char_varchar import SIZED_TEXT
from deltamerge.protocol.schema.types import StructType
from deltamerge.spark.expressions.casts import assigned, same_type
from deltamerge.spark.expressions.expression import Expression
from deltamerge.spark.plans.attributes import quoted
from deltamerge.spark.pyspark.quiet import quietly
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.jobs import attempt, local_frame
from deltamerge.spark.session.rows import with_aliased
from deltamerge.spark.session.schema import to_spark
from deltamerge.spark.stages.changes import ClauseQuery, clause_number
from deltamerge.worker.scan.outcomes import NotThisWay

INDEX, HOLDS, NUMBER = "__deltamerge_index", "__deltamerge_holds", "__deltamerge_number"
_QUESTION, _PLACE = "__deltamerge_question", "__deltamerge_place"
Rows = tuple[str, StructType, pa.Table]


def value_name(clause: int, column: str) -> str:
    """The name under which a clause's value for a column comes back."""
    return f"__deltamerge_{clause}_{column}"


@dataclass(frozen=True)
class Question:
    """What Spark is asked of some `rows`: INDEX, HOLDS, NUMBER of the applying clause, and its values. Nothing has run yet."""

    frame: Frame = field(repr=False)
    rows: int


def about_pairs(
    spark: Session,
    source: Rows,
    target: Rows,
    count: int,
    condition: Expression | None,
    clauses: Sequence[ClauseQuery],
    schema: T.StructType,
) -> Question | None:
    """What `condition` and clauses make of each of `count` pairs of rows; without a condition all of them hold.

    `source` and `target` are each an alias, a schema, and the rows of the pairs. None when Spark can't resolve the names.
    """
    frame = _side_by_side(spark, count, source, target)
    try:
        with quietly():
            return Question(_asked(frame, condition, clauses, schema), count)
    except AnalysisException:
        return None


def about_rows(spark: Session, side: Rows, count: int, clauses: Sequence[ClauseQuery], schema: T.StructType) -> Question:
    """What clauses make of each of `count` rows without a match; `side` is their alias, schema, and rows."""
    alias, columns, rows = side
    fields = [T.StructField(INDEX, T.LongType()), *to_spark(columns).fields]
    table = pa.table([_index(count), *rows.columns], names=[INDEX, *columns.names])
    return Question(_asked(local_frame(spark, table, T.StructType(fields)).alias(alias), None, clauses, schema), count)


def answers(questions: Sequence[Question]) -> list[pa.Table] | NotThisWay:
    """What Spark says of the rows of each question, in their order; TooLarge if that is more than the driver may take.

    All is one query, as the merge is one statement: `current_timestamp()` is the same for every clause.
    """
    if not questions:
        return []
    frames = [question.frame.withColumn(_QUESTION, F.lit(number)) for number, question in enumerate(questions)]
    frame = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)
    table = attempt(frame, "deltamerge: evaluate the clauses")
    if not isinstance(table, pa.Table):
        return table
    found = [table.filter(pc.equal(table[_QUESTION], number)).sort_by(INDEX) for number in range(len(questions))]
    if any(answer.num_rows != question.rows for answer, question in zip(found, questions, strict=True)):
        raise AssertionError("a local relation came back with another number of rows")
    return found


def _index(count: int) -> pa.Array:
    return pa.array(np.arange(count, dtype=np.int64))


def _side_by_side(spark: Session, count: int, *sides: Rows) -> Frame:
    """The pairs as rows of local data that has the columns of both sides, each qualified by its side's alias, as in a join.

    They are columns, not fields of structs: Spark pads CHAR values for a comparison only where a column stands in it. The side
    with more columns is the local data itself; the other is a lateral query of one row, to Spark's optimizer a projection, no
    join. Each of its columns takes PySpark some forty calls.
    """
    own, other = sorted(sides, key=lambda side: len(side[1]), reverse=True)
    columns = {INDEX: _index(count), **dict(zip(own[1].names, own[2].columns, strict=True))}
    fields = [T.StructField(INDEX, T.LongType()), *(_sized(field, field.name) for field in to_spark(own[1]).fields)]
    chosen = []
    for place, (its, values) in enumerate(zip(to_spark(other[1]).fields, other[2].columns, strict=True)):
        name = f"{_PLACE}_{place}"
        columns[name] = values
        fields.append(_sized(its, name))
        chosen.append((name, _sized(its, its.name)))
    frame = local_frame(spark, pa.table(columns), T.StructType(fields))
    return with_aliased(frame, own[0], other[0], chosen) if chosen else frame.alias(own[0])


def _sized(field: T.StructField, name: str) -> T.StructField:
    """A field of local data, which may say that its texts have a length."""
    sized = field.metadata.get(SIZED_TEXT)
    return T.StructField(name, field.dataType, True, None if sized is None else {SIZED_TEXT: sized})


def _asked(frame: Frame, condition: Expression | None, clauses: Sequence[ClauseQuery], schema: T.StructType) -> Frame:
    holds = F.lit(True) if condition is None else F.coalesce(condition.column, F.lit(False))
    frame = frame.select("*", holds.alias(HOLDS))
    frame = frame.select("*", clause_number(F.col(HOLDS), clauses).alias(NUMBER))
    types = {field.name: field.dataType for field in schema.fields}
    first: list[Column] = []
    second: list[Column] = [F.col(INDEX), F.col(HOLDS), F.col(NUMBER)]
    for clause in clauses:
        for name, (value, type) in clause.values.items():
            alias = value_name(clause.number, name)
            first.append(F.when(F.col(NUMBER) == clause.number, value.column).alias(alias))
            same = same_type(type, types[name])
            raw = F.col(quoted(alias))
            second.append((raw if same else assigned(raw, type, types[name], name)).alias(alias))
    return frame.select("*", *first).select(*second)
