"""A table's files and schema as its workers need them: what to read, how to write."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.log.snapshot import Snapshot
from deltamerge.protocol.column_mapping import MappingMode, logical_schema, mapping_mode, stored_schema
from deltamerge.protocol.partitions import decode_path, parse_partition_values
from deltamerge.protocol.properties import Properties
from deltamerge.protocol.schema import ArrayType, MapType, StructType, arrow_type
from deltamerge.worker.keys import KeyFilter
from deltamerge.worker.scan import FileTask, ScanSpec
from deltamerge.worker.stats import StatsColumn
from deltamerge.worker.store import DataStore
from deltamerge.worker.write import WriteSpec


def data_store(snapshot: Snapshot) -> DataStore:
    """The table's folder as a worker reaches it."""
    spec = snapshot.store.spec
    return DataStore(spec.scheme, spec.root, spec.options)


def file_tasks(snapshot: Snapshot, files: pa.Table, zone: str = "UTC") -> list[FileTask]:
    """A task per row of a file table, numbered by the row."""
    partitions = files["partitionValues"].combine_chunks()
    columns = {}
    for field in snapshot.partition_schema:
        texts = pc.map_lookup(partitions, pa.scalar(field.physical_name), "first")
        columns[field.name] = parse_partition_values(texts, arrow_type(field.type), zone)
    return [
        FileTask(number, decode_path(path), {name: values[number] for name, values in columns.items()})
        for number, path in enumerate(files["path"].to_pylist())
    ]


def scan_spec(snapshot: Snapshot, schema: StructType, keys: KeyFilter | None, ranked: bool = False) -> ScanSpec:
    """How to read columns of the table."""
    return ScanSpec(
        data_store(snapshot), logical_schema(schema, mapping_mode(snapshot.protocol, snapshot.metadata)), keys, ranked
    )


def write_spec(snapshot: Snapshot) -> WriteSpec:
    """How to write data files of the table."""
    properties = snapshot.properties
    mode = mapping_mode(snapshot.protocol, snapshot.metadata)
    return WriteSpec(
        store=data_store(snapshot),
        schema=logical_schema(snapshot.schema, mode),
        stored=stored_schema(snapshot.data_schema),
        partition_columns=snapshot.partition_columns,
        stats=stats_columns(snapshot.data_schema, properties),
        required=tuple(_required(snapshot.schema)),
        codec=properties.compression,
        prefix_length=properties.prefix_length(mode is not MappingMode.NONE),
    )


_NAME_TOKEN = re.compile(r"`((?:[^`]|``)*)`|([^`.,\s][^`.,]*)|([.,])")
_WITHOUT_BOUNDS = ("boolean", "binary", "void", "variant")


def stats_columns(schema: StructType, properties: Properties) -> tuple[StatsColumn, ...]:
    """The columns of data files that get statistics: the first leaves, as many as the table's properties say, or those named.

    Source: delta-spark's StatisticsCollection.
    """
    leaves = list(_leaves(schema, ()))
    if properties.stats_columns is not None:
        wanted = _listed_names(properties.stats_columns.lower())
        folded = [(tuple(name.lower() for name in path), leaf) for path, leaf in leaves]
        return tuple(leaf for path, leaf in folded if any(path[: len(name)] == name for name in wanted))
    count = properties.indexed_columns
    return tuple(leaf for _, leaf in (leaves if count < 0 else leaves[:count]))


def _listed_names(text: str) -> list[tuple[str, ...]]:
    """The names in a comma-separated list, each as its parts; backquotes keep dots and commas within a part."""
    names: list[list[str]] = [[]]
    for quoted, plain, mark in _NAME_TOKEN.findall(text):
        if mark == ",":
            names.append([])
        elif not mark:
            names[-1].append(plain.strip() or quoted.replace("``", "`"))
    return [tuple(name) for name in names if name]


def _required(schema: StructType, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of the columns and nested fields that must not be null."""
    for field in schema:
        if not field.nullable:
            yield (*path, field.name)
        if isinstance(field.type, StructType):
            yield from _required(field.type, (*path, field.name))


def _leaves(
    schema: StructType, logical: tuple[str, ...], physical: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], StatsColumn]]:
    for field in schema:
        path, stored = (*logical, field.name), (*physical, field.physical_name)
        if isinstance(field.type, StructType):
            yield from _leaves(field.type, path, stored)
        else:
            bounded = not isinstance(field.type, ArrayType | MapType) and field.type.name not in _WITHOUT_BOUNDS
            yield path, StatsColumn(stored, arrow_type(field.type), bounded and "__COLLATIONS" not in field.metadata)
