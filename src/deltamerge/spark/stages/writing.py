"""Frames of result rows: the write stages as Spark sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from deltamerge.errors import AnalysisError
from deltamerge.protocol.schema.types import StructType
from deltamerge.protocol.table.constraints import NO_CONSTRAINTS, TableConstraints, default_of
from deltamerge.protocol.table.identity import Identity
from deltamerge.spark.expressions.casts import assigned, check_casts
from deltamerge.spark.expressions.constraints import with_constraints
from deltamerge.spark.plans.attributes import quoted
from deltamerge.spark.pyspark.adapter import estimated_bytes
from deltamerge.spark.pyspark.older import rebalanced
from deltamerge.spark.session.file_sizes import gathering
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.jobs import local_frame
from deltamerge.spark.session.schema import to_spark
from deltamerge.spark.session.settings import settings
from deltamerge.spark.session.shipping import shipped
from deltamerge.spark.stages.identity import numbered
from deltamerge.worker.entry import apply_map, payload_map, write_map
from deltamerge.worker.scan.streams import arrow_stream
from deltamerge.worker.write.results import RESULT_SCHEMA
from deltamerge.worker.write.rewrite import ChangeSpec
from deltamerge.worker.write.write import WriteSpec

_FEW_BYTES = 24 << 20
RESULT_TYPE: T.StructType = from_arrow_schema(RESULT_SCHEMA)


def positional(rows: Frame) -> Frame:
    """The rows with columns named by position: `mapInArrow` looks its columns up by name, and not every name can be."""
    return rows.toDF(*[f"c{number}" for number in range(len(rows.columns))])


def written_frame(rows: Frame, spec: ChangeSpec) -> Frame:
    """Apply ordered change rows to the files that they belong to; result rows."""
    return positional(rows).mapInArrow(shipped(apply_map(spec, rows.columns)), RESULT_TYPE)


def payload_frame(spark: Session, pieces: Sequence[pa.Table], spec: ChangeSpec) -> Frame:
    """Apply pieces of ordered change rows, each one file's or only inserts, one task or more; result rows."""
    # Spark makes a task of each chunk of a large table.
    rows = np.array_split(np.arange(len(pieces)), min(len(pieces), spec.write.budgets.payload_tasks))
    payloads = pa.chunked_array([[arrow_stream(pieces[row]) for row in part] for part in rows], pa.binary())
    numbers = pa.chunked_array([pa.array(part, pa.int32()) for part in rows], pa.int32())
    fields = [T.StructField("number", T.IntegerType()), T.StructField("payload", T.BinaryType())]
    frame = local_frame(spark, pa.table({"number": numbers, "payload": payloads}), T.StructType(fields))
    return frame.mapInArrow(shipped(payload_map(spec)), RESULT_TYPE)


def laid_out(
    frame: Frame,
    schema: StructType,
    partition_columns: Sequence[str],
    constraints: TableConstraints = NO_CONSTRAINTS,
    identities: Sequence[Identity] = (),
    fills: bool = False,
    gathers: bool = False,
) -> Frame:
    """A frame's rows as rows of a table: columns by name, cast; what the frame lacks is generated, the default or null.

    A partition's rows come together. Rows that violate a constraint fail when they are evaluated. `identities` are numbered,
    densely when the frame is small. `fills` says that a struct may lack fields of the table's, and
    `gathers` that rows are put together where there are no partitions, too.

    Raises AnalysisError for a column whose type can't be cast.
    """
    fields = {field.name.lower(): field for field in frame.schema.fields}
    found = [(to_spark(StructType((f,))).fields[0], fields.get(f.name.lower())) for f in schema]
    check_casts(frame.sparkSession, [(given.dataType, field.dataType, field.name) for field, given in found if given], fills)
    named = {field.name: field for field in schema}
    columns = []
    for field, given in found:
        if given is None:
            default = default_of(named[field.name])
            value = F.lit(None) if default is None else F.expr(default)
            columns.append(value.cast(field.dataType).alias(field.name))
        else:
            value = F.col(quoted(given.name))
            columns.append(assigned(value, given.dataType, field.dataType, field.name).alias(field.name))
    rows = frame.select(*columns)
    left_out = {name: F.lit(name.lower() not in fields) for name, _ in constraints.generated}
    if not identities:
        return _together(
            with_constraints(rows, schema, constraints, left_out, F.lit(True)) if constraints else rows,
            partition_columns,
            gathers,
        )
    estimate = estimated_bytes(frame)
    few = estimate is not None and estimate <= _FEW_BYTES
    placed = rows.coalesce(1) if few else _together(rows, partition_columns, gathers)
    rows = numbered(placed, dict.fromkeys(identities, F.lit(True)), partitions=1 if few else None)
    return with_constraints(rows, schema, constraints, left_out, F.lit(True)) if constraints else rows


