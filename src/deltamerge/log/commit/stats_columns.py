"""Statistics and partition values of files as the typed structs of a checkpoint, made from their texts.

Source: PROTOCOL.md, "Checkpoints" (`stats_parsed`, `partitionValues_parsed`); delta-spark's StatisticsCollection.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.errors import CorruptTableError
from deltamerge.log.replay.files import FileChunk
from deltamerge.log.skipping.statistics import OFFSET, stats_leaves
from deltamerge.log.stats.json_leaves import nested_type
from deltamerge.log.stats.struct import whole
from deltamerge.protocol.schema.types import ArrayType, MapType, PrimitiveType, StructField, StructType, arrow_type
from deltamerge.protocol.table.properties import Properties
from deltamerge.protocol.values.partitions import parse_partition_values

Names = tuple[str, ...]

_NAME_TOKEN = re.compile(r"`((?:[^`]|``)*)`|([^`.,\s][^`.,]*)|([.,])")
_UNBOUNDED = frozenset({"boolean", "binary", "void", "variant"})


@dataclass(frozen=True, slots=True)
class StatsLeaf:
    """A column with statistics: its path in the files, and the type of its bounds (None: only nulls are counted)."""

    path: Names
    type: pa.DataType | None


def leaves_of(schema: StructType, properties: Properties, clustered: Sequence[Names] = ()) -> list[StatsLeaf]:
    """The columns of data files that get statistics, as `indexed_fields` gives them."""
    return [StatsLeaf(path, bound_type(field)) for path, field in indexed_fields(schema, properties, clustered)]


def indexed_fields(
    schema: StructType, properties: Properties, clustered: Sequence[Names] = ()
) -> list[tuple[Names, StructField]]:
    """The leaves of data files that get statistics, by their paths: as many as the properties say, or those that they name.

    Columns that the table is `clustered` by, given by physical paths, always do. Source: delta-spark's
    StatisticsCollection; PROTOCOL.md, "Writer Requirements for Clustered Table".
    """
    leaves = list(_leaves(schema, (), ()))
    count, listed = properties.indexed_columns, properties.stats_columns
    wanted = None if listed is None else _listed_names(listed.lower())
    found = []
    for number, (logical, path, field) in enumerate(leaves):
        named = wanted is not None and any(logical[: len(name)] == name for name in wanted)
        if named or (wanted is None and not 0 <= count <= number) or path in clustered:
            found.append((path, field))
    return found


def _leaves(schema: StructType, logical: Names, physical: Names) -> Iterator[tuple[Names, Names, StructField]]:
    """The logical path, in lower case, and the physical one of each leaf, with its field."""
    for field in schema:
        name, path = (*logical, field.name.lower()), (*physical, field.physical_name)
        if isinstance(field.type, StructType):
            yield from _leaves(field.type, name, path)
        else:
            yield name, path, field


def _listed_names(text: str) -> list[Names]:
    """The names in a comma-separated list, each as its parts; backquotes keep dots and commas within a part."""
    names: list[list[str]] = [[]]
    for quoted, plain, mark in _NAME_TOKEN.findall(text):
        if mark == ",":
            names.append([])
        elif not mark:
            names[-1].append(plain.strip() or quoted.replace("``", "`"))
    return [tuple(name) for name in names if name]


def bound_type(field: StructField) -> pa.DataType | None:
    """The type of a leaf's bounds; None for one of which only nulls are counted."""
    if isinstance(field.type, ArrayType | MapType) or not isinstance(field.type, PrimitiveType):
        return None
    unbounded = field.type.name in _UNBOUNDED or "__COLLATIONS" in field.metadata
    return None if unbounded else arrow_type(field.type)


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
    known = whole(chunk.table["stats"]).is_valid() if chunk.parsed is None else chunk.parsed.is_valid()
    return _built(type, (), found, pc.invert(known))


def partition_structs(chunk: FileChunk, schema: StructType) -> pa.StructArray:
    """The partition values of each file by physical names, typed.

    Raises CorruptTableError for a value that is none, and for a time that is a moment only in the zone of who reads it.
    """
    values = whole(chunk.table["partitionValues"])
    columns = []
    for field in schema:
        texts = pc.map_lookup(values, pa.scalar(field.physical_name), "first").dictionary_encode()
        type = arrow_type(field.type)
        if pa.types.is_timestamp(type) and type.tz and _lacks_offset(texts.dictionary):
            raise CorruptTableError(
                "DELTAMERGE_CORRUPT_PARTITION_VALUE",
                f"A value of the partition column {field.name} has no offset from UTC.",
                parameters={"column": field.name},
            )
        columns.append(parse_partition_values(texts.dictionary, type).take(texts.indices))
    return pa.StructArray.from_arrays(columns, fields=list(partition_type(schema)))


def _lacks_offset(texts: pa.Array) -> bool:
    """Whether some text, an empty one aside, which is null, has no offset from UTC."""
    told = pc.or_(pc.match_substring_regex(texts, OFFSET), pc.equal(texts, ""))
    return not pc.all(told, min_count=0).as_py()


def partition_type(schema: StructType) -> pa.StructType:
    """The type of `partitionValues_parsed`."""
    return pa.struct([(field.physical_name, arrow_type(field.type)) for field in schema])


def _built(type: pa.StructType, path: Names, found: Mapping[Names, pa.Array], mask: pa.Array | None = None) -> pa.StructArray:
    arrays = [
        _built(field.type, (*path, field.name), found) if pa.types.is_struct(field.type) else found[*path, field.name]
        for field in type
    ]
    return pa.StructArray.from_arrays(arrays, fields=list(type), mask=mask)
