"""Whether two Parquet schemas say the same of a column: how its values are stored, and how they are meant.

Writers say it in different words: an annotation old or new, both or none where it goes without saying, and names of their own
within lists and maps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deltamerge.protocol.formats.thrift import BINARY, I32, I64, STRUCT, Items, Struct
from deltamerge.worker.parquet.footer import Chunk, get
from deltamerge.worker.parquet.plain import NotSpliceable, Reason

REQUIRED, OPTIONAL, REPEATED = 0, 1, 2
_ELEMENT = {1: I32, 2: I32, 3: I32, 4: BINARY, 5: I32, 6: I32, 7: I32, 8: I32, 9: I32, 10: STRUCT}
_INT32, _INT64, _BYTE_ARRAY, _FIXED = 1, 2, 6, 7
_DECIMAL, _MICROS, _INT_8 = 5, 10, 15  # 5 both as a converted type and as a field of the logical ones
_WIDTHS = {_INT32: 32, _INT64: 64}
_BYTES = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8}
_LIST, _MAPS = (3,), (1, 2)
# What these repeat is within; by other names it may itself be the element.
_WRAPPERS = (b"list", b"bag", b"key_value", b"map", b"entries")
_DEEPEST = 64


@dataclass(frozen=True)
class Leaf:
    """A column of values: its path, its physical type, the bytes of each value if all have as many, its deepest levels, and
    whether it has decimals.
    """

    path: tuple[bytes, ...]
    type: int
    length: int
    definition: int
    repetition: int
    is_decimal: bool = False


def check_chunk(chunk: Chunk, leaf: Leaf) -> None:
    """Raises NotSpliceable where the footer says of a chunk what can't be of such a leaf."""
    if chunk.path != leaf.path or chunk.meta[1][1] != leaf.type:
        raise NotSpliceable(Reason.FOOTER, "a column chunk is not of its column")
    width = leaf.length if leaf.type == _FIXED else _BYTES.get(leaf.type)
    for id in (1, 2, 5, 6):
        bound = get(chunk.statistics, id)
        if bound is not None and width is not None and len(bound) != width:
            raise NotSpliceable(Reason.FOOTER, "a bound is no value of its column")
    # Some writers say each bound twice: a damaged one is found out.
    if any(get(chunk.statistics, old, new) != new for old, new in _both(chunk)):
        raise NotSpliceable(Reason.FOOTER, "a bound is two values")
    sizes = get(chunk.meta, 16, {})
    if 1 in sizes and leaf.type != _BYTE_ARRAY:
        raise NotSpliceable(Reason.FOOTER, "it has the bytes of texts, and is no text")
    for id, deepest in ((2, leaf.repetition), (3, leaf.definition)):
        histogram = get(sizes, id)
        if histogram is not None and not _is_histogram(histogram, deepest + 1):
            raise NotSpliceable(Reason.FOOTER, "a histogram of levels is not of its column")


def _is_histogram(found: object, levels: int) -> bool:
    """Whether it counts that many levels, or none."""
    return isinstance(found, Items) and (not found.values or (len(found.values) == levels and found.type == I64))


def _both(chunk: Chunk) -> list[tuple[int, bytes]]:
    """The old fields of bounds, with what the new ones say, for types that both compare alike."""
    if chunk.meta[1][1] not in (_INT32, _INT64):
        return []
    found = ((1, get(chunk.statistics, 5)), (2, get(chunk.statistics, 6)))
    return [(old, new) for old, new in found if new is not None]


@dataclass(frozen=True)
class Node:
    """A column, a field or what is within: its element of the schema, and what is below."""

    element: Struct
    below: tuple[Node, ...]

    @property
    def name(self) -> bytes:
        """Its own name."""
        return bytes(get(self.element, 4, b""))

    @property
    def repetition(self) -> int:
        """REQUIRED, OPTIONAL or REPEATED."""
        return int(get(self.element, 3, REQUIRED))

    @property
    def leaves(self) -> list[Leaf]:
        """What holds values, from here on."""
        return self._leaves((), 0, 0)

    def _leaves(self, path: tuple[bytes, ...], definition: int, repetition: int) -> list[Leaf]:
        path = (*path, self.name)
        definition += self.repetition != REQUIRED
        repetition += self.repetition == REPEATED
        if not self.below:
            is_decimal = get(self.element, 6) == _DECIMAL or _DECIMAL in get(self.element, 10, {})
            return [Leaf(path, get(self.element, 1), get(self.element, 2, 0), definition, repetition, is_decimal)]
        return [leaf for node in self.below for leaf in node._leaves(path, definition, repetition)]


