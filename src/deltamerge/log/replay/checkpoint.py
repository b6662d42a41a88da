"""Checkpoints, read into Arrow columns: classic, multi-part and V2 ones, with statistics as JSON or as structs.

Source: PROTOCOL.md, "Checkpoints", "Checkpoint Schema", "V2 Spec".
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.errors import CorruptTableError
from deltamerge.log.replay.commit_file import UNPARSABLE, cause_of, json_lines
from deltamerge.log.replay.files import (
    FILE_SCHEMA,
    TOMBSTONE_SCHEMA,
    VECTOR,
    FileChunk,
    checked_files,
    file_keys,
    last_of_each,
    repeats_key,
    table_of,
)
from deltamerge.log.replay.segment import LOG, CheckpointFiles
from deltamerge.log.stats.stored import STRUCTS, StoredFile, StoredStats, parsed_stats, valid
from deltamerge.log.stats.struct import json_texts, whole
from deltamerge.protocol.formats.decoded_size import OBJECT_TIMES, DecodedSize
from deltamerge.protocol.formats.parquet_file import ParquetFile
from deltamerge.protocol.formats.texts import holds_text
from deltamerge.protocol.table.actions import KINDS, Action, DomainMetadata, Txn, parse_action
from deltamerge.protocol.values.values import long
from deltamerge.storage import NotFound, Store

SIDECARS = f"{LOG}/_sidecars"

_KIND_OF = {type: kind for kind, type in KINDS.items()}
_SMALL = ("protocol", "metaData", "txn", "domainMetadata", "checkpointMetadata", "sidecar")
_TEXTS = ["path", "partitionValues", "deletionVector"]
_CHUNK_ROWS = 100_000
_MOST_CHUNKS = 8
_READERS = 4


@dataclass(frozen=True)
class CheckpointState:
    """What a checkpoint holds: live files, tombstones, and the other actions."""

    adds: tuple[FileChunk, ...]
    removes: pa.Table
    others: tuple[Action, ...]


@dataclass(frozen=True)
class _Part:
    """What one file of a checkpoint holds; `sidecars` are the names and sizes in bytes of the files that hold the rest."""

    adds: tuple[FileChunk, ...] = ()
    removes: pa.Table = field(default_factory=TOMBSTONE_SCHEMA.empty_table)
    others: tuple[Action, ...] = ()
    sidecars: tuple[tuple[str, int], ...] = ()
    version: int | None = None


def read_checkpoint(store: Store, files: CheckpointFiles) -> CheckpointState:
    """Read all files of a checkpoint. Raises CorruptTableError naming the file and, as `checkpoint`, its first file."""
    first, size = files.parts[0].name, DecodedSize()
    parts = _read_all(store, [(info.name, None) for info in files.parts], first, size)
    if any(part.version not in (None, files.version) for part in parts):
        raise _corrupt(store, first, first, f"its checkpointMetadata is not of version {files.version}")
    if files.has_uuid and parts[0].version is None:
        raise _corrupt(store, first, first, "it has no checkpointMetadata")
    sidecars = _read_all(store, [sidecar for part in parts for sidecar in part.sidecars], first, size)
    parts += sidecars
    try:
        if any(part.others or part.sidecars or part.version is not None for part in sidecars):
            raise ValueError("a sidecar holds an action that is about no file")
        chunks = tuple(_gathered([chunk for part in parts for chunk in part.adds]))
        removes = pa.concat_tables([part.removes for part in parts])
        others = tuple(action for part in parts for action in part.others)
        _check_reconciled(chunks, file_keys(removes), others)
    except ValueError as error:
        raise _corrupt(store, first, first, str(error)) from error
    return CheckpointState(chunks, removes, others)


def _check_reconciled(chunks: Sequence[FileChunk], removed: pa.Array, others: Sequence[Action]) -> None:
    """Raise ValueError for actions of which a later one replaces an earlier one: which it is a checkpoint does not tell. So it is
    with a file that is both added and removed.
    """
    known: dict[tuple[str, ...], Action] = {}
    for action in others:
        if known.setdefault(_subject(action), action) != action:
            raise ValueError(f"it was not reconciled, it has different actions of {' '.join(_subject(action))}")
    if len(removed) and any(pc.any(pc.is_in(chunk.keys, removed)).as_py() for chunk in chunks):
        raise ValueError("it was not reconciled, it holds a file both as added and as removed")


def _subject(action: Action) -> tuple[str, ...]:
    """What only one action of a version is about."""
    kind = _KIND_OF[type(action)]
    match action:
        case Txn(app_id=name) | DomainMetadata(domain=name):
            return kind, name
        case _:
            return (kind,)


def sidecars_of(store: Store, name: str) -> tuple[str, ...]:
    """The names of the sidecar files that a checkpoint file refers to. Raises CorruptTableError."""
    part = _read_file(store, name, None, name, DecodedSize(), ("checkpointMetadata", "sidecar"))
    return tuple(sidecar for sidecar, _ in part.sidecars)


def _read_all(store: Store, files: Sequence[tuple[str, int | None]], first: str, size: DecodedSize) -> list[_Part]:
    """What the files hold, each given by its name and, where it is known, its size in bytes."""
    if len(files) < 2:
        return [_read_file(store, name, told_bytes, first, size) for name, told_bytes in files]
    with ThreadPoolExecutor(_READERS) as pool:
        return list(pool.map(lambda file: _read_file(store, file[0], file[1], first, size), files))


def _read_file(
    store: Store,
    name: str,
    told_bytes: int | None,
    first: str,
    size: DecodedSize,
    columns: Sequence[str] = (*_SMALL, "add", "remove"),
) -> _Part:
    try:
        # To read a part of a file again pays on a disk, not on a store that is asked over a network.
        again = StoredFile.of(store, name) if store.spec.scheme == "file" else None
        data = store.read(name)
        if told_bytes not in (None, len(data)):
            raise ValueError(f"it has {len(data)} bytes, and the checkpoint says {told_bytes}")
        return _read_json(data) if name.endswith(".json") else _read_parquet(data, columns, again, size)
    except NotFound as error:
        raise _corrupt(store, name, first, "the file is missing") from error
    except (*UNPARSABLE, pa.ArrowException, OSError) as error:
        raise _corrupt(store, name, first, cause_of(error)) from error


def _read_json(data: bytes) -> _Part:
    found: dict[str, list[Any]] = {kind: [] for kind in (*_SMALL, "add", "remove")}
    for parsed in json_lines(data):
        for kind, value in parsed().items():
            if kind in found and value is not None:
                found[kind].append(value)
    adds = FileChunk(_checked(table_of(found["add"], FILE_SCHEMA)))
    return _small(found, (adds,), _checked(table_of(found["remove"], TOMBSTONE_SCHEMA)))


def _read_parquet(data: bytes, columns: Sequence[str], again: StoredFile | None, size: DecodedSize) -> _Part:
    file = ParquetFile(pa.BufferReader(data), coerce_int96_timestamp_unit="us", page_checksum_verification=True)
    schema = file.schema_arrow
    if not {*_SMALL, "add", "remove"} & set(schema.names):
        raise ValueError("it has no column for actions")
    if repeated := [kind for kind in columns if schema.names.count(kind) > 1]:
        raise ValueError(f"it has several columns {', '.join(repeated)}")
    leaves = _leaves(file, {name: kind for kind in columns for name in _wanted(schema, kind)})
    size.allow(len(data))
    adds, removes = [], [TOMBSTONE_SCHEMA.empty_table()]
    small: dict[str, list[Any]] = {kind: [] for kind in _SMALL}

    def read(names: Sequence[str], number: int) -> pa.Table:
        size.add_columns(data, file, names, number)
        found, rows = file.read_row_group(number, list(names)), file.metadata.row_group(number).num_rows
        if names and found.num_rows != rows:
            raise ValueError(f"{', '.join(names)} have {found.num_rows} of {rows} rows of a row group")
        return found

    for number in range(file.num_row_groups):
        # Most row groups hold one kind of action: a leaf of each tells which rows have it, if the footer doesn't contradict.
        there = read([path for _, path in leaves.values()], number)
        empty = {kind for kind in leaves if kind in there.column_names and there[kind].null_count == len(there)}
        kinds = [kind for kind in leaves if kind not in empty or not _may_lack(file, leaves[kind][0], number)]
        del there
        group = read([name for kind in kinds for name in _wanted(schema, kind)], number)
        for kind in _SMALL:
            values = valid(group, kind)
            size.add(OBJECT_TIMES * values.nbytes)
            small[kind] += [_plain(value) for value in values.to_pylist()]
        if len(found := valid(group, "add")):
            with_structs = _has_structs(schema)
            lacks_texts = with_structs and _lacks_texts(found)
            if lacks_texts:
                size.add_columns(data, file, (STRUCTS,), number)
            chunk = _chunk(found, parsed_stats(file, number) if lacks_texts else None)
            stored = (StoredStats(again, number, len(chunk)),) if again and with_structs else ()
            adds.append(replace(chunk, stored=stored))
        removes.append(_checked(_rows(valid(group, "remove"), TOMBSTONE_SCHEMA)))
    return _small(small, tuple(adds), pa.concat_tables(removes))


def _small(found: Mapping[str, list[Any]], adds: tuple[FileChunk, ...], removes: pa.Table) -> _Part:
    kinds = [kind for kind in _SMALL if kind not in ("checkpointMetadata", "sidecar")]
    actions = [parse_action({kind: value}) for kind in kinds for value in found[kind]]
    sidecars = tuple((_sidecar_name(value["path"]), int(value["sizeInBytes"])) for value in found["sidecar"])
    if len(found["checkpointMetadata"]) > 1:
        raise ValueError("it has more than one checkpointMetadata")
    version = next((long(value["version"]) for value in found["checkpointMetadata"]), None)
    return _Part(adds, removes, tuple(a for a in actions if a is not None), sidecars, version)


def _sidecar_name(path: str) -> str:
    return f"{SIDECARS}/{unquote(path).rpartition('/')[2]}"


def _leaves(file: ParquetFile, wanted: Mapping[str, str]) -> dict[str, tuple[list[int], str]]:
    """For each kind of action, by the columns that are wanted of it, the numbers of their leaves, and the path of one that is
    read fast.
    """
    found: dict[str, list[tuple[tuple[int, bool], int, str]]] = {}
    for number in range(len(file.schema)):
        leaf = file.schema.column(number)
        top, *below = leaf.path.split(".", 2)
        kind = wanted.get(top) or wanted.get(".".join((top, *below[:1])))
        if kind is not None:
            cost = leaf.max_repetition_level, leaf.physical_type.endswith("ARRAY")
            found.setdefault(kind, []).append((cost, number, leaf.path))
    return {kind: ([number for _, number, _ in leaves], min(leaves)[2]) for kind, leaves in found.items()}


def _may_lack(file: ParquetFile, leaves: Sequence[int], group: int) -> bool:
    """Whether the footer says of no leaf of a kind that a row group has values of it."""
    chunks = [file.chunks.chunk(group, number) for number in leaves]
    return all(chunk.nulls is None or chunk.nulls >= chunk.values for chunk in chunks)


def _wanted(schema: pa.Schema, kind: str) -> list[str]:
    """The columns to read of an action: all of a small one, of a file action what a snapshot keeps."""
    if schema.get_field_index(kind) < 0:
        return []
    fields = {"add": FILE_SCHEMA, "remove": TOMBSTONE_SCHEMA}.get(kind)
    if fields is None or not pa.types.is_struct(schema.field(kind).type):
        return [kind]
    return [f"{kind}.{name}" for name in fields.names if schema.field(kind).type.get_field_index(name) >= 0]


def _has_structs(schema: pa.Schema) -> bool:
    """Whether the checkpoint has statistics as structs."""
    type = schema.field("add").type
    at = type.get_field_index("stats_parsed")
    return at >= 0 and bool(pa.types.is_struct(type.field(at).type))


def _lacks_texts(adds: pa.StructArray) -> bool:
    """Whether some file has no JSON statistics."""
    return adds.type.get_field_index("stats") < 0 or bool(pc.struct_field(adds, "stats").null_count)


def _chunk(adds: pa.StructArray, parsed: pa.StructArray | None) -> FileChunk:
    table = _checked(_rows(adds, FILE_SCHEMA))
    if parsed is None:
        return FileChunk(table)
    texts = whole(table["stats"])
    if texts.null_count == len(texts):
        return FileChunk(table, parsed)
    filled = pc.coalesce(texts, json_texts(parsed))
    return FileChunk(table.set_column(table.schema.get_field_index("stats"), FILE_SCHEMA.field("stats"), filled))


def _rows(structs: pa.StructArray, schema: pa.Schema) -> pa.Table:
    """Structs as a table of exactly `schema`; absent fields are null."""
    at = structs.type.get_field_index("deletionVector")
    if at >= 0 and pc.any(pc.is_valid(vectors := pc.struct_field(structs, [at]))).as_py():
        names = {field.name for field in vectors.type} if pa.types.is_struct(vectors.type) else set()
        if not names & set(VECTOR.names):
            raise ValueError("the deletionVector of a file is not a descriptor")
    return checked_files(pa.table([_child(structs, field) for field in schema], schema=schema))


def _child(struct: pa.StructArray, field: pa.Field) -> pa.Array:
    if struct.type.get_field_index(field.name) < 0:
        return pa.nulls(len(struct), field.type)
    child = pc.struct_field(struct, field.name)
    if pa.types.is_struct(field.type):
        fields = [_child(child, inner) for inner in field.type]
        return pa.StructArray.from_arrays(fields, fields=list(field.type), mask=pc.is_null(child))
    if not _is_kind_of(child.type, field.type):
        raise ValueError(f"the field {field.name} holds {child.type}, which is no {field.type}")
    return child.cast(field.type)


def _is_kind_of(stored: pa.DataType, type: pa.DataType) -> bool:
    """Whether a type is another form of one: Arrow would read a number, as hexadecimal too, from a text."""
    if pa.types.is_dictionary(stored):
        return _is_kind_of(stored.value_type, type)
    if pa.types.is_map(type) and not pa.types.is_null(stored):
        of_map = pa.types.is_map(stored)
        return of_map and _is_kind_of(stored.key_type, type.key_type) and _is_kind_of(stored.item_type, type.item_type)
    is_kind = pa.types.is_integer if pa.types.is_integer(type) else holds_text if pa.types.is_string(type) else type.equals
    return bool(pa.types.is_null(stored) or is_kind(stored))


def _checked(table: pa.Table) -> pa.Table:
    """The table, when every file has what it can't do without."""
    for name in ("path", "size") if "stats" in table.column_names else ("path",):
        if table[name].null_count:
            raise ValueError(f"a file action has no {name}")
    table.select(_TEXTS).validate(full=True)
    if repeats_key(whole(table["partitionValues"])):
        raise ValueError("a file has two values for one partition column")
    return table


