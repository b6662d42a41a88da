"""Temporary views whose queries this library keeps, because Spark can't read what they name: an alias in the plan says which.

A session that Spark clones has the views of the first one, and a view is gone when another one has taken its name. So the query
is found by the view's plan, not by its name: that only says for which views it is worth looking.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from deltamerge.spark.pyspark.adapter import aliases_within
from deltamerge.spark.session.frames import Frame

_MARK = "__deltamerge_view"
_ALIAS = re.compile(rf"\b{_MARK}_[0-9a-f]{{24}}\b")


@dataclass(frozen=True, slots=True)
class KeptView:
    """The query of a temporary view, and the database in which its names are to be found.

    `columns` are those that the query had when the view was made, `names` what the view calls them.
    """

    query: str
    database: str
    columns: tuple[str, ...]
    names: tuple[str, ...]
    comments: tuple[str | None, ...]
    is_global: bool


# The views that this process has made, by their aliases: as many as there are texts.
_VIEWS: dict[str, KeptView] = {}
_NAMES: set[str] = set()


def keep(name: str, view: KeptView) -> str:
    """Keep the view that a name is about to get. Returns the alias of its frame."""
    alias = f"{_MARK}_{hashlib.sha256(repr(view).encode(errors='surrogatepass')).hexdigest()[:24]}"
    _VIEWS[alias] = view
    _NAMES.add(name.lower())
    return alias


def are_kept() -> bool:
    """Whether any view was kept."""
    return bool(_NAMES)


def may_be_kept(name: str) -> bool:
    """Whether a view of this name, without its database, was kept in any session."""
    return name.lower() in _NAMES


def kept_alias(frame: Frame) -> str | None:
    """The alias of the kept view that a frame of a view shows, the outermost if it is one of others; None for any other view."""
    found = _ALIAS.search(aliases_within(frame, _MARK))
    return None if found is None else found[0]


def kept_view(alias: str) -> KeptView | None:
    """What is kept by an alias; None for one of another process."""
    return _VIEWS.get(alias)


def aliased(frame: Frame, alias: str | None) -> Frame:
    """The frame with the alias of a view, which is below a projection so that no other alias takes its place."""
    return frame if alias is None else frame.alias(alias).select("*")
