"""A table's files and schema as its workers need them: what to read, how to write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.budgets import DEFAULTS, Budgets, current_budgets
from deltamerge.errors import CorruptTableError
from deltamerge.log.commit.clustering import clustering_columns
from deltamerge.log.commit.stats_columns import bound_type, indexed_fields
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.protocol.schema.char_varchar import ELEMENT, KEY, VALUE, TextPath, char_varchars
from deltamerge.protocol.schema.types import ArrayType, DataType, MapType, StructType, arrow_type
from deltamerge.protocol.table.actions import DeletionVector
from deltamerge.protocol.table.column_mapping import MappingMode, logical_schema, mapping_mode, stored_schema
from deltamerge.protocol.table.deletion_vector import vector_reference
from deltamerge.protocol.table.identity import is_identity
from deltamerge.protocol.table.properties import Properties
from deltamerge.protocol.values.partitions import decode_path, parse_partition_values
from deltamerge.protocol.values.predicate import Predicate
from deltamerge.storage import Store, locate
from deltamerge.storage.location import is_absolute
from deltamerge.worker.scan.scan import FileTask, ScanSpec
from deltamerge.worker.scan.store import DataStore
from deltamerge.worker.scan.vectors import Vector
from deltamerge.worker.skipping.bloom import BloomFilter
from deltamerge.worker.skipping.keys import ExactFilter
from deltamerge.worker.write.file_options import UNSAID, FileOptions
from deltamerge.worker.write.stats import StatsColumn
from deltamerge.worker.write.write import WriteSpec


@lru_cache(maxsize=64)
def data_store(store: Store) -> DataStore:
    """A store as a worker reaches it; the same object for the same store, so that connections are shared."""
    return DataStore(store.spec.scheme, store.spec.root, store.spec.options)


def file_tasks(
    snapshot: Snapshot, files: pa.Table, zone: str = "UTC", rows: pa.Array | None = None, tracked: bool = False
) -> list[FileTask]:
    """A task per row of a file table, numbered by the row; with the `rows` of each file where these are known, `tracked` ones
    with the ids of its rows.

    Raises CorruptTableError for a partition value or a deletion vector's descriptor that can't be, or a file without row ids,
    StorageError for a file in a place that the user has not named.
    """
    partitions = _partitions(snapshot, files, zone)
    vectors = _vectors(snapshot.store, files)
    counts = [None] * files.num_rows if rows is None else rows.to_pylist()
    ids, versions = row_ids_of(files) if tracked else ([None] * files.num_rows,) * 2
    places = [file_place(snapshot.store, path) for path in files["path"].to_pylist()]
    return [
        FileTask(
            number,
            name,
            partitions[number],
            vector=vectors.get(number),
            rows=counts[number],
            base_row_id=ids[number],
            row_version=versions[number],
            size=size,
            store=store,
        )
        for number, ((name, store), size) in enumerate(zip(places, files["size"].to_pylist(), strict=True))
    ]


def _partitions(snapshot: Snapshot, files: pa.Table, zone: str) -> list[Mapping[str, pa.Scalar]]:
    """The typed partition values of each row of a file table; files of one partition share them. Raises CorruptTableError."""
    texts = [text.dictionary_encode("encode") for text in _partition_texts(snapshot, files)]
    columns = _typed(snapshot, [text.dictionary for text in texts], zone)
    codes = zip(*(text.indices.to_pylist() for text in texts), strict=True) if texts else [()] * files.num_rows
    known: dict[tuple[int, ...], Mapping[str, pa.Scalar]] = {}
    found = []
    for code in codes:
        if code not in known:
            known[code] = {name: values[number] for (name, values), number in zip(columns.items(), code, strict=True)}
        found.append(known[code])
    return found


def partition_columns(snapshot: Snapshot, files: pa.Table, zone: str = "UTC") -> dict[str, pa.Array]:
    """The partition columns with their typed values for each row of a file table. Raises CorruptTableError."""
    return _typed(snapshot, _partition_texts(snapshot, files), zone)


def _typed(snapshot: Snapshot, texts: Sequence[pa.Array], zone: str) -> dict[str, pa.Array]:
    """The partition columns with the values of the texts that the log has for each. Raises CorruptTableError."""
    columns = zip(snapshot.partition_schema, texts, strict=True)
    return {field.name: parse_partition_values(found, arrow_type(field.type), zone) for field, found in columns}


def _partition_texts(snapshot: Snapshot, files: pa.Table) -> list[pa.Array]:
    partitions = files["partitionValues"].combine_chunks()
    return [pc.map_lookup(partitions, pa.scalar(field.physical_name), "first") for field in snapshot.partition_schema]


def file_place(store: Store, path: str) -> tuple[str, DataStore | None]:
    """The name of a data file that the log of the table in `store` has at `path`, and the store in which it has that name if it
    lies outside the table.

    Raises StorageError for a place that the user has not named.
    """
    if not is_absolute(path):
        return decode_path(path), None
    place, name = locate(store, path)
    return name, data_store(place)


def row_ids_of(files: pa.Table) -> tuple[list[int], list[int]]:
    """The id of each file's first row, and the version that committed the file."""
    ids, versions = files["baseRowId"].to_pylist(), files["defaultRowCommitVersion"].to_pylist()
    for path, id, version in zip(files["path"].to_pylist(), ids, versions, strict=True):
        if id is None or version is None:
            raise CorruptTableError(
                "DELTAMERGE_FILE_WITHOUT_ROW_IDS",
                f"The table tracks its rows, but its file {path} has no baseRowId or no defaultRowCommitVersion.",
                parameters={"path": path},
                hint="A writer without support for row tracking added it; take delta.enableRowTracking from the table.",
            )
    return ids, versions