def _together(rows: Frame, partition_columns: Sequence[str], gathers: bool) -> Frame:
    """The rows with those of each partition in as few tasks as fit; of a table without any, if they are put together."""
    if not (partition_columns or gathers):
        return rows
    # Spark drops the hint as soon as it is given where it may not count rows first.
    with settings(rows.sparkSession, gathering(rows.sparkSession) if gathers else {}):
        return rebalanced(rows, [F.col(quoted(name)) for name in partition_columns])


def by_position(frame: Frame, schema: StructType) -> Frame:
    """A frame whose columns, and fields of structs, have a schema's names in the schema's order; those beyond it keep theirs.

    Raises AnalysisError for a frame, or a struct, that has too few.
    """
    fields = frame.schema.fields
    if len(fields) < len(schema):
        raise _too_few("the data", len(fields), len(schema))
    columns = []
    for place, (name, given) in enumerate(zip((f"c{n}" for n in range(len(fields))), fields, strict=True)):
        if place >= len(schema):
            columns.append(F.col(name).alias(given.name))
            continue
        field = to_spark(StructType((schema.fields[place],))).fields[0]
        renamed = _renamed(given.dataType, field.dataType, field.name)
        column = F.col(name) if renamed == given.dataType else F.col(name).cast(renamed)
        columns.append(column.alias(field.name))
    return positional(frame).select(*columns)


def with_constants(frame: Frame, values: Mapping[str, str]) -> Frame:
    """The frame with columns more, each with one value, the text of an expression."""
    return frame.select("*", *[F.expr(text).alias(name) for name, text in values.items()]) if values else frame


def _renamed(type: T.DataType, target: T.DataType, name: str) -> T.DataType:
    """A type whose structs' fields have the target's names in the target's order."""
    if isinstance(type, T.StructType) and isinstance(target, T.StructType):
        if len(type) < len(target):
            raise _too_few(f"the struct {name}", len(type), len(target))
        known = [
            T.StructField(b.name, _renamed(a.dataType, b.dataType, f"{name}.{b.name}"), a.nullable)
            for a, b in zip(type.fields, target.fields, strict=False)
        ]
        return T.StructType([*known, *type.fields[len(target) :]])
    if isinstance(type, T.ArrayType) and isinstance(target, T.ArrayType):
        return T.ArrayType(_renamed(type.elementType, target.elementType, name), type.containsNull)
    if isinstance(type, T.MapType) and isinstance(target, T.MapType):
        keys, values = (type.keyType, target.keyType), (type.valueType, target.valueType)
        return T.MapType(_renamed(*keys, name), _renamed(*values, name), type.valueContainsNull)
    return type


def _too_few(what: str, given: int, wanted: int) -> AnalysisError:
    return AnalysisError(
        "DELTA_INSERT_COLUMN_ARITY_MISMATCH",
        f"Cannot write to the table, not enough columns: it has {wanted} for which {what} has {given}.",
        parameters={"numColumns": wanted, "insertColumns": given},
        hint="Give a value for each, or name the columns that are given.",
    )


def data_frame(rows: Frame, spec: WriteSpec, feed: WriteSpec | None = None) -> Frame:
    """Write rows of the table's schema into new files, and into change data files by `feed` if there is one; result rows."""
    return positional(rows).mapInArrow(shipped(write_map(spec, feed)), RESULT_TYPE)
