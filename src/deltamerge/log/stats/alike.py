"""Leaves of statistics texts that are alike: the same fields in the same order, as one writer makes them.

Such texts are cut at their commas like lines of CSV, several times faster than by parsing JSON. Anything that leaves a
doubt about where a leaf stands gives None.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from deltamerge.protocol.formats.json_text import json_value
from deltamerge.protocol.values.predicate import Path

_BACKSLASH, _OPEN, _CLOSE = (ord(char) for char in "\\{}")
_STRUCTURAL = frozenset("{}[]:,")
_BLOCK = 1 << 18


@dataclass(frozen=True, slots=True)
class _Field:
    """What stands between two commas of a text: a leaf, with the text before and behind its value."""

    path: Path
    before: str
    behind: str = ""

    @property
    def braces(self) -> int:
        """How many braces stand around the value."""
        return sum((self.before + self.behind).count(brace) for brace in "{}")


def alike_leaves(first: str, count: int, lines: pa.Buffer, wanted: Mapping[Path, pa.DataType]) -> dict[Path, pa.Array] | None:
    """The leaves of `count` texts, one a line of UTF-8, that look like the `first` of them; None when that is in doubt.

    A text without a backslash has no quote but those around its strings. If every text is cut into as many pieces as the
    first, and each piece with a brace begins and ends as its counterpart, and no text has other braces, then all objects
    open and close at the same pieces; a wanted leaf is in its place when its piece has the leaf's name. Nothing is said
    of texts that are no JSON and yet look so, nor of names that an object has twice.
    """
    fields = _fields_of(first)
    data = np.frombuffer(lines, np.uint8)
    if not fields or (data == _BACKSLASH).any():
        return None
    braces = sum(field.braces for field in fields) * count
    if np.count_nonzero(data == _OPEN) + np.count_nonzero(data == _CLOSE) != braces:
        return None
    places = {field.path: number for number, field in enumerate(fields)}
    absent = [path for path in wanted if path not in places]
    whole = lines.to_pybytes() if absent else b""
    if any(_quoted(path[-1]).encode() in whole for path in absent):
        return None
    needed = {places[path] for path in wanted if path in places} | {n for n, field in enumerate(fields) if field.braces}
    pieces = _cut(lines, count, len(fields), needed)
    if pieces is None or not all(_stands(pieces[number], fields[number]) for number in needed):
        return None
    try:
        return {
            path: pa.nulls(count, type) if path not in places else _value(pieces[places[path]], fields[places[path]], type)
            for path, type in wanted.items()
        }
    except pa.ArrowInvalid:
        return None


@lru_cache(maxsize=8)  # a merge asks for some columns' statistics after the other
def _fields_of(text: str) -> tuple[_Field, ...]:
    """The fields of a text; none when they are not what its commas cut it into."""
    try:
        value = json_value(text)
    except ValueError:
        return ()
    if not isinstance(value, dict) or not value:
        return ()
    fields = tuple(_fields(value, ()))
    pieces = text.split(",")
    as_cut = len(fields) == len(pieces) and all(
        piece.startswith(field.before) and piece.endswith(field.behind) for field, piece in zip(fields, pieces, strict=True)
    )
    braces = sum(text.count(brace) for brace in "{}")
    plain = not any(_STRUCTURAL.intersection(name) for field in fields for name in field.path)
    return fields if as_cut and plain and braces == sum(field.braces for field in fields) else ()


def _fields(value: Mapping[str, Any], path: Path, before: str = "", behind: str = "") -> Iterator[_Field]:
    """The fields of an object, with its braces, and with what stands `before` and `behind` it."""
    for number, (name, item) in enumerate(value.items(), 1):
        ahead = f"{_quoted(name)}:" if number > 1 else f"{before}{{{_quoted(name)}:"
        after = "" if number < len(value) else "}" + behind
        if isinstance(item, dict) and item:
            yield from _fields(item, (*path, name), ahead, after)
        else:
            yield _Field((*path, name), ahead, after)


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _cut(lines: pa.Buffer, count: int, width: int, needed: set[int]) -> dict[int, pa.Array] | None:
    """The needed pieces of each line, by their numbers; None when a line has not `width` pieces."""
    names = [str(number) for number in range(width)]
    chosen = [str(number) for number in sorted(needed)]
    try:
        table = pcsv.read_csv(
            pa.BufferReader(lines),
            read_options=pcsv.ReadOptions(column_names=names, use_threads=False, block_size=_BLOCK),
            parse_options=pcsv.ParseOptions(quote_char=False, ignore_empty_lines=False),
            convert_options=pcsv.ConvertOptions(include_columns=chosen, column_types=dict.fromkeys(chosen, pa.string())),
        )
    except pa.ArrowInvalid:
        return None
    return {int(name): table[name].combine_chunks() for name in chosen} if table.num_rows == count else None


def _stands(pieces: pa.Array, field: _Field) -> bool:
    long_enough = pc.greater_equal(pc.binary_length(pieces), len((field.before + field.behind).encode()))
    around = pc.and_(pc.starts_with(pieces, field.before), pc.ends_with(pieces, field.behind))
    return bool(pc.all(pc.and_(around, long_enough)).as_py())


def _value(pieces: pa.Array, field: _Field, type: pa.DataType) -> pa.Array:
    """The values of a field. Raises pa.ArrowInvalid where one is not of the type."""
    if pa.types.is_string(type):
        field = replace(field, before=field.before + '"', behind='"' + field.behind)
        if not _stands(pieces, field):
            raise pa.ArrowInvalid("not all are strings")
    texts = pc.utf8_slice_codeunits(pieces, len(field.before), -len(field.behind) or None)
    if pa.types.is_boolean(type):
        if not pc.all(pc.is_in(texts, pa.array(["true", "false"]))).as_py():
            raise pa.ArrowInvalid("not all are booleans")
        return pc.equal(texts, "true")
    values = texts.cast(type)
    if pa.types.is_floating(type) and not pc.all(pc.is_finite(values)).as_py():
        raise pa.ArrowInvalid("not all are finite")
    return values
