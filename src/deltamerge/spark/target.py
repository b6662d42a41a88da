"""A table's files and schema as its workers need them: what to read, how to write."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.log.files import FileChunk
from deltamerge.log.snapshot import Snapshot
from deltamerge.log.statistics import row_counts
from deltamerge.protocol.actions import DeletionVector
from deltamerge.protocol.column_mapping import MappingMode, logical_schema, mapping_mode, stored_schema
from deltamerge.protocol.deletion_vector import vector_reference
from deltamerge.protocol.partitions import decode_path, parse_partition_values
from deltamerge.protocol.properties import Properties
from deltamerge.protocol.schema import ArrayType, MapType, StructType, arrow_type
from deltamerge.storage import Store, locate
from deltamerge.worker.keys import KeyFilter
from deltamerge.worker.scan import FileTask, ScanSpec
from deltamerge.worker.stats import StatsColumn
from deltamerge.worker.store import DataStore
from deltamerge.worker.vectors import Vector
from deltamerge.worker.write import WriteSpec


@lru_cache(maxsize=64)
def data_store(store: Store) -> DataStore:
    """A store as a worker reaches it; the same object for the same store, so that connections are shared."""
    return DataStore(store.spec.scheme, store.spec.root, store.spec.options)


def file_tasks(snapshot: Snapshot, files: pa.Table, zone: str = "UTC", counted: bool = False) -> list[FileTask]:
    """A task per row of a file table, numbered by the row; `counted` ones know the file's rows if its statistics do.

    Raises CorruptTableError for a partition value or a deletion vector's descriptor that can't be.
    """
    partitions = files["partitionValues"].combine_chunks()
    columns = {}
    for field in snapshot.partition_schema:
        texts = pc.map_lookup(partitions, pa.scalar(field.physical_name), "first")
        columns[field.name] = parse_partition_values(texts, arrow_type(field.type), zone)
    vectors = _vectors(snapshot.store, files)
    rows = row_counts(FileChunk(files.combine_chunks())).to_pylist() if counted else [None] * files.num_rows
    return [
        FileTask(
            number,
            decode_path(path),
            {name: values[number] for name, values in columns.items()},
            vector=vectors.get(number),
            rows=rows[number],
        )
        for number, path in enumerate(files["path"].to_pylist())
    ]


def _vectors(store: Store, files: pa.Table) -> dict[int, Vector]:
    """The deletion vectors of the files that have one, by the files' rows. Raises CorruptTableError."""
    descriptors = files["deletionVector"].combine_chunks()
    numbers = pc.indices_nonzero(descriptors.is_valid())
    found: dict[int, Vector] = {}
    own = data_store(store)
    for number, path, value in zip(
        numbers.to_pylist(), files["path"].take(numbers).to_pylist(), descriptors.take(numbers).to_pylist(), strict=True
    ):
        descriptor = DeletionVector.from_json(value)
        reference = vector_reference(descriptor, path)
        if reference is None:
            found[number] = Vector(descriptor)
        else:
            place, name = locate(store, reference)
            found[number] = Vector(descriptor, own if place is store else data_store(place), name)
    return found


def scan_spec(snapshot: Snapshot, schema: StructType, keys: KeyFilter | None, ranked: bool = False) -> ScanSpec:
    """How to read columns of the table."""
    mode = mapping_mode(snapshot.protocol, snapshot.metadata)
    return ScanSpec(data_store(snapshot.store), logical_schema(schema, mode), keys, ranked)


def write_spec(snapshot: Snapshot) -> WriteSpec:
    """How to write data files of the table."""
    properties = snapshot.properties
    mode = mapping_mode(snapshot.protocol, snapshot.metadata)
    return WriteSpec(
        store=data_store(snapshot.store),
        schema=logical_schema(snapshot.schema, mode),
        stored=stored_schema(snapshot.data_schema),
        partition_columns=snapshot.partition_columns,
        stats=stats_columns(snapshot.data_schema, properties),
        required=tuple(_required(snapshot.schema)),
        lengths=_lengths(snapshot.schema),
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


_SIZED_TEXT = re.compile(r"(?:var)?char\((\d+)\)")


def _lengths(schema: StructType) -> dict[str, int]:
    """The most characters that each CHAR and VARCHAR column holds."""
    found = {f.name: _SIZED_TEXT.fullmatch(str(f.metadata.get("__CHAR_VARCHAR_TYPE_STRING", ""))) for f in schema}
    return {name: int(match[1]) for name, match in found.items() if match}


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
