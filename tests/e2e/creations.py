"""Tables made by the builder of either library, here and by delta-spark: what is asked for, step by step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import types as T

Build = Callable[[Any, SparkSession, str], Any]
"""Given a library's module of tables, the session and a path: the builder, to be executed."""


def whole(tables: Any, spark: SparkSession, path: str) -> Any:
    builder = tables.DeltaTable.create(spark).location(path).comment("orders")
    builder = builder.addColumn("id", "BIGINT", generatedAlwaysAs=tables.IdentityGenerator(5, 2))
    builder = builder.addColumn("n", T.IntegerType(), nullable=False, comment="how many")
    builder = builder.addColumn("g", "int", generatedAlwaysAs="n + 1").addColumn("p", "string")
    return builder.partitionedBy("P").property("delta.enableChangeDataFeed", "true").property("team", "sales")


def plain(kind: str, columns: str, **properties: str) -> Build:
    """Columns by DDL, and properties with `__` for a dot."""

    def build(tables: Any, spark: SparkSession, path: str) -> Any:
        builder = getattr(tables.DeltaTable, kind)(spark).location(path)
        for column in columns.split(", "):
            name, type = column.split(" ", 1)
            builder = builder.addColumn(name, type)
        for key, value in properties.items():
            builder = builder.property(key.replace("__", "."), value)
        return builder

    return build


def clustered(kind: str) -> Build:
    def build(tables: Any, spark: SparkSession, path: str) -> Any:
        builder = getattr(tables.DeltaTable, kind)(spark).location(path).addColumn("a", "INT")
        return builder.addColumn("s", "STRUCT<b:STRING,c:INT>").clusterBy("s.b", "a")

    return build


# Each a table's builders, one after the other.
CREATIONS: dict[str, list[Build]] = {
    "whole": [whole, plain("createIfNotExists", "x INT"), plain("replace", "x INT, y DATE")],
    "empty": [lambda tables, spark, path: tables.DeltaTable.create(spark).location(path)],
    "lengths": [plain("create", "c CHAR(3), v VARCHAR(4), a ARRAY<CHAR(2)>")],
    "clustered": [clustered("create"), plain("replace", "a INT")],
    "becomes clustered": [plain("createOrReplace", "a INT"), clustered("replace")],
    "vectors": [plain("create", "a INT", delta__enableDeletionVectors="true"), plain("replace", "a BIGINT")],
    "tracked": [plain("create", "a INT", delta__enableRowTracking="true")] * 1
    + [plain("replace", "b INT", delta__enableRowTracking="true")],
    "spelled": [plain("create", "a INT", delta__APPENDonly="true", delta__minReaderVersion="2", delta__minWriterVersion="5")],
    "mapped": [plain("create", "a INT", delta__columnMapping__mode="name"), plain("replace", "a INT")],
    "features": [plain("create", "a TIMESTAMP_NTZ", delta__feature__allowColumnDefaults="supported")],
    "timed": [plain("create", "a INT", delta__enableInCommitTimestamps="true")],
    "checked": [plain("create", "a INT", delta__constraints__positive="a > 0")],
    "by session": [plain("create", "a INT", delta__checkpointInterval="3")],
}


@dataclass(frozen=True)
class Refusal:
    """A builder that is refused: by this library under a condition, by delta-spark under the same or another one."""

    condition: str
    build: Build
    there: str | None = None


def _with(kind: str, columns: str, then: Callable[[Any], Any]) -> Build:
    return lambda tables, spark, path: then(plain(kind, columns)(tables, spark, path))


