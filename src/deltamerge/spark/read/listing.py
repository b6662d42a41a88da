"""What a catalog says of a table: its whole name, its format, where it lies. Read from the answers of DESCRIBE and SHOW.

`DESCRIBE` fails where Spark lacks the table's format; `SHOW TABLE EXTENDED` answers as text, in which comments and properties of
the table stand among the rest. Must not know sessions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

_DETAILS = "# Detailed Table Information"
_PLAIN = re.compile(r"(\w+)\.(\w+)\.(\w+)")
_AFTER_LOCATION = ("Serde Library", "InputFormat", "OutputFormat", "Compressed", "Storage Properties", "Partition Provider",
                   "Partition Columns", "Schema")  # fmt: skip
_LOCATION = re.compile(rf"^Location: (.*)$(?=\n(?:(?:{'|'.join(_AFTER_LOCATION)}): |\n|\Z)|\Z)", re.MULTILINE)
_IN_PATTERN = re.compile(r"\w", re.ASCII)


@dataclass(frozen=True, slots=True)
class Listed:
    """A table or view as its catalog lists it: its name with all of its parts, its format in lower case, where it lies.

    Whether this session's Spark knows the format, and whether the catalog deletes the folder with the table, or surely does not.
    """

    name: tuple[str, ...]
    provider: str = ""
    location: str | None = None
    is_view: bool = False
    is_read_by_spark: bool = True
    is_managed: bool = False
    is_external: bool = False

    @property
    def is_delta(self) -> bool:
        """Whether the catalog says that it is a Delta table."""
        return self.provider == "delta" and self.location is not None and not self.is_view


def described(name: Sequence[str], rows: Iterable[Sequence[str | None]]) -> Listed:
    """What DESCRIBE TABLE EXTENDED says of the table that it was asked for by this name."""
    cells = [(row[0] or "", row[1] or "") for row in rows]
    begin = max((n for n, (key, _) in enumerate(cells) if key == _DETAILS), default=len(cells))
    details: dict[str, str] = {}
    for key, value in cells[begin:]:
        details.setdefault(key, value)
    return _listed(name, details, details.get("Location"))


def shown(name: Sequence[str], rows: Iterable[Mapping[str, str]]) -> Listed | None:
    """What SHOW TABLE EXTENDED says of the table that it was asked for by this name, among those that fit its pattern.

    None where it is not there, is a temporary view, or can't be told from others, or its location from other text. With its
    database the name is no temporary view's.
    """
    found = [row for row in rows if row["tableName"].lower() == name[-1].lower()]
    found = [row for row in found if not row["isTemporary"]] if len(name) > 1 else found
    exact = [row for row in found if row["tableName"] == name[-1]] or found
    if len(exact) != 1 or exact[0]["isTemporary"]:
        return None
    text = exact[0]["information"]
    details: dict[str, str] = {}
    for line in text.split("\n"):
        key, colon, value = line.partition(": ")
        if colon:
            details.setdefault(key, value)
    locations = _LOCATION.findall(text)
    if len(locations) > 1:
        return None
    return replace(_listed(name, details, locations[0] if locations else None), is_read_by_spark=False)


def pattern(name: str) -> str:
    """A pattern of SHOW TABLES, free of signs that need quotes, which fits this name, and perhaps others."""
    return "".join(char if _IN_PATTERN.match(char) else "*" for char in name)


def _listed(name: Sequence[str], details: Mapping[str, str], location: str | None) -> Listed:
    whole = tuple(details.get(key, "") for key in ("Catalog", "Database", "Table"))
    if not all(whole):
        plain = _PLAIN.fullmatch(details.get("Name", ""))
        whole = plain.groups() if plain else tuple(name)
    kind = details.get("Type", "").upper()
    is_view = not details or "View Text" in details or kind == "VIEW"  # of a temporary one it may say nothing
    return Listed(
        whole,
        details.get("Provider", "").lower(),
        location or None,
        is_view,
        is_managed=kind == "MANAGED",
        is_external=kind == "EXTERNAL",
    )
