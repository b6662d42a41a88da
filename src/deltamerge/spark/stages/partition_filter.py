"""The partitions for which a predicate is true, as Spark evaluates it on their values alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import functions as F

from deltamerge.errors import AnalysisError
from deltamerge.protocol.schema.types import StructType
from deltamerge.spark.expressions.queries import asking
from deltamerge.spark.plans.attributes import quoted
from deltamerge.spark.pyspark.older import arrow_frame
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.jobs import collect
from deltamerge.spark.session.schema import to_spark

_NUMBER = "__deltamerge_number"


def chosen_partitions(
    spark: Session, schema: StructType, partitions: Sequence[Mapping[str, pa.Scalar]], predicates: Sequence[str]
) -> set[int]:
    """The numbers of the partitions, given by their typed values, for which all predicates are true.

    `schema` has the partition columns. Raises AnalysisError for a predicate about any other column.
    """
    columns = {
        field.name: pa.chunked_array([pa.repeat(values[field.name], 1) for values in partitions], partitions[0][field.name].type)
        for field in schema
    }
    table = pa.table({**columns, _NUMBER: pa.array(range(len(partitions)), pa.int64())})
    frame = arrow_frame(spark, table)
    types = {field.name: field.dataType for field in to_spark(schema).fields}
    frame = frame.select(*[F.col(quoted(name)).cast(type).alias(name) for name, type in types.items()], _NUMBER)
    try:
        with asking(spark):
            for predicate in predicates:
                frame = frame.where(F.expr(predicate))
            frame.schema  # noqa: B018 - a Connect client analyses only when asked
    except AnalysisError as error:
        if not error.condition.startswith("UNRESOLVED_COLUMN"):
            raise
        name = str(error.parameters.get("objectName", "")).replace("`", "")
        raise AnalysisError(
            "DELTA_NON_PARTITION_COLUMN_REFERENCE",
            f"Predicate references non-partition column '{name}'. Only the partition columns may be referenced: "
            f"[{', '.join(types)}].",
            parameters={"columnName": name, "columnList": list(types)},
            hint="OPTIMIZE puts whole files together: choose them by partition columns, or leave the predicate out.",
        ) from error
    found = collect(frame.select(_NUMBER), "deltamerge: choose partitions")
    return set(found[_NUMBER].to_pylist())