def columns_of(elements: Sequence[Struct]) -> tuple[Node, ...]:
    """The top-level columns of a schema. Raises NotSpliceable for one that is not understood."""
    for element in elements:
        if 4 not in element or any(_ELEMENT.get(id) != type for id, (type, _) in element.items()):
            raise NotSpliceable(Reason.FOOTER, "an element of the schema is not known")
    if not elements:
        raise NotSpliceable(Reason.FOOTER, "it has no schema")
    root, end = _node(elements, 0, 0)
    if end != len(elements) or 1 in root.element:
        raise NotSpliceable(Reason.FOOTER, "elements of the schema are left")
    return root.below


def _node(elements: Sequence[Struct], at: int, depth: int) -> tuple[Node, int]:
    if at >= len(elements) or depth > _DEEPEST:
        raise NotSpliceable(Reason.FOOTER, "elements of the schema are missing")
    element, at = elements[at], at + 1
    below = []
    for _ in range(min(get(element, 5, 0), len(elements))):
        node, at = _node(elements, at, depth + 1)
        below.append(node)
    if bool(below) == (1 in element) and depth:
        raise NotSpliceable(Reason.FOOTER, "a column has both values and fields, or none of them")
    return Node(element, tuple(below)), at


def is_alike(found: Node, wanted: Node) -> bool:
    """Whether a top-level column as it was found holds values just as the wanted one, which may take nulls where it does not."""
    is_strict = found.repetition == REQUIRED and wanted.repetition == OPTIONAL and not found.below
    return found.name == wanted.name and (found.repetition == wanted.repetition or is_strict) and _holds_alike(found, wanted)


def _holds_alike(found: Node, wanted: Node, is_wrapper: bool = False) -> bool:
    """Whether two nodes hold alike, whatever their names; what is repeated in a list or a map is a wrapper of what it has."""
    id = get(wanted.element, 9)
    if id is not None and id != get(found.element, 9):
        return False
    if not found.below or not wanted.below:
        return not found.below and not wanted.below and _kind(found.element) == _kind(wanted.element)
    kind = _group_kind(found.element)
    if kind != _group_kind(wanted.element) or len(found.below) != len(wanted.below):
        return False
    if is_wrapper and found.name not in _WRAPPERS:
        return False
    wraps = kind in ("list", "map")
    return all(
        one.repetition == other.repetition and (wraps or is_wrapper or one.name == other.name) and _holds_alike(one, other, wraps)
        for one, other in zip(found.below, wanted.below, strict=True)
    )


def _group_kind(element: Struct) -> str:
    logical, converted = get(element, 10), get(element, 6)
    if logical is not None:
        return {(3,): "list", (2,): "map"}.get(tuple(logical), repr(logical))
    if converted is None or element.get(3, (0, 0))[1] == REPEATED:
        return "struct"
    return "list" if converted in _LIST else "map" if converted in _MAPS else str(converted)


def _kind(element: Struct) -> Any:
    """How a leaf's values are stored and meant, the same for all words that say the same."""
    physical = get(element, 1)
    length = get(element, 2) if physical == _FIXED else None
    return physical, length, _meaning(physical, element)


def _meaning(physical: int, element: Struct) -> Any:
    logical, converted = get(element, 10), get(element, 6)
    if logical is None:
        return _converted(physical, converted, element)
    if tuple(logical) == (1,):
        return "string"
    if tuple(logical) == (6,):
        return "date"
    if tuple(logical) == (5,):
        decimal = logical[5][1]
        return "decimal", get(decimal, 1), get(decimal, 2)
    if tuple(logical) == (8,):
        time = logical[8][1]
        return "timestamp", get(time, 1), tuple(get(time, 2, {}))
    if tuple(logical) == (10,):
        whole = logical[10][1]
        width, signed = get(whole, 1), get(whole, 2)
        return None if signed is True and width == _WIDTHS.get(physical) else ("int", width, signed)
    return repr(logical)


def _converted(physical: int, converted: int | None, element: Struct) -> Any:
    if converted is None:
        return None
    if converted == 0:
        return "string"
    if converted == 6:
        return "date"
    if converted == 5:
        return "decimal", get(element, 7), get(element, 8)
    if converted == _MICROS:
        return "timestamp", True, (2,)
    if _INT_8 <= converted < _INT_8 + 4:
        width = 8 << converted - _INT_8
        return None if width == _WIDTHS.get(physical) else ("int", width, True)
    return str(converted)
