"""The notation of values in case files: read by a column's type, written back in one canonical form.

`null`, `12`, `1.50`, `NaN`, `true`, `'text'` (two quotes for one, `\\n` and `\\t`), `2020-01-31`, `2020-01-31 12:00:00`,
`X'00FF'`, `[1, 2]`, `{'k': 1}` for maps, `{a: 1, b: null}` for structs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from pyspark.sql import types as T

_TOKEN = re.compile(r"[^|,\]}]+")
_ESCAPES = {"\n": "\\n", "\t": "\\t", "\\": "\\\\", "'": "''"}
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")


class Malformed(ValueError):
    """A text that is not in the notation of its place."""


def quoted_name(name: str) -> str:
    """A column or field name as it stands in a header: in backquotes when it needs them."""
    return name if _PLAIN_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def type_text(type: T.DataType) -> str:
    """A type as headers show it, `not null` fields included."""
    if isinstance(type, T.StructType):
        fields = [f"{quoted_name(f.name)}: {type_text(f.dataType)}{'' if f.nullable else ' not null'}" for f in type.fields]
        return f"struct<{', '.join(fields)}>"
    if isinstance(type, T.ArrayType):
        return f"array<{type_text(type.elementType)}>"
    if isinstance(type, T.MapType):
        return f"map<{type_text(type.keyType)}, {type_text(type.valueType)}>"
    return type.simpleString()


def header_text(schema: T.StructType) -> tuple[str, ...]:
    """The cells of a header: name, type and nullability of each column."""
    return tuple(f"{quoted_name(f.name)} {type_text(f.dataType)}{'' if f.nullable else ' not null'}" for f in schema.fields)


def split_cells(line: str) -> list[str]:
    """The cells of a line that `|` separates; not within quotes, backquotes or brackets of types."""
    cells, start, quote = [], 0, ""
    for at, char in enumerate(line):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'`":
            quote = char
        elif char == "|":
            cells.append(line[start:at].strip())
            start = at + 1
    return [*cells, line[start:].strip()]


def parse_row(line: str, types: Sequence[T.DataType]) -> tuple[Any, ...]:
    """The values of a row, as pyarrow takes them: structs as dicts, maps as pairs. Raises Malformed."""
    cells = split_cells(line)
    if len(cells) != len(types):
        raise Malformed(f"{len(cells)} values for {len(types)} columns: {line.strip()}")
    return tuple(parse_value(cell, type) for cell, type in zip(cells, types, strict=True))


def parse_value(text: str, type: T.DataType) -> Any:
    """One value. Raises Malformed."""
    cursor = _Cursor(text)
    value = cursor.value(type)
    cursor.space()
    if cursor.at != len(text):
        raise Malformed(f"{text[cursor.at :]!r} is too much after a {type_text(type)} in {text!r}")
    return value


class _Cursor:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def space(self) -> None:
        while self.text[self.at : self.at + 1] == " ":
            self.at += 1

    def take(self, mark: str) -> bool:
        self.space()
        found = self.text.startswith(mark, self.at)
        self.at += len(mark) if found else 0
        return found

    def want(self, mark: str) -> None:
        if not self.take(mark):
            raise Malformed(f"{mark!r} is expected at {self.text[self.at :]!r} in {self.text!r}")

    def value(self, type: T.DataType) -> Any:
        if re.match(r"null\b", self.text[self.at :].lstrip()):
            self.take("null")
            return None
        if isinstance(type, T.StructType):
            return self.struct(type)
        if isinstance(type, T.ArrayType):
            return self.several("[", "]", lambda: self.value(type.elementType))
        if isinstance(type, T.MapType):
            return self.several("{", "}", lambda: self.entry(type))
        if isinstance(type, T.BinaryType):
            self.want("X")
            return bytes.fromhex(self.string())
        if isinstance(type, T.StringType | T.CharType | T.VarcharType):
            return self.string()
        return self.plain(type)

    def several(self, opening: str, closing: str, one: Any) -> list[Any]:
        self.want(opening)
        found: list[Any] = []
        while not self.take(closing):
            if found:
                self.want(",")
            found.append(one())
        return found

    def entry(self, type: T.MapType) -> tuple[Any, Any]:
        key = self.value(type.keyType)
        self.want(":")
        return key, self.value(type.valueType)

    def struct(self, type: T.StructType) -> dict[str, Any]:
        found = {}
        self.want("{")
        for number, field in enumerate(type.fields):
            if number:
                self.want(",")
            self.want(quoted_name(field.name))
            self.want(":")
            found[field.name] = self.value(field.dataType)
        self.want("}")
        return found

    def string(self) -> str:
        self.want("'")
        found = ""
        while self.at < len(self.text):
            char, pair = self.text[self.at], self.text[self.at : self.at + 2]
            if pair == "''" or pair in ("\\n", "\\t", "\\\\"):
                found += {"''": "'", "\\n": "\n", "\\t": "\t", "\\\\": "\\"}[pair]
                self.at += 2
            elif char == "'":
                self.at += 1
                return found
            else:
                found += char
                self.at += 1
        raise Malformed(f"A quote is not closed in {self.text!r}")

    def plain(self, type: T.DataType) -> Any:
        self.space()
        token = _TOKEN.match(self.text, self.at)
        if token is None:
            raise Malformed(f"A {type_text(type)} is expected at {self.text[self.at :]!r} in {self.text!r}")
        text = token[0]
        if isinstance(type, T.IntegralType | T.FractionalType | T.BooleanType):
            text = text.split(":")[0]  # a key of a map
        self.at += len(text)
        try:
            return _plain(text.strip(), type)
        except (ValueError, ArithmeticError) as error:
            raise Malformed(f"{text!r} is no {type_text(type)}") from error


def _plain(text: str, type: T.DataType) -> Any:
    if isinstance(type, T.BooleanType):
        return {"true": True, "false": False}[text] if text in ("true", "false") else int("")
    if isinstance(type, T.DecimalType):
        return Decimal(text)
    if isinstance(type, T.FloatType | T.DoubleType):
        return float(text)
    if isinstance(type, T.DateType):
        return date.fromisoformat(text)
    if isinstance(type, T.TimestampType):
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    if isinstance(type, T.TimestampNTZType):
        return datetime.fromisoformat(text)
    return int(text)


def render(value: Any, type: T.DataType) -> str:
    """A value that pyarrow gives in the canonical form."""
    if value is None or isinstance(type, T.NullType):
        return "null"
    if isinstance(type, T.StructType):
        inner = [f"{quoted_name(f.name)}: {render(value[f.name], f.dataType)}" for f in type.fields]
        return "{" + ", ".join(inner) + "}"
    if isinstance(type, T.ArrayType):
        return "[" + ", ".join(render(item, type.elementType) for item in value) + "]"
    if isinstance(type, T.MapType):
        pairs = sorted(f"{render(k, type.keyType)}: {render(v, type.valueType)}" for k, v in value)
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else repr(value).replace("inf", "Infinity")
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(" ")
    if isinstance(value, str):
        return "'" + "".join(_ESCAPES.get(char, char) for char in value) + "'"
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def sort_key(row: Sequence[Any]) -> list[tuple[bool, str, Any]]:
    """An order over rows of any types: nulls last, -0.0 before 0.0, NaN after all numbers."""
    return [_one_key(value) for value in row]


def _one_key(value: Any) -> tuple[bool, str, Any]:
    if value is None:
        return True, "", ""
    if isinstance(value, float):
        return False, "float", (math.inf, 2.0) if math.isnan(value) else (value, math.copysign(1, value))
    if isinstance(value, dict | list):
        return False, type(value).__name__, repr(value)
    return False, type(value).__name__, value
