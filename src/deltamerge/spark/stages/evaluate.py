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

from deltamerge.protocol.schema.types import StructType
from deltamerge.spark.expressions.casts import assigned, same_type
from deltamerge.spark.expressions.expression import Expression
from deltamerge.spark.session.attributes import quoted
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.jobs import attempt, local_frame
from deltamerge.spark.session.schema import to_spark
from deltamerge.spark.stages.changes import ClauseQuery, clause_number
from deltamerge.worker.scan.outcomes import NotThisWay

INDEX, HOLDS, NUMBER = "__deltamerge_index", "__deltamerge_holds", "__deltamerge_number"
_QUESTION = "__deltamerge_question"
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

    `source` and `target` are each an alias, a schema, and the rows of the pairs. None when the names can't be told apart.
    """
    aliases = {source[0].lower(), target[0].lower()}
    if len(aliases) < 2 or any(name.lower() in aliases for _, schema, _ in (source, target) for name in schema.names):
        return None
    columns, fields = _structs(count, source, target)
    frame = local_frame(spark, pa.table(columns), T.StructType(fields))
    try:
        return Question(_asked(frame, condition, clauses, schema), count)
    except AnalysisException:
        return None


def about_rows(spark: Session, side: Rows, count: int, clauses: Sequence[ClauseQuery], schema: T.StructType) -> Question:
    """What clauses make of each of `count` rows without a partner; `side` is their alias, schema, and rows."""
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


def _structs(count: int, *sides: tuple[str, StructType, pa.Table]) -> tuple[dict[str, pa.Array], list[T.StructField]]:
    """A column per side, named by its alias, with the side's columns as fields; and each column that only one side has.

    `t.id` is then a field of the column `t`, and `id` the column that both sides would make ambiguous is not there.
    """
    columns: dict[str, pa.Array] = {INDEX: _index(count)}
    fields = [T.StructField(INDEX, T.LongType())]
    names = [name.lower() for _, schema, _ in sides for name in schema.names]
    for alias, schema, table in sides:
        if not len(schema):
            continue
        arrays = [column.combine_chunks() for column in table.columns]
        columns[alias] = pa.StructArray.from_arrays(arrays, names=schema.names)
        spark_fields = to_spark(schema).fields
        fields.append(T.StructField(alias, T.StructType(spark_fields)))
        for name, array, own in zip(schema.names, arrays, spark_fields, strict=True):
            if names.count(name.lower()) == 1 and name not in columns:
                columns[name] = array
                fields.append(own)
    return columns, fields


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
