"""The columns of ZORDER BY, found in the schema. Source: delta-spark's OptimizeTableCommandBase."""

from __future__ import annotations

from collections.abc import Sequence

from deltamerge.errors import AnalysisError, InvalidArgumentError
from deltamerge.log.commit.stats_columns import indexed_fields
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.protocol.schema.types import PrimitiveType, StructField, StructType, has_variant
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.settings import setting
from deltamerge.spark.sql.text import name_parts_of

_CHECKED = "spark.databricks.delta.optimize.zorder.checkStatsCollection.enabled"


def z_columns(spark: Session, snapshot: Snapshot, names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The paths of the columns by logical names, for names as SQL has them.

    Raises InvalidArgumentError for a partition column and for a column that is not there, AnalysisError for one without
    statistics, by which no file could be left out, unless the session says not to look at that.
    """
    found = [_found(snapshot, name) for name in names]
    indexed = {path for path, _ in indexed_fields(snapshot.data_schema, snapshot.properties)}
    bare = [name for name, fields in zip(names, found, strict=True) if tuple(f.physical_name for f in fields) not in indexed]
    if bare and setting(spark, _CHECKED, "true").lower() != "false":
        raise AnalysisError(
            "DELTA_ZORDERING_ON_COLUMN_WITHOUT_STATS",
            f"Z-Ordering on {', '.join(bare)} will be ineffective, because no statistics are collected for these columns.",
            parameters={"cols": bare, "zorderColStatKey": _CHECKED},
            hint=f"Name them in delta.dataSkippingStatsColumns, or set {_CHECKED} to false.",
        )
    return tuple(tuple(field.name for field in fields) for fields in found)


def _found(snapshot: Snapshot, name: str) -> list[StructField]:
    """The fields on the way to a column."""
    parts = name_parts_of(name)
    if len(parts) == 1 and parts[0].lower() in map(str.lower, snapshot.partition_columns):
        raise InvalidArgumentError(
            "DELTA_ZORDERING_ON_PARTITION_COLUMN",
            f"{name} is a partition column. Z-Ordering can only be performed on data columns.",
            parameters={"colName": name},
            hint="Leave it out: all rows of a file have the same value in it.",
        )
    fields: list[StructField] = []
    within: object = snapshot.schema
    for part in parts:
        field = within.find(part) if isinstance(within, StructType) else None
        if field is None:
            break
        fields.append(field)
        within = field.type
    if not parts or len(fields) < len(parts) or not isinstance(within, PrimitiveType):
        raise InvalidArgumentError(
            "DELTA_ZORDERING_COLUMN_DOES_NOT_EXIST",
            f"Z-Ordering column {name} does not exist in data schema, or is no single value.",
            parameters={"columnName": name},
            hint=f"The columns are {', '.join(snapshot.data_schema.names)}.",
        )
    if has_variant(within):
        raise AnalysisError(
            "DATATYPE_MISMATCH.INVALID_ORDERING_TYPE",
            f"Cannot Z-order by {name}: values of the type VARIANT have no order.",
            parameters={"columnName": name, "dataType": str(within)},
            hint="Leave it out, or write a field of it to a column of its own.",
        )
    return fields