def _vectors(store: Store, files: pa.Table) -> dict[int, Vector]:
    """The deletion vectors of the files that have one, by the files' rows. Raises CorruptTableError."""
    descriptors = files["deletionVector"].combine_chunks()
    numbers = pc.indices_nonzero(descriptors.is_valid())
    found: dict[int, Vector] = {}
    for number, path, value in zip(
        numbers.to_pylist(), files["path"].take(numbers).to_pylist(), descriptors.take(numbers).to_pylist(), strict=True
    ):
        vector = vector_at(store, DeletionVector.from_json(value), path)
        assert vector is not None
        found[number] = vector
    return found


def vector_at(store: Store, descriptor: DeletionVector | None, path: str) -> Vector | None:
    """The deletion vector of the data file at `path` as a worker finds it. Raises CorruptTableError for a broken descriptor."""
    if descriptor is None:
        return None
    reference = vector_reference(descriptor, path)
    if reference is None:
        return Vector(descriptor)
    place, name = locate(store, reference)
    return Vector(descriptor, data_store(place), name)


def scan_spec(
    snapshot: Snapshot,
    schema: StructType,
    keys: ExactFilter | BloomFilter | None,
    with_key_ids: bool = False,
    others: Predicate | None = None,
    padded: bool = True,
) -> ScanSpec:
    """How to read columns of the table: the rows that pass the keys, and `others` for which a predicate may hold.

    CHAR values are `padded` with blanks.
    """
    mode = mapping_mode(snapshot.protocol, snapshot.metadata)
    widths = tuple((text.path, text.length) for text in char_varchars(schema) if text.padded and padded)
    return ScanSpec(
        data_store(snapshot.store),
        logical_schema(schema, mode),
        keys,
        with_key_ids,
        others,
        widths,
        rows_per_chunk=current_budgets().rows_per_chunk,
    )


def write_spec(snapshot: Snapshot, budgets: Budgets = DEFAULTS, limited: bool = True, files: FileOptions = UNSAID) -> WriteSpec:
    """How to write data files of the table, `files` as it is asked; the lengths of CHAR and VARCHAR bind where `limited`."""
    properties = snapshot.properties
    mode = mapping_mode(snapshot.protocol, snapshot.metadata)
    stats = stats_columns(snapshot.data_schema, properties, clustering_columns(snapshot))
    return WriteSpec(
        store=data_store(snapshot.store),
        schema=logical_schema(snapshot.schema, mode),
        stored=stored_schema(snapshot.data_schema),
        partition_columns=snapshot.partition_columns,
        stats=_with_identities(stats, snapshot.data_schema),
        required=tuple(_required(snapshot.schema)),
        elements=tuple(null_free(snapshot.schema)),
        lengths=tuple((text.path, text.length) for text in char_varchars(snapshot.schema) if limited),
        codec=files.codec or properties.compression or "snappy",
        target_bytes=properties.target_file_size,
        most_rows=files.most_rows or 0,
        prefix_length=properties.prefix_length(mode is not MappingMode.NONE),
        budgets=budgets,
    )


def stats_columns(
    schema: StructType, properties: Properties, clustered: Sequence[tuple[str, ...]] = ()
) -> tuple[StatsColumn, ...]:
    """The columns of data files that get statistics, as `indexed_fields` of the log gives them."""
    indexed = indexed_fields(schema, properties, clustered)
    return tuple(StatsColumn(path, arrow_type(field.type), bound_type(field) is not None) for path, field in indexed)


def _with_identities(columns: tuple[StatsColumn, ...], schema: StructType) -> tuple[StatsColumn, ...]:
    """The columns and, so that their high-water marks are known after a write, all identity columns."""
    known = {column.path for column in columns}
    identities = (StatsColumn((field.physical_name,), arrow_type(field.type), True) for field in schema if is_identity(field))
    return (*columns, *(column for column in identities if column.path not in known))


def _required(schema: StructType, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of the columns and nested fields that must not be null."""
    for field in schema:
        if not field.nullable:
            yield (*path, field.name)
        if isinstance(field.type, StructType):
            yield from _required(field.type, (*path, field.name))


def null_free(type: DataType, path: TextPath = (), is_within: bool = False) -> Iterator[TextPath]:
    """The paths of what is in arrays and maps and must not be null: elements, values, and fields of structs there."""
    if isinstance(type, StructType):
        for field in type:
            if is_within and not field.nullable:
                yield (*path, field.name)
            yield from null_free(field.type, (*path, field.name), is_within)
    elif isinstance(type, ArrayType):
        if not type.contains_null:
            yield (*path, ELEMENT)
        yield from null_free(type.element, (*path, ELEMENT), is_within=True)
    elif isinstance(type, MapType):
        if not type.value_contains_null:
            yield (*path, VALUE)
        yield from null_free(type.key, (*path, KEY), is_within=True)
        yield from null_free(type.value, (*path, VALUE), is_within=True)