_SIX = ", ".join(f"a{n} INT" for n in range(6))
REFUSALS = [
    Refusal("TABLE_OR_VIEW_NOT_FOUND", plain("replace", "a INT")),
    Refusal("DELTA_UNKNOWN_CONFIGURATION", plain("create", "a INT", delta__foo="1")),
    Refusal("DELTAMERGE_INVALID_PROPERTY", plain("create", "a INT", delta__appendOnly="maybe"), ""),
    Refusal("DELTAMERGE_INVALID_PROPERTY", plain("create", "a INT", delta__logRetentionDuration="1 day"), ""),
    Refusal("DELTA_UNSUPPORTED_FEATURES_IN_CONFIG", plain("create", "a INT", delta__feature__nope="supported")),
    Refusal("DELTA_UNSUPPORTED_FEATURE_STATUS", plain("create", "a INT", delta__feature__rowTracking="on")),
    Refusal("DELTA_DUPLICATE_COLUMNS_FOUND", plain("create", "a INT, A STRING"), "COLUMN_ALREADY_EXISTS"),
    Refusal("DELTA_MISSING_PARTITION_COLUMN", _with("create", "a INT", lambda b: b.partitionedBy("z")), ""),
    Refusal(
        "DELTA_CANNOT_USE_ALL_COLUMNS_FOR_PARTITION",
        _with("create", "a INT", lambda b: b.partitionedBy("a")),
        "ALL_PARTITION_COLUMNS_NOT_ALLOWED",
    ),
    Refusal("DELTA_CLUSTER_BY_WITH_PARTITIONED_BY", _with("create", "a INT", lambda b: b.partitionedBy("a").clusterBy("a"))),
    Refusal(
        "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA",
        _with("create", "a INT", lambda b: b.clusterBy("z")),
        "UNSUPPORTED_FEATURE.PARTITION_WITH_NESTED_COLUMN_IS_UNSUPPORTED",
    ),
    Refusal("DELTA_CLUSTERING_COLUMN_MISSING_STATS", _with("create", "a ARRAY<INT>", lambda b: b.clusterBy("a")), ""),
    Refusal("DELTA_CLUSTER_BY_INVALID_NUM_COLUMNS", _with("create", _SIX, lambda b: b.clusterBy("a0", "a1", "a2", "a3", "a4"))),
    Refusal(
        "DELTA_INVALID_GENERATED_COLUMN_REFERENCES",
        _with("create", "a INT", lambda b: b.addColumn("g", "INT", generatedAlwaysAs="nope + 1")),
    ),
    Refusal(
        "DELTA_INVALID_GENERATED_COLUMN_REFERENCES",
        _with(
            "create",
            "a INT",
            lambda b: b.addColumn("g", "INT", generatedAlwaysAs="a + 1").addColumn("h", "INT", generatedAlwaysAs="g + 1"),
        ),
    ),
    Refusal(
        "DELTA_GENERATED_COLUMNS_EXPR_TYPE_MISMATCH",
        _with("create", "a INT", lambda b: b.addColumn("g", "INT", generatedAlwaysAs="CAST(a AS STRING)")),
    ),
    Refusal(
        "DELTA_NON_DETERMINISTIC_EXPRESSION_IN_GENERATED_COLUMN",
        _with("create", "a INT", lambda b: b.addColumn("g", "DOUBLE", generatedAlwaysAs="rand()")),
        "",
    ),
    Refusal(
        "DELTA_UNSUPPORTED_EXPRESSION_GENERATED_COLUMN",
        _with("create", "a INT", lambda b: b.addColumn("g", "BIGINT", generatedAlwaysAs="sum(a)")),
        "",
    ),
    Refusal("DELTA_SCHEMA_NOT_PROVIDED", lambda tables, spark, path: tables.DeltaTable.createOrReplace(spark).location(path)),
    Refusal(
        "DELTA_CREATE_TABLE_MISSING_TABLE_NAME_OR_LOCATION",
        lambda tables, spark, path: tables.DeltaTable.create(spark).addColumn("a", "INT"),
    ),
    Refusal(
        "DELTA_CREATE_TABLE_IDENTIFIER_LOCATION_MISMATCH",
        _with("create", "a INT", lambda b: b.tableName("delta.`/tmp/elsewhere`")),
    ),
    Refusal(
        "DELTA_IDENTITY_COLUMNS_UNSUPPORTED_DATA_TYPE",
        lambda tables, spark, path: (
            tables.DeltaTable.create(spark).location(path).addColumn("a", "INT", generatedAlwaysAs=tables.IdentityGenerator())
        ),
    ),
]


def is_empty(path: Path) -> bool:
    """Whether no table was begun."""
    return not (path / "_delta_log").exists()
