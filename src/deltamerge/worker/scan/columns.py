"""From the columns that a data file has to the columns that the table's schema wants, and back.

Columns and fields are found by Parquet field id, physical name or name, as the schema's fields say; missing ones are null,
narrower types are widened. Source: PROTOCOL.md, "Reader Requirements for Column Mapping" and "... for Type Widening".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltamerge.protocol.schema.char_varchar import ELEMENT, KEY, VALUE, TextPath
from deltamerge.protocol.table.column_mapping import FIELD_ID, PARQUET_ID, PHYSICAL
from deltamerge.protocol.values.variant import STORED_VARIANT, is_variant
from deltamerge.worker.scan.conversions import cast, converted
from deltamerge.worker.scan.row_errors import Refused
from deltamerge.worker.scan.variants import is_shredded, required, unshredded


def physical_name(field: pa.Field) -> str:
    """The name under which a logical field stands in data files."""
    metadata = field.metadata or {}
    return metadata[PHYSICAL].decode() if PHYSICAL in metadata else str(field.name)


def place(field: pa.Field, stored: Iterable[pa.Field]) -> int | None:
    """Where among the fields of a file, or of a struct in it, a logical field is; None when it is missing.

    By its id when it has one, else by its physical name: as it is spelled, or as Spark would find it whatever the case.
    Raises Refused when several fields could be meant.
    """
    wanted = (field.metadata or {}).get(FIELD_ID)
    if wanted is not None:
        found = [i for i, other in enumerate(stored) if (other.metadata or {}).get(PARQUET_ID) == wanted]
    else:
        name = physical_name(field)
        names = [str(other.name) for other in stored]
        found = [i for i, other in enumerate(names) if other == name]
        found = found or [i for i, other in enumerate(names) if other.lower() == name.lower()]
    if len(found) > 1:
        message = f"Several columns of the data file could be the column {physical_name(field)!r}."
        raise Refused("DELTAMERGE_AMBIGUOUS_COLUMN", message)
    return found[0] if found else None


def stored_names(file: pq.ParquetFile, schema: pa.Schema) -> list[str]:
    """The names of the columns that an open file has for the fields of `schema`.

    Raises Refused when the schema finds columns by id and the file has none: all would look null.
    """
    fields = list(file.schema_arrow)
    if any(FIELD_ID in (field.metadata or {}) for field in schema) and not any(PARQUET_ID in (f.metadata or {}) for f in fields):
        message = "The data file has no field ids, by which the table's column mapping finds its columns."
        raise Refused("DELTAMERGE_MISSING_FIELD_IDS", message)
    places = [place(field, fields) for field in schema]
    return [fields[at].name for at in places if at is not None]


def conform_table(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """A table read from a data file, by physical names, as one of exactly `schema`, by logical names.

    Raises Refused naming the column that the file holds as something else.
    """
    columns = []
    for field in schema:
        at = place(field, table.schema)
        if at is None:
            columns.append(pa.nulls(table.num_rows, field.type))
        else:
            columns.append(_conformed(table.column(at), field))
    return pa.table(columns, schema=schema)


def _conformed(values: Any, field: pa.Field) -> Any:
    try:
        return conform(values, field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        message = f"The column {field.name!r} of the data file, which holds {values.type}, is not read as {field.type}: {error}."
        raise Refused("DELTAMERGE_CORRUPT_DATA_FILE", message) from error


def conform(values: Any, type: pa.DataType) -> Any:
    """An array or chunked array as one of `type`, nested fields found as `place` does. Raises as `converted`."""
    if values.type.equals(type) and not _mapped(type):
        return values
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([conform(chunk, type) for chunk in values.chunks], type)
    if pa.types.is_dictionary(values.type):
        return conform(values.dictionary_decode(), type)
    if isinstance(values, pa.ExtensionArray):
        return conform(values.storage, type)
    if is_variant(type) and is_shredded(values.type):
        return unshredded(values)
    if pa.types.is_struct(type) and pa.types.is_struct(values.type):
        return _struct(values, type)
    if pa.types.is_list(type) and (pa.types.is_list(values.type) or pa.types.is_large_list(values.type)):
        items = conform(values.values, type.value_type)
        return pa.ListArray.from_arrays(_offsets(values), items, type=type, mask=_mask(values))
    if pa.types.is_list(type) and _is_list_of_another_form(values.type):
        items = conform(values.flatten(), type.value_type)
        return pa.ListArray.from_arrays(_offsets_by_length(values), items, type=type, mask=_mask(values))
    if pa.types.is_map(type) and pa.types.is_map(values.type):
        keys, items = conform(values.keys, type.key_type), conform(values.items, type.item_type)
        return pa.MapArray.from_arrays(_offsets(values), keys, items, type=type, mask=_mask(values))
    return converted(values, type)


def within(values: Any, path: TextPath) -> Any:
    """What a chunked array holds at a path within it; nothing of values whose parent is null."""
    for step in path:
        type = values.type
        if pa.types.is_struct(type):
            values = pc.struct_field(values, [type.get_field_index(step)])
        else:
            if pa.types.is_map(type):
                parts = [chunk.keys if step == KEY else chunk.items for chunk in values.chunks]
                lists = [
                    pa.ListArray.from_arrays(_offsets(chunk), part, mask=_mask(chunk))
                    for chunk, part in zip(values.chunks, parts, strict=True)
                ]
                values = pa.chunked_array(lists, pa.list_(type.key_type if step == KEY else type.item_type))
            values = pc.list_flatten(values)
    return values


def padded(values: Any, lengths: Sequence[tuple[TextPath, int]]) -> Any:
    """An array or chunked array whose texts at the given paths are filled up with blanks to their lengths."""
    type = values.type

    def below(part: Any, step: str) -> Any:
        return padded(part, [(path[1:], length) for path, length in lengths if path[0] == step])

    if not lengths:
        return values
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([padded(chunk, lengths) for chunk in values.chunks], type)
    if pa.types.is_struct(type):
        children = [below(values.field(at), field.name) for at, field in enumerate(type)]
        return pa.StructArray.from_arrays(children, fields=list(type), mask=_mask(values))
    if pa.types.is_list(type):
        return pa.ListArray.from_arrays(_offsets(values), below(values.values, ELEMENT), type=type, mask=_mask(values))
    if pa.types.is_map(type):
        keys, items = below(values.keys, KEY), below(values.items, VALUE)
        return pa.MapArray.from_arrays(_offsets(values), keys, items, type=type, mask=_mask(values))
    return pc.utf8_rpad(values, lengths[0][1])


def _mapped(type: pa.DataType) -> bool:
    """Whether fields within a type go by other names or ids in files; equal types don't tell."""
    fields = [type.field(i) for i in range(type.num_fields)] if pa.types.is_nested(type) else []
    return any(PHYSICAL in (field.metadata or {}) or _mapped(field.type) for field in fields)


