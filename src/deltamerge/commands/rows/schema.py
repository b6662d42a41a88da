"""What a write makes of a table's schema and partitioning: enforced, evolved, or given anew.

Source of the behaviour: delta-spark's ImplicitMetadataOperation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from deltamerge.commands.rows.request import WriteRequest
from deltamerge.errors import AnalysisError
from deltamerge.log.commit.clustering import clustering_names
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.merge.resolve.evolve import evolved_by
from deltamerge.protocol.schema.types import (
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    check_names,
    has_variant,
    parse_schema,
    schema_json,
)
from deltamerge.protocol.table.actions import Metadata
from deltamerge.protocol.table.column_mapping import ID_KEY, MAX_ID, NAME_KEY, MappingMode, assigned, mapping_mode
from deltamerge.protocol.table.evolution import check_distinct, nullable
from deltamerge.protocol.table.features import check_writable
from deltamerge.spark.read.feed import check_feed_columns


def metadata_after(snapshot: Snapshot, data: StructType, request: WriteRequest, evolves: bool) -> Metadata:
    """The table's metadata after a write of `data`, the very same object when it stays.

    Raises AnalysisError for a schema or a partitioning that does not fit, UnsupportedTableError for one that can't be had.
    """
    if request.new_schema:
        after = _given_anew(snapshot, data, request)
    else:
        _check_partitioning(snapshot, request)
        check_distinct(data)
        if not evolves:
            _check_columns(snapshot.schema, data, request)
        after = (evolved_by(snapshot, data) if evolves else None) or snapshot.metadata
    return after


def _given_anew(snapshot: Snapshot, data: StructType, request: WriteRequest) -> Metadata:
    """The metadata with the data's schema and the partitioning that is asked for; a column of the same name and type is found
    in files as it was.
    """
    mapped = mapping_mode(snapshot.protocol, snapshot.metadata) is not MappingMode.NONE
    check_new_schema(data, request.partition_by, any_name=mapped)
    before = parse_schema(snapshot.metadata.schema_string)
    schema = nullable(data)
    configuration = dict(snapshot.metadata.configuration)
    if mapped:
        kept = StructType(tuple(_mapped_as(field, before) for field in schema))
        schema, highest = assigned(kept, int(configuration.get(MAX_ID, 0)))
        configuration[MAX_ID] = str(highest)
    columns = tuple(spelled(schema, name) for name in request.partition_by)
    if schema == before and columns == snapshot.partition_columns:
        return snapshot.metadata
    after = replace(snapshot.metadata, schema_string=schema_json(schema), partition_columns=columns, configuration=configuration)
    check_writable(snapshot.protocol, after, snapshot.store.url)
    check_feed_columns(schema, after)
    return after


def _mapped_as(field: StructField, before: StructType) -> StructField:
    """The field with the id and physical name of one of the same name and type, nested ones included."""
    known = before.find(field.name)
    if known is None or not isinstance(field.type, PrimitiveType) or known.type != field.type:
        return field
    mapping = {key: known.metadata[key] for key in (ID_KEY, NAME_KEY) if key in known.metadata}
    return replace(field, metadata={**field.metadata, **mapping})


def _check_partitioning(snapshot: Snapshot, request: WriteRequest) -> None:
    given = [name.lower() for name in request.partition_by]
    if given and given != [name.lower() for name in snapshot.partition_columns]:
        raise AnalysisError(
            "DELTA_METADATA_MISMATCH",
            f"A metadata mismatch was detected when writing to the Delta table: it is partitioned by "
            f"{list(snapshot.partition_columns)}, not by {list(request.partition_by)}.",
            parameters={"partitionColumns": list(snapshot.partition_columns), "given": list(request.partition_by)},
            hint="Leave the partitioning out; a table keeps its own."
            + (" Or overwrite the schema, which gives it another one." if request.overwrites else ""),
        )


def _check_columns(schema: StructType, data: StructType, request: WriteRequest) -> None:
    """Raise AnalysisError for columns and fields of the data that the table does not have."""
    unknown = list(_unknown(schema, data))
    if unknown:
        way = "; or overwrite the schema" if request.overwrites and request.replace_where is None else ""
        raise AnalysisError(
            "DELTA_METADATA_MISMATCH",
            f"A schema mismatch detected when writing to the Delta table: it has no column {', '.join(unknown)}.",
            parameters={"columns": unknown, "table": schema.names},
            hint=f"Drop or rename the columns in the data; or merge the schema, which adds them to the table{way}.",
        )


def _unknown(type: DataType, data: DataType, path: str = "") -> Iterator[str]:
    if isinstance(type, StructType) and isinstance(data, StructType):
        for field in data:
            known = type.find(field.name)
            if known is None:
                yield path + field.name
            else:
                yield from _unknown(known.type, field.type, f"{path}{known.name}.")
    elif isinstance(type, ArrayType) and isinstance(data, ArrayType):
        yield from _unknown(type.element, data.element, f"{path}element.")
    elif isinstance(type, MapType) and isinstance(data, MapType):
        yield from _unknown(type.key, data.key, f"{path}key.")
        yield from _unknown(type.value, data.value, f"{path}value.")


def check_new_schema(schema: StructType, partition_by: Sequence[str], any_name: bool = False) -> None:
    """Raise AnalysisError for a schema that no Delta table can have. Column mapping allows `any_name`."""
    if not len(schema):
        raise AnalysisError(
            "DELTA_EMPTY_DATA",
            "The data has no columns, so that no Delta table can be made of it.",
            hint="Select at least one column.",
        )
    names = [name.lower() for name in schema.names]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise AnalysisError(
            "DELTA_DUPLICATE_COLUMNS_FOUND",
            f"Found duplicate column(s) in the data: {', '.join(repeated)}.",
            parameters={"duplicateCols": repeated},
            hint="Column names are the same whatever their case; rename one.",
        )
    if not any_name:
        check_names(schema)
    if len({name.lower() for name in partition_by}) < len(partition_by):
        raise AnalysisError(
            "DELTA_DUPLICATE_COLUMNS_FOUND",
            f"Found duplicate column(s) in partition_by: {list(partition_by)}.",
            parameters={"duplicateCols": list(partition_by)},
            hint="Column names are the same whatever their case; name each once.",
        )
    for name in partition_by:
        field = schema.find(name)
        if field is None:
            raise AnalysisError(
                "DELTA_MISSING_PARTITION_COLUMN",
                f"Partition column {name} not found in {schema.names}.",
                parameters={"columnName": name, "columnList": schema.names},
            )
        if not isinstance(field.type, PrimitiveType) or has_variant(field.type):
            raise AnalysisError(
                "DELTA_INVALID_PARTITION_COLUMN_TYPE",
                f"Using column {name} of type {field.type} as a partition column is not supported.",
                parameters={"name": name, "dataType": str(field.type)},
            )
    if partition_by and len(set(map(str.lower, partition_by))) == len(schema):
        raise AnalysisError("DELTA_CANNOT_USE_ALL_COLUMNS_FOR_PARTITION", "Cannot use all columns for partition columns.")


def spelled(schema: StructType, name: str) -> str:
    """A column's name as the schema spells it; as it is where there is none."""
    found = schema.find(name)
    return name if found is None else found.name


def check_clustering(snapshot: Snapshot, request: WriteRequest) -> None:
    """Raise AnalysisError when the write asks for other clustering columns than the table has."""
    known = clustering_names(snapshot)
    if request.cluster_by and [name.lower() for name in request.cluster_by] != [name.lower() for name in known]:
        raise AnalysisError(
            "DELTA_CLUSTERING_COLUMNS_MISMATCH",
            f"The provided clustering columns {list(request.cluster_by)} do not match the existing table's {known}.",
            parameters={"providedClusteringColumns": list(request.cluster_by), "existingClusteringColumns": known},
            hint="Leave the clustering columns out; a table keeps its own. ALTER TABLE .. CLUSTER BY changes them.",
        )
