"""Comparisons of columns with values that stand next to a scan in the text of an analyzed plan.

Texts within a plan have no quotes. A filter counts only if all of it is known, and its values are words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_LINE = re.compile(r"(?P<indent>(?:[ :]  )*(?:[+:]- )?)(?P<node>[A-Z]\w* .*)")
_STEP = 3
_ATTRIBUTE = r"(?P<column>\w+#\d+)L?"
_WORD = r"(?:[\w.-]+|cast\([\w.-]+ as (?:date|int|bigint|smallint|tinyint)\))"
_COMPARISON = re.compile(rf"\({_ATTRIBUTE} (?P<operator>=|<|<=|>|>=) (?P<value>{_WORD})\)")
_IN = re.compile(rf"{_ATTRIBUTE} IN \((?P<values>{_WORD}(?:,{_WORD})*)\)")
_BETWEEN = re.compile(rf"between\({_ATTRIBUTE}, (?P<low>{_WORD}), (?P<high>{_WORD})\)")
_NOT_NULL = re.compile(rf"isnotnull\({_ATTRIBUTE}\)")
_OUTPUT = re.compile(r"(\w+)#(\d+)L?")
_CAST = re.compile(r"cast\((.*) as \w+\)")


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column, how it is compared, and with which values, of which one has to hold."""

    column: str
    operator: str
    values: tuple[str, ...]


def comparisons_above(text: str, alias: str) -> list[list[Comparison]]:
    """For each place in a plan where an alias that matches a pattern stands: what its rows are compared with, before anything is
    done with them but a choice of columns. [] where places can't be told apart.

    The alias has a projection above it that names its columns.
    """
    lines = text.splitlines()
    wanted = re.compile(rf"SubqueryAlias {alias}")
    found = []
    for n, line in enumerate(lines):
        match = _LINE.fullmatch(line)
        if match is not None and wanted.fullmatch(match["node"]):
            found.append(list(_comparisons(list(_above(lines, n, len(match["indent"]))))))
    return found if len(found) == len(list(re.finditer(alias, text))) else []


def _above(lines: list[str], n: int, indent: int) -> Iterator[str]:
    """The nodes above a line of a plan, nearest first, up to one with other children or texts of more than a line."""
    while n and indent:
        n, indent = n - 1, indent - _STEP
        match = _LINE.fullmatch(lines[n])
        if match is None or len(match["indent"]) != indent:
            return
        yield match["node"]


def _comparisons(nodes: list[str]) -> Iterator[Comparison]:
    if not nodes or not nodes[0].startswith("Project ["):
        return
    outputs = {found[0] for item in nodes[0][len("Project [") : -1].split(", ") if (found := _OUTPUT.fullmatch(item))}
    known = {output.removesuffix("L"): _OUTPUT.fullmatch(output)[1] for output in outputs}  # type: ignore[index]
    for node in nodes[1:]:
        if node.startswith("Filter "):
            for comparison in _conjuncts(node.removeprefix("Filter ")) or ():
                if comparison.column in known:
                    yield Comparison(known[comparison.column], comparison.operator, comparison.values)
        elif not node.startswith(("Project [", "SubqueryAlias ", "View (")):
            return


def _conjuncts(text: str) -> list[Comparison] | None:
    """The comparisons of a condition, columns with their numbers; None where any part of it is not known."""
    if found := _COMPARISON.fullmatch(text):
        return [Comparison(found["column"], found["operator"], (_plain(found["value"]),))]
    if found := _IN.fullmatch(text):
        return [Comparison(found["column"], "=", tuple(map(_plain, found["values"].split(","))))]
    if found := _BETWEEN.fullmatch(text):
        return [Comparison(found["column"], op, (_plain(found[side]),)) for op, side in ((">=", "low"), ("<=", "high"))]
    if _NOT_NULL.fullmatch(text):
        return []
    sides = _sides(text)
    if sides is None:
        return None
    left, right = map(_conjuncts, sides)
    return None if left is None or right is None else left + right


def _sides(text: str) -> tuple[str, str] | None:
    """Both sides of an AND between parentheses; None for another text."""
    if not (text.startswith("(") and text.endswith(")")):
        return None
    inner, level = text[1:-1], 0
    places = []
    for n, char in enumerate(inner):
        level += (char == "(") - (char == ")")
        if level < 0:
            return None
        if not level and inner.startswith(" AND ", n):
            places.append(n)
    return (inner[: places[0]], inner[places[0] + 5 :]) if len(places) == 1 else None


def _plain(value: str) -> str:
    cast = _CAST.fullmatch(value)
    return value if cast is None else cast[1]
