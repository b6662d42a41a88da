"""Names of columns as PySpark's methods take them: parts between dots, each whole between backquotes or without any.

Source: Spark's `UnresolvedAttribute.parseAttributeName`. Unlike in SQL text blanks and signs belong to the name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from deltamerge.errors import AnalysisError

_PART = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")


def attribute_parts(name: str) -> list[str]:
    """The parts of a column's name, unquoted. Raises AnalysisError."""
    parts, place = list[str](), 0
    if not name:
        return [name]
    while True:
        part = _PART.match(name, place)
        if part is None or name[part.end() : part.end() + 1] not in ("", "."):
            raise AnalysisError(
                "INVALID_ATTRIBUTE_NAME_SYNTAX",
                f"{name!r} is no name of a column: its parts stand between single dots, whole between backquotes or without any.",
                parameters={"name": name},
                hint="Write a name with dots or backquotes in it as `a.b`, a backquote twice.",
            )
        parts.append(part[2] if part[1] is None else part[1].replace("``", "`"))
        if part.end() == len(name):
            return parts
        place = part.end() + 1


def quoted(name: str) -> str:
    """A name between backquotes, as SQL and `F.col` read it."""
    return "`" + name.replace("`", "``") + "`"


def attribute_of(parts: Iterable[str]) -> str:
    """The name that has these parts."""
    return ".".join(part if part.isidentifier() else quoted(part) for part in parts)
