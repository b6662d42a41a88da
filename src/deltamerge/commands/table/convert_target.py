"""What is to be converted: a folder, or a table of the catalog, which has to list it as a Delta table afterwards.

Only a metastore's own client can give a table another format. What Spark's statements can do is to forget a table and to list it
anew, which keeps the folder of a table whose place somebody named; that of a table of the catalog itself would be deleted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from deltamerge.errors import AnalysisError
from deltamerge.protocol.schema.types import StructType
from deltamerge.protocol.table.evolution import nullable
from deltamerge.spark.expressions.queries import asking
from deltamerge.spark.pyspark.plain import plain_sql, plain_table
from deltamerge.spark.read.catalog import NamedTable, delta_named, listed_table, sql_name
from deltamerge.spark.read.register import Registrar, register, registrar, unregister, whole_name
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.schema import from_spark

_CONVERT = "CONVERT TO DELTA"
_FORMATS = ("parquet", "delta", "iceberg", "orc", "csv", "json", "text", "avro", "hudi")
# Such a table loses its folder with its name, too.
_PURGES = "external.table.purge"
# What a metastore notes for itself.
_NOT_OF_USERS = ("transient_lastDdlTime", "owner")


@dataclass(frozen=True)
class ConvertTarget:
    """A folder; for a table of the catalog its name with the database, by which session it is listed anew, and its properties."""

    location: str
    name: tuple[str, ...] = ()
    partitions: StructType | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    is_delta: bool = False
    by: Registrar | None = None


def convert_target(spark: Session, name: Sequence[str], partitions: StructType | None) -> ConvertTarget:
    """What a name stands for. Raises AnalysisError for what can't be converted."""
    format = name[0].lower() if len(name) == 2 else ""
    if format in _FORMATS and "/" in name[1]:
        return _folder(format, name[1], partitions)
    if len(name) == 1 and "/" in name[0]:
        raise AnalysisError(
            "DELTA_MISSING_PROVIDER_FOR_CONVERT",
            f"CONVERT TO DELTA only supports parquet tables. Please rewrite your target as parquet.`{name[0]}`.",
            parameters={"path": name[0]},
            hint=f"parquet.`{name[0]}`",
        )
    return _named(spark, tuple(name), partitions)


def listed_as_delta(spark: Session, target: ConvertTarget) -> None:
    """Have the catalog list a converted table as one of Delta's. The user's session forgets what it knows of the other format."""
    assert target.by is not None
    unregister(Registrar(spark), target.name)
    register(target.by, target.name, location=target.location)


def _folder(format: str, path: str, partitions: StructType | None) -> ConvertTarget:
    if format == "delta":
        return ConvertTarget(path, is_delta=True)
    if format == "iceberg":
        raise AnalysisError(
            "DELTA_MISSING_ICEBERG_CLASS",
            f"CONVERT TO DELTA iceberg.`{path}` is not supported: it needs delta-iceberg.",
            parameters={"path": path},
            hint="Use delta-spark with delta-iceberg, or write the table's rows to a new table.",
        )
    if format != "parquet":
        raise _not_parquet(f"{format}.`{path}`", format)
    return ConvertTarget(path, partitions=partitions)


def _named(spark: Session, name: tuple[str, ...], partitions: StructType | None) -> ConvertTarget:
    found = delta_named(spark, name)
    if isinstance(found, NamedTable):
        return ConvertTarget(found.location, found.name, is_delta=True)
    listed = listed_table(spark, name)
    if listed.is_view:
        raise AnalysisError(
            "DELTA_OPERATION_NOT_ALLOWED_DETAIL",
            f"Operation not allowed: `Converting a view to a Delta table` is not supported for Delta tables: {sql_name(name)}.",
            parameters={"operation": "Converting a view to a Delta table", "tableName": sql_name(name)},
            hint="Convert the tables that it reads.",
        )
    if listed.provider != "parquet" or listed.location is None:
        raise _not_parquet(sql_name(name), listed.provider or "hive")
    whole, properties = whole_name(spark, listed.name), _properties(spark, name)
    if not listed.is_external or properties.get(_PURGES, "").lower() == "true":
        raise AnalysisError(
            "DELTA_OPERATION_NOT_ALLOWED_DETAIL",
            f"Operation not allowed: {_CONVERT} of {sql_name(name)}, whose folder is the catalog's own.",
            parameters={"operation": _CONVERT, "tableName": sql_name(name)},
            hint=f"Convert its folder, parquet.`{listed.location}`, and use it by its path; or write its rows to a new table.",
        )
    columns = _partition_columns(spark, name)
    if partitions is not None and partitions != columns:
        raise AnalysisError(
            "DELTA_UNEXPECTED_PARTITION_SCHEMA_FROM_USER",
            f"CONVERT TO DELTA was called with a partition schema different from the partition schema inferred from the catalog: "
            f"{_shown(columns)} there, {_shown(partitions)} given.",
            parameters={"catalogPartitionSchema": _shown(columns), "userPartitionSchema": _shown(partitions)},
            hint="Leave the partition schema out, so that it is chosen from the catalog.",
        )
    by = registrar(spark)
    return ConvertTarget(listed.location, whole, columns, properties, by=by)


def _partition_columns(spark: Session, name: tuple[str, ...]) -> StructType:
    """The columns that the catalog has a table partitioned by."""
    with asking(spark):
        names = {column.name for column in spark.catalog.listColumns(sql_name(name)) if column.isPartition}
        schema = nullable(from_spark(plain_table(spark, sql_name(name)).schema))
    return StructType(tuple(field for field in schema if field.name in names))


def _properties(spark: Session, name: tuple[str, ...]) -> dict[str, str]:
    with asking(spark):
        rows = plain_sql(spark, f"SHOW TBLPROPERTIES {sql_name(name)}").collect()
    return {row.key: row.value for row in rows if row.key not in _NOT_OF_USERS}


def _shown(columns: StructType) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in columns) or "none"


def _not_parquet(name: str, format: str) -> AnalysisError:
    return AnalysisError(
        "DELTA_CONVERT_NON_PARQUET_TABLE",
        f"CONVERT TO DELTA only supports parquet tables, but you are trying to convert a {format} source: {name}.",
        parameters={"sourceName": format, "tableId": name},
        hint="Write its rows to a new table.",
    )
