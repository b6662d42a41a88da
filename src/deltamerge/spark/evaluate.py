"""Evaluating a merge's expressions on rows that are already at hand in Arrow: matched pairs, and source rows alone.

The rows become a local relation in which every name means what it means in MERGE; Spark evaluates, nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from deltamerge.protocol.schema import StructType
from deltamerge.spark.casts import assigned, same_type
from deltamerge.spark.changes import ClauseQuery, clause_number
from deltamerge.spark.expression import Expression
from deltamerge.spark.frames import Frame, Session
from deltamerge.spark.jobs import collect, local_frame
from deltamerge.spark.schema import to_spark

INDEX, HOLDS, NUMBER = "__deltamerge_index", "__deltamerge_holds", "__deltamerge_number"


def value_name(clause: int, column: str) -> str:
    """The name under which a clause's value for a column comes back."""
    return f"__deltamerge_{clause}_{column}"


def evaluate_pairs(
    spark: Session,
    source: tuple[str, StructType, pa.Table],
    target: tuple[str, StructType, pa.Table],
    count: int,
    condition: Expression | None,
    clauses: Sequence[ClauseQuery],
    schema: T.StructType,
) -> pa.Table | None:
    """For each of `count` pairs of rows: HOLDS (when there is a `condition`), NUMBER of the applying clause, and its values.

    `source` and `target` are each an alias, a schema, and the rows of the pairs. None when the names can't be told apart.
    """
    aliases = {source[0].lower(), target[0].lower()}
    if len(aliases) < 2 or any(name.lower() in aliases for _, schema, _ in (source, target) for name in schema.names):
        return None
    columns, fields = _structs(count, source, target)
    frame = local_frame(spark, pa.table(columns), T.StructType(fields))
    try:
        return _collected(frame, condition, clauses, schema, count)
    except AnalysisException:
        return None


def evaluate_alone(
    spark: Session,
    source: tuple[str, StructType, pa.Table],
    count: int,
    clauses: Sequence[ClauseQuery],
    schema: T.StructType,
) -> pa.Table:
    """For each of `count` source rows without a partner: NUMBER of the applying clause, and its values."""
    alias, columns, rows = source
    fields = [T.StructField(INDEX, T.LongType()), *to_spark(columns).fields]
    table = pa.table([_index(count), *rows.columns], names=[INDEX, *columns.names])
    frame = local_frame(spark, table, T.StructType(fields)).alias(alias)
    return _collected(frame, None, clauses, schema, count)


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
        for name, array, field in zip(schema.names, arrays, spark_fields, strict=True):
            if names.count(name.lower()) == 1 and name not in columns:
                columns[name] = array
                fields.append(field)
    return columns, fields


def _collected(
    frame: Frame, condition: Expression | None, clauses: Sequence[ClauseQuery], schema: T.StructType, rows: int
) -> pa.Table:
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
            raw = F.col("`" + alias.replace("`", "``") + "`")
            second.append((raw if same else assigned(raw, type, types[name], name)).alias(alias))
    table = collect(frame.select("*", *first).select(*second), "deltamerge: evaluate the clauses")
    if table.num_rows != rows:
        raise AssertionError("a local relation came back with another number of rows")
    return table.sort_by(INDEX)
