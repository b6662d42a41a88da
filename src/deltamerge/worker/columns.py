"""From the columns that a data file has to the columns that the table's schema wants.

Missing columns and fields are null, narrower types are widened, physical names become logical ones.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

PHYSICAL = b"deltamerge:physical"


def physical_name(field: pa.Field) -> str:
    """The name under which a logical field stands in data files."""
    metadata = field.metadata or {}
    return metadata[PHYSICAL].decode() if PHYSICAL in metadata else str(field.name)


def conform_table(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """A table read from a data file, by physical names, as one of exactly `schema`, by logical names."""
    columns = []
    for field in schema:
        at = table.schema.get_field_index(physical_name(field))
        if at < 0:
            columns.append(pa.nulls(table.num_rows, field.type))
        else:
            columns.append(conform(table.column(at), field.type))
    return pa.table(columns, schema=schema)


def conform(values: Any, type: pa.DataType) -> Any:
    """An array or chunked array as one of `type`, nested fields matched by physical name."""
    if values.type.equals(type):
        return values
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([conform(chunk, type) for chunk in values.chunks], type)
    if pa.types.is_dictionary(values.type):
        return conform(values.dictionary_decode(), type)
    if pa.types.is_struct(type):
        return _struct(values, type)
    if pa.types.is_list(type) and (pa.types.is_list(values.type) or pa.types.is_large_list(values.type)):
        items = conform(values.values, type.value_type)
        return pa.ListArray.from_arrays(_offsets(values), items, type=type, mask=_mask(values))
    if pa.types.is_map(type) and pa.types.is_map(values.type):
        keys, items = conform(values.keys, type.key_type), conform(values.items, type.item_type)
        return pa.MapArray.from_arrays(_offsets(values), keys, items, type=type, mask=_mask(values))
    if pa.types.is_timestamp(type) and pa.types.is_timestamp(values.type):
        return pc.cast(values, pa.timestamp(values.type.unit, type.tz)).cast(type, safe=False)
    return values.cast(type)


def _struct(values: pa.StructArray, type: pa.StructType) -> pa.StructArray:
    children = []
    for field in type:
        at = values.type.get_field_index(physical_name(field))
        if at < 0:
            children.append(pa.nulls(len(values), field.type))
        else:
            children.append(conform(values.field(at), field.type))
    return pa.StructArray.from_arrays(children, fields=list(type), mask=_mask(values))


def _offsets(values: Any) -> pa.Array:
    # A mask can't be combined with a slice of offsets; the sum is no slice.
    return pc.add(values.offsets, 0).cast(pa.int32())


def _mask(values: pa.Array) -> pa.Array | None:
    return pc.is_null(values) if values.null_count else None


def renamed_table(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The same columns under the names of `schema`, nested ones too, matched by position."""
    if table.schema.equals(schema):
        return table
    columns = [
        pa.chunked_array([_renamed(chunk, field.type) for chunk in column.chunks], field.type)
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return pa.table(columns, schema=schema)


def _renamed(values: pa.Array, type: pa.DataType) -> pa.Array:
    if values.type.equals(type):
        return values
    if pa.types.is_struct(type):
        children = [_renamed(values.field(i), type[i].type) for i in range(type.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(type), mask=_mask(values))
    if pa.types.is_list(type):
        items = _renamed(values.values, type.value_type)
        return pa.ListArray.from_arrays(_offsets(values), items, type=type, mask=_mask(values))
    if pa.types.is_map(type):
        keys, items = _renamed(values.keys, type.key_type), _renamed(values.items, type.item_type)
        return pa.MapArray.from_arrays(_offsets(values), keys, items, type=type, mask=_mask(values))
    return values.cast(type)