def _gathered(chunks: Sequence[FileChunk]) -> list[FileChunk]:
    """The chunks, small ones put together, each file once. Raises PathEscapes."""
    with_structs = [chunk for chunk in chunks if chunk.parsed is not None]
    types = {chunk.parsed.type for chunk in with_structs if chunk.parsed is not None}
    if len(types) == 1 and len(with_structs) == len(chunks):
        rows = pa.concat_tables([chunk.table for chunk in chunks])
        parsed = pa.chunked_array([chunk.parsed for chunk in chunks])
        files = pa.table([*rows.columns, parsed], names=[*rows.column_names, "stats_parsed"])
    else:
        files = pa.concat_tables([chunk.chosen(None) for chunk in chunks] or [FILE_SCHEMA.empty_table()])
    gathered = _with_stored(list(_in_chunks(files, _lengths([len(chunk) for chunk in chunks]))), chunks)
    if _distinct(gathered):
        return gathered
    files = last_of_each(files)
    return list(_in_chunks(files, [files.num_rows]))


def _with_stored(gathered: Sequence[FileChunk], chunks: Sequence[FileChunk]) -> list[FileChunk]:
    """Gathered chunks with the stored statistics of those that were put together in each."""
    if not all(chunk.stored for chunk in chunks):
        return list(gathered)
    rest, found = iter(chunks), []
    for chunk in gathered:
        stored: list[StoredStats] = []
        while sum(group.rows for group in stored) < len(chunk):
            stored += next(rest).stored
        found.append(replace(chunk, stored=tuple(stored)))
    return found