def _struct(values: pa.StructArray, type: pa.StructType) -> pa.StructArray:
    children = []
    stored = list(values.type)
    for field in type:
        at = place(field, stored)
        children.append(pa.nulls(len(values), field.type) if at is None else conform(values.field(at), field.type))
    return pa.StructArray.from_arrays(children, fields=list(type), mask=_mask(values))


def _offsets(values: Any) -> pa.Array:
    # A mask can't be combined with a slice of offsets; the sum is no slice.
    return pc.add(values.offsets, 0).cast(pa.int32())


def _is_list_of_another_form(type: pa.DataType) -> bool:
    return bool(pa.types.is_fixed_size_list(type) or pa.types.is_list_view(type) or pa.types.is_large_list_view(type))


def _offsets_by_length(values: Any) -> pa.Array:
    """The offsets of lists whose items stand one after another, as `flatten` gives them."""
    lengths = pc.fill_null(pc.list_value_length(values), 0).cast(pa.int32())
    return pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum_checked(lengths)])


def _mask(values: pa.Array) -> pa.Array | None:
    return pc.is_null(values) if values.null_count else None


def stored_table(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows by logical names as a data file has them: the fields of `schema` in the same order, without void ones."""
    if table.schema.equals(schema):
        return table
    present = [column for column in table.columns if not pa.types.is_null(column.type)]
    columns = [
        pa.chunked_array([_stored(chunk, field.type) for chunk in column.chunks], field.type)
        for column, field in zip(present, schema, strict=True)
    ]
    return pa.table(columns, schema=schema)


def required_variants(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with its variants as Spark takes them: of no variant is a binary null, also where the variant itself is."""
    columns = [
        pa.chunked_array([_stored(chunk, field.type) for chunk in column.chunks], field.type)
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return pa.table(columns, schema=schema)


def _stored(values: pa.Array, type: pa.DataType) -> pa.Array:
    if type.equals(STORED_VARIANT):
        return required(values, type)
    if values.type.equals(type):
        return values
    if pa.types.is_struct(type):
        all_of_it = values.type.num_fields == type.num_fields
        present = [i for i, field in enumerate(values.type) if all_of_it or not pa.types.is_null(field.type)]
        children = [_stored(values.field(i), field.type) for i, field in zip(present, type, strict=True)]
        return pa.StructArray.from_arrays(children, fields=list(type), mask=_mask(values))
    if pa.types.is_list(type):
        items = _stored(values.values, type.value_type)
        return pa.ListArray.from_arrays(_offsets(values), items, type=type, mask=_mask(values))
    if pa.types.is_map(type):
        keys, items = _stored(values.keys, type.key_type), _stored(values.items, type.item_type)
        return pa.MapArray.from_arrays(_offsets(values), keys, items, type=type, mask=_mask(values))
    return cast(values, type)
