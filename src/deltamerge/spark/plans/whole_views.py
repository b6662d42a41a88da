"""Whether a view shows all rows and columns of what stands below an alias, as the text of its analyzed plan says."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LINE = re.compile(r"((?:   )*\+- )?([A-Z].*)")
_STEP = 3
_ALIAS = "SubqueryAlias "
_NAMED = re.compile(r"(?:View \((?:`(?:[^`]|``)*`\.?)+, |Project )\[(?P<columns>.*?)\]\)?")
_NO_BLANK = re.compile(r"(?<=[0-9L]),(?! )")  # between the columns of a view of PySpark 3.5
_CAST = re.compile(r"cast\((?P<column>(?P<name>\w+)#\d+)L? as [\w(),<>:]+\) AS (?P<given>(?P=name)#\d+L?)")


@dataclass(frozen=True, slots=True)
class Shown:
    """What a view shows of an alias that fits a pattern: whether it may leave out rows, and has all columns in their order."""

    alias: re.Match[str]
    is_filtered: bool
    has_all_columns: bool


def shown_alias(text: str, pattern: str) -> Shown | None:
    """What a view shows of the one alias in its plan; None where it does more than choose rows and columns, or it can't be told.

    The alias has a projection above it that names its columns.
    """
    nodes = _down_to(text, re.compile(f"{_ALIAS}(?:{pattern})"))
    if len(nodes) < 2 or not nodes[-2].startswith("Project [") or len(re.findall(pattern, text)) != 1:
        return None
    columns, is_filtered, has_all_columns = _columns(nodes[-2]), False, True
    for node in reversed(nodes[:-2]):
        named = _columns(node)
        if named is not None and columns is not None:
            columns, is_same = _kept(columns, named)
            has_all_columns = has_all_columns and is_same
        elif node.startswith("Filter "):
            is_filtered = True
        elif not node.startswith(_ALIAS):
            return None
    alias = re.fullmatch(pattern, nodes[-1].removeprefix(_ALIAS))
    return None if alias is None or columns is None else Shown(alias, is_filtered, has_all_columns)


def _down_to(text: str, last: re.Pattern[str]) -> list[str]:
    """The nodes of a plan from its root to one that fits, each of which has one below it; [] where there is no such path."""
    nodes: list[str] = []
    for line in text.splitlines():
        found = _LINE.fullmatch(line)
        if found is None or len(found[1] or "") != _STEP * len(nodes):
            if nodes:
                return []
            continue  # a title, or the columns of the result
        nodes.append(found[2])
        if last.fullmatch(found[2]):
            return nodes
    return []


def _columns(node: str) -> str | None:
    found = _NAMED.fullmatch(node)
    if found is None:
        return None
    return _NO_BLANK.sub(", ", found["columns"]) if node.startswith("View ") else str(found["columns"])


def _kept(columns: str, given: str) -> tuple[str, bool]:
    """Columns that are made of others, and whether they are the same ones; the views of SQL cast each to the type that it had."""
    if given == columns:
        return given, True
    casts = [_CAST.fullmatch(item) for item in given.split(", ")]
    if [cast and cast["column"] for cast in casts] != [item.removesuffix("L") for item in columns.split(", ")]:
        return given, False
    return ", ".join(cast["given"] for cast in casts if cast), True
