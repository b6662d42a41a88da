"""Deletion vectors as the log names them and as files hold them: which rows of a data file are deleted.

Reads bytes through a function that it is given; must not know of stores. Source: PROTOCOL.md, "Deletion Vectors",
"Deletion Vector File Storage Format".
"""

from __future__ import annotations

import base64
import re
import struct
import uuid
import zlib
from collections.abc import Callable, Sequence
from urllib.parse import quote, unquote

from deltamerge.errors import CorruptTableError
from deltamerge.protocol.formats.roaring import MalformedBitmap, RowSet, decode
from deltamerge.protocol.table.actions import DeletionVector

Read = Callable[[int, int], bytes]

INLINE, RELATIVE, ABSOLUTE = "i", "u", "p"
_WHOLE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]+:/")
_VERSION = 1
_UUID_LENGTH = 20
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_FROM_Z85, _TO_Z85 = str.maketrans(_Z85, _B85), str.maketrans(_B85, _Z85)


def z85_encode(data: bytes) -> str:
    """Bytes as Z85 text; their number is a multiple of four."""
    return base64.b85encode(data).decode().translate(_TO_Z85)


def z85_decode(text: str) -> bytes:
    """The bytes of a Z85 text. Raises ValueError when it is none."""
    if len(text) % 5 or not set(text) <= set(_Z85):
        raise ValueError("it is no Z85 text")
    return base64.b85decode(text.translate(_FROM_Z85))


def vector_reference(vector: DeletionVector, of: str) -> str | None:
    """Where the vector's file is, as the log would name it: relative to the table or an absolute URL; None for an inline one.

    Raises CorruptTableError naming the data file `of` for a descriptor that can't be.
    """
    where = vector.path_or_inline
    if vector.storage_type == INLINE:
        return None
    try:
        if vector.storage_type == ABSOLUTE:
            if not _WHOLE.match(where) or "\0" in unquote(where):
                raise ValueError(f"{where!r} is no URL")
            return where
        if vector.storage_type != RELATIVE:
            raise ValueError(f"there is no storage type {vector.storage_type!r}")
        prefix, id = where[:-_UUID_LENGTH], uuid.UUID(bytes=z85_decode(where[-_UUID_LENGTH:]))
        if ".." in prefix.split("/") or prefix.startswith("/"):
            raise ValueError(f"its prefix {prefix!r} leads out of the table's folder")
    except ValueError as error:
        raise _corrupt("DELTAMERGE_CORRUPT_DELETION_VECTOR", f"its descriptor can't be: {error}", of) from error
    return f"{quote(prefix)}/{vector_file_name(id)}" if prefix else vector_file_name(id)


def vector_file_name(id: uuid.UUID) -> str:
    """The name of the file of vectors with this id."""
    return f"deletion_vector_{id}.bin"


def deleted_rows(vector: DeletionVector, read: Read, of: str) -> RowSet:
    """The deleted rows of the data file `of`; `read(offset, size)` gives bytes of the vector's file, fewer at its end.

    Raises CorruptTableError naming the data file when anything about the vector is not as its descriptor says.
    """
    data = _inline(vector, of) if vector.storage_type == INLINE else _stored(vector, read, of)
    try:
        found = decode(data) if data else RowSet()
    except MalformedBitmap as error:
        raise _corrupt("DELTAMERGE_CORRUPT_DELETION_VECTOR", f"it can't be read: {error}", of) from error
    if found.rows != vector.cardinality:
        cause = f"it has {found.rows} rows, the log says {vector.cardinality}"
        raise _corrupt("DELTA_DELETION_VECTOR_CARDINALITY_MISMATCH", cause, of)
    return found


def check_rows(rows: RowSet, count: int, of: str) -> None:
    """Raise CorruptTableError when a vector names a row that its data file `of`, which has `count` rows, does not have."""
    if rows.end > count:
        cause = f"it deletes row {rows.end - 1} of a file with {count} rows"
        raise _corrupt("DELTA_DELETION_VECTOR_INVALID_ROW_INDEX", cause, of)


def _inline(vector: DeletionVector, of: str) -> bytes:
    try:
        data = z85_decode(vector.path_or_inline)
    except ValueError as error:
        raise _corrupt("DELTAMERGE_CORRUPT_DELETION_VECTOR", str(error), of) from error
    if not 0 <= len(data) - vector.size_in_bytes < 4:
        cause = f"it has {len(data)} bytes, the log says {vector.size_in_bytes}"
        raise _corrupt("DELTA_DELETION_VECTOR_SIZE_MISMATCH", cause, of)
    return data[: vector.size_in_bytes]


def _stored(vector: DeletionVector, read: Read, of: str) -> bytes:
    """The bytes of a vector in a file; without an offset it is the first one, behind the version."""
    start = vector.offset or 1
    size = vector.size_in_bytes
    if start < 0 or size < 4:
        cause = f"offset {start} and size {size} can't be"
        raise _corrupt("DELTA_DELETION_VECTOR_SIZE_MISMATCH", cause, of)
    # The first vector of a file, often the only one, comes with the version in one read.
    begin = 0 if start == 1 else start
    found = read(begin, start - begin + size + 8)
    version = found[:1] if begin == 0 else read(0, 1)
    if version != bytes([_VERSION]):
        raise _corrupt("DELTAMERGE_CORRUPT_DELETION_VECTOR", f"its file has version {version!r}", of)
    found = found[start - begin :]
    if len(found) != size + 8 or int.from_bytes(found[:4], "big") != size:
        cause = f"its file does not hold {size} bytes at offset {start}"
        raise _corrupt("DELTA_DELETION_VECTOR_SIZE_MISMATCH", cause, of)
    data = found[4:-4]
    if zlib.crc32(data) != int.from_bytes(found[-4:], "big"):
        raise _corrupt("DELTA_DELETION_VECTOR_CHECKSUM_MISMATCH", "its checksum is wrong", of)
    return data


def file_of_vectors(vectors: Sequence[bytes]) -> tuple[bytes, list[int]]:
    """A file that holds encoded vectors, and the offset of each."""
    parts = [bytes([_VERSION])]
    offsets = []
    at = 1
    for data in vectors:
        offsets.append(at)
        parts += [struct.pack(">I", len(data)), data, struct.pack(">I", zlib.crc32(data))]
        at += len(data) + 8
    return b"".join(parts), offsets


def _corrupt(condition: str, cause: str, of: str) -> CorruptTableError:
    return CorruptTableError(
        condition,
        f"The deletion vector of {of} is damaged: {cause}.",
        parameters={"file": of},
        hint="Restore the vector's file from a backup, or restore a version of the table that does not need it.",
    )
