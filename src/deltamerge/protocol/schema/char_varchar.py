"""CHAR and VARCHAR: where a table's texts have a length, from what Spark keeps of it in a column's metadata. Must not know rows.

The type is `string` in the schema; the metadata have the column's whole type as text, `struct<code:char(3),n:int>`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from deltamerge.errors import UnsupportedTableError
from deltamerge.protocol.schema.types import ArrayType, DataType, MapType, StructField, StructType

SIZED_TEXT = "__CHAR_VARCHAR_TYPE_STRING"
ELEMENT, KEY, VALUE = "element", "key", "value"
TextPath = tuple[str, ...]
_SIZED = re.compile(r"((?:var)?char)\((\d+)\)", re.IGNORECASE | re.ASCII)
_PLAIN = re.compile(r"[^,:<>()]+(?:\([^()]*\))?[^,:<>()]*")


@dataclass(frozen=True, slots=True)
class CharVarchar:
    """Texts of `length` characters at most; `padded` with blanks to that length where they are read.

    `path` is the column and, within it, fields of structs, ELEMENT, KEY and VALUE.
    """

    path: TextPath
    length: int
    padded: bool


def char_varchars(schema: StructType) -> list[CharVarchar]:
    """Every CHAR and VARCHAR of a schema, at every level.

    Raises UnsupportedTableError for a column whose metadata say another type than the schema.
    """
    return [found for field in schema if SIZED_TEXT in field.metadata for found in _of_column(field)]


def _of_column(field: StructField) -> list[CharVarchar]:
    reader = _Reader(str(field.metadata[SIZED_TEXT]).strip())
    try:
        found = list(reader.type(field.type, (field.name,)))
        reader.end()
    except ValueError as error:
        raise UnsupportedTableError(
            "DELTA_UNSUPPORTED_DATA_TYPES",
            f"The lengths of the texts in column {field.name} are not known: its metadata say {reader.text!r}.",
            parameters={"dataTypeList": reader.text},
            hint="Set the column's type again, or remove the lengths by ALTER TABLE .. ALTER COLUMN .. TYPE STRING.",
        ) from error
    return found


class _Reader:
    """Reads a type's text along the type that the schema has; what does not fit is a ValueError."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._at = 0

    def type(self, type: DataType, path: TextPath) -> Iterator[CharVarchar]:
        """Every CHAR and VARCHAR of a type."""
        if isinstance(type, StructType):
            yield from self._struct(type, path)
        elif isinstance(type, ArrayType):
            self._want("array<")
            yield from self.type(type.element, (*path, ELEMENT))
            self._want(">")
        elif isinstance(type, MapType):
            self._want("map<")
            yield from self.type(type.key, (*path, KEY))
            self._want(",")
            yield from self.type(type.value, (*path, VALUE))
            self._want(">")
        else:
            sized = _SIZED.match(self.text, self._at)
            plain = sized or _PLAIN.match(self.text, self._at)
            if plain is None:
                raise ValueError(f"no type at {self._at}")
            self._at = plain.end()
            if sized is not None:
                yield CharVarchar(path, int(sized[2]), sized[1].lower() == "char")

    def end(self) -> None:
        """Nothing is left."""
        if self._at != len(self.text):
            raise ValueError(f"more at {self._at}")

    def _struct(self, type: StructType, path: TextPath) -> Iterator[CharVarchar]:
        self._want("struct<")
        for number, field in enumerate(type):
            if self._take(">"):  # fields that were added since have no length
                return
            if number:
                self._want(",")
            escaped = field.name.replace("`", "``")
            if not (self._take(f"{field.name}:") or self._take(f"`{escaped}`:")):
                raise ValueError(f"no field {field.name} at {self._at}")
            yield from self.type(field.type, (*path, field.name))
        self._want(">")

    def _take(self, mark: str) -> bool:
        found = self.text[self._at : self._at + len(mark)].lower() == mark.lower()
        self._at += len(mark) if found else 0
        return found

    def _want(self, mark: str) -> None:
        if not self._take(mark):
            raise ValueError(f"no {mark} at {self._at}")