def _lengths(lengths: Sequence[int]) -> list[int]:
    """The lengths of a few chunks, large ones as they are: to put chunks together is to copy them."""
    least = max(_CHUNK_ROWS, sum(lengths) // _MOST_CHUNKS)
    found = [0]
    for length in lengths:
        if found[-1] >= least:
            found.append(0)
        found[-1] += length
    return found


def _in_chunks(files: pa.Table, lengths: Sequence[int]) -> Iterator[FileChunk]:
    for start, length in zip(itertools.accumulate(lengths, initial=0), lengths, strict=False):
        part = files.slice(start, length).combine_chunks()
        structs = whole(part["stats_parsed"]) if "stats_parsed" in part.column_names else None
        yield FileChunk(part.select(FILE_SCHEMA.names), structs)


def _distinct(chunks: Sequence[FileChunk]) -> bool:
    keys = pa.chunked_array([chunk.keys for chunk in chunks], pa.string())
    return len(pc.unique(keys)) == len(keys)


def _plain(value: Any) -> Any:
    """Arrow's Python form of an action as JSON would have it: maps are dicts, nulls are absent."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, list) and value and all(isinstance(item, tuple) for item in value):
        return dict(value)
    return value


def _corrupt(store: Store, name: str, first: str, cause: str) -> CorruptTableError:
    return CorruptTableError(
        "DELTAMERGE_CORRUPT_CHECKPOINT",
        f"The checkpoint {name} of {store.url} can't be read: {cause}.",
        parameters={"table": store.url, "file": name, "checkpoint": first},
        hint="Delete the damaged checkpoint if all commits since an older one still exist; otherwise restore it from a backup.",
    )
