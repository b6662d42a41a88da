"""Frames of result rows: the write stages as Spark sees them."""

from __future__ import annotations

from collections.abc import Sequence

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
from deltamerge.spark.session.adapter import estimated_bytes
from deltamerge.spark.session.attributes import quoted
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.jobs import local_frame
from deltamerge.spark.session.schema import to_spark
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
    return positional(rows).mapInArrow(apply_map(spec, rows.columns), RESULT_TYPE)


def payload_frame(spark: Session, pieces: Sequence[pa.Table], spec: ChangeSpec) -> Frame:
    """Apply pieces of ordered change rows, each one file's or only inserts, one task or more; result rows."""
    # Spark makes a task of each chunk of a large table.
    rows = np.array_split(np.arange(len(pieces)), min(len(pieces), spec.write.budgets.payload_tasks))
    payloads = pa.chunked_array([[arrow_stream(pieces[row]) for row in part] for part in rows], pa.binary())
    numbers = pa.chunked_array([pa.array(part, pa.int32()) for part in rows], pa.int32())
    fields = [T.StructField("number", T.IntegerType()), T.StructField("payload", T.BinaryType())]
    frame = local_frame(spark, pa.table({"number": numbers, "payload": payloads}), T.StructType(fields))
    return frame.mapInArrow(payload_map(spec), RESULT_TYPE)


def laid_out(
    frame: Frame,
    schema: StructType,
    partition_columns: Sequence[str],
    constraints: TableConstraints = NO_CONSTRAINTS,
    identities: Sequence[Identity] = (),
) -> Frame:
    """A frame's rows as rows of a table: columns by name, cast; what the frame lacks is generated, the default or null.

    A partition's rows come together. Rows that violate a constraint fail when they are evaluated. `identities` are numbered,
    densely when the frame is small.

    Raises AnalysisError for a column that the table does not have, or whose type can't be cast.
    """
    fields = {field.name.lower(): field for field in frame.schema.fields}
    unknown = [f.name for key, f in fields.items() if schema.find(key) is None]
    if unknown:
        raise AnalysisError(
            "DELTA_METADATA_MISMATCH",
            f"A schema mismatch detected when writing to the Delta table: it has no column {', '.join(unknown)}.",
            parameters={"columns": unknown, "table": schema.names},
            hint="Drop or rename the columns in the data.",
        )
    found = [(to_spark(StructType((f,))).fields[0], fields.get(f.name.lower())) for f in schema]
    check_casts(frame.sparkSession, [(given.dataType, field.dataType, field.name) for field, given in found if given])
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
            with_constraints(rows, schema, constraints, left_out, F.lit(True)) if constraints else rows, partition_columns
        )
    estimate = estimated_bytes(frame)
    few = estimate is not None and estimate <= _FEW_BYTES
    placed = rows.coalesce(1) if few else _together(rows, partition_columns)
    rows = numbered(placed, dict.fromkeys(identities, F.lit(True)), partitions=1 if few else None)
    return with_constraints(rows, schema, constraints, left_out, F.lit(True)) if constraints else rows


def _together(rows: Frame, partition_columns: Sequence[str]) -> Frame:
    """The rows with those of each partition in as few tasks as fit."""
    return rows.hint("rebalance", *[F.col(quoted(name)) for name in partition_columns]) if partition_columns else rows


def data_frame(rows: Frame, spec: WriteSpec) -> Frame:
    """Write rows of the table's schema into new files; result rows."""
    return positional(rows).mapInArrow(write_map(spec), RESULT_TYPE)
