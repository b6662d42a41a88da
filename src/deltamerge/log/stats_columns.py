"""Statistics and partition values of files as the typed structs of a checkpoint, made from their texts.

Source: PROTOCOL.md, "Checkpoints" (`stats_parsed`, `partitionValues_parsed`); delta-spark's StatisticsCollection.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.log.files import FileChunk
from deltamerge.log.statistics import nested_type, stats_leaves
from deltamerge.protocol.partitions import parse_partition_values
from deltamerge.protocol.properties import Properties
from deltamerge.protocol.schema import ArrayType, MapType, PrimitiveType, StructField, StructType, arrow_type

Names = tuple[str, ...]

_UNBOUNDED = frozenset({"boolean", "binary", "void", "variant"})


@dataclass(frozen=True, slots=True)
class StatsLeaf:
    """A column with statistics: its path in the files, and the type of its bounds (None: only nulls are counted)."""

    path: Names
    type: pa.DataType | None


def leaves_of(schema: StructType, partition_columns: tuple[str, ...], properties: Properties) -> list[StatsLeaf]:
    """The columns of data files that get statistics by the table's properties."""
    fields = StructType(tuple(field for field in schema if field.name not in partition_columns))
    found = list(_leaves(fields, (), ()))
    if properties.stats_columns is not None:
        wanted = [tuple(name.strip().strip("`").split(".")) for name in properties.stats_columns.split(",")]
        return [leaf for logical, leaf in found if any(logical[: len(name)] == name for name in wanted)]
    count = properties.indexed_columns
    return [leaf for _, leaf in (found if count < 0 else found[:count])]


def _leaves(schema: StructType, logical: Names, physical: Names) -> Iterator[tuple[Names, StatsLeaf]]:
    for field in schema:
        path, stored = (*logical, field.name), (*physical, field.physical_name)
        if isinstance(field.type, StructType):
            yield from _leaves(field.type, path, stored)
        else:
            yield path, StatsLeaf(stored, _bound_type(field))


def _bound_type(field: StructField) -> pa.DataType | None:
    if isinstance(field.type, ArrayType | MapType) or not isinstance(field.type, PrimitiveType):
        return None
    return None if field.type.name in _UNBOUNDED else arrow_type(field.type)


def stats_type(leaves: list[StatsLeaf]) -> pa.StructType:
    """The type of `stats_parsed`."""
    bounds = {leaf.path: leaf.type for leaf in leaves if leaf.type is not None}
    counts = {leaf.path: pa.int64() for leaf in leaves}
    fields = [pa.field("numRecords", pa.int64())]
    fields += [pa.field(name, nested_type(bounds)) for name in ("minValues", "maxValues") if bounds]
    fields += [pa.field("nullCount", nested_type(counts))] if counts else []
    return pa.struct([*fields, pa.field("tightBounds", pa.bool_())])


def stats_structs(chunk: FileChunk, leaves: list[StatsLeaf]) -> pa.StructArray:
    """The statistics of each file as `stats_type` has them; null for a file without any."""
    found = stats_leaves(chunk, {leaf.path: leaf.type for leaf in leaves}, with_tight=True)
    type = stats_type(leaves)
    known = chunk.table["stats"].combine_chunks().is_valid() if chunk.parsed is None else chunk.parsed.is_valid()
    return _built(type, (), found, pc.invert(known))


def partition_structs(chunk: FileChunk, schema: StructType) -> pa.StructArray:
    """The partition values of each file by physical names, typed. Raises CorruptTableError for a value that is none."""
    values = chunk.table["partitionValues"].combine_chunks()
    columns = []
    for field in schema:
        texts = pc.map_lookup(values, pa.scalar(field.physical_name), "first").dictionary_encode()
        columns.append(parse_partition_values(texts.dictionary, arrow_type(field.type)).take(texts.indices))
    return pa.StructArray.from_arrays(columns, fields=list(partition_type(schema)))


def partition_type(schema: StructType) -> pa.StructType:
    """The type of `partitionValues_parsed`."""
    return pa.struct([(field.physical_name, arrow_type(field.type)) for field in schema])


def _built(type: pa.StructType, path: Names, found: Mapping[Names, pa.Array], mask: pa.Array | None = None) -> pa.StructArray:
    arrays = [
        _built(field.type, (*path, field.name), found) if pa.types.is_struct(field.type) else found[*path, field.name]
        for field in type
    ]
    return pa.StructArray.from_arrays(arrays, fields=list(type), mask=mask)
