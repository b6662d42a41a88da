"""The error for a name that no column has which an expression sees, with what its user probably meant."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from deltamerge.errors import AnalysisError
from deltamerge.spark.plans.attributes import attribute_parts

_WORDS = re.compile(r"\w+(?: +\w+)+")


@dataclass(frozen=True)
class Sight:
    """What an expression sees: the columns, as an error lists them, and whether some of them have no qualifier.

    `names` are all that source and target go by, whether the expression sees the side or not.
    """

    columns: Sequence[str]
    names: Sequence[str] = ()
    has_unnamed: bool = False


def unresolved(name: str, clause: str, sight: Sight, text: str | None = None, hint: str | None = None) -> AnalysisError:
    """A name that no visible column has, in the expression `text` or, without one, as what a clause sets.

    A `hint` that is given goes before those that are found here.
    """
    shown, columns = _shown(name), list(dict.fromkeys(sight.columns))
    return AnalysisError(
        "DELTA_MERGE_UNRESOLVED_EXPRESSION",
        f"Cannot resolve {shown} in {clause} given columns {', '.join(columns)}.",
        parameters={"sqlExpr": shown, "clause": clause, "cols": columns},
        hint=hint or _hint(_parts(name), sight, text),
    )


def hint_of_hidden(names: Sequence[Sequence[str]], sight: Sight) -> str | None:
    """What to do about a name that a side does not have: Spark looks for it in a column that is called like the side."""
    columns, sides = [column.lower() for column in sight.columns], [name.lower() for name in sight.names]
    for side, *rest in names:
        name = f"{side}.{rest[0]}"
        if side.lower() in sides and name.lower() not in columns:
            close = _closest(name, [column for column in sight.columns if column.lower().startswith(f"{side.lower()}.")])
            meant = "" if close is None else f" Did you mean {close}?"
            return f"There is no column {name}, so that {side} is taken for the column of this name.{meant}"
    return None


def _hint(parts: Sequence[str], sight: Sight, text: str | None) -> str | None:
    qualifier = parts[0] if len(parts) > 1 else None
    if qualifier is not None and not _is_known(qualifier, sight):
        return _unknown(qualifier, sight)
    close = _closest(".".join(parts), sight.columns)
    meant = [] if close is None else [f"Did you mean {close}?"]
    if qualifier is not None and not _is_seen(qualifier, sight):
        meant.append(f"This clause does not see {qualifier}.")
    if qualifier is None and text is not None and parts[0].isidentifier():
        said = text if _WORDS.fullmatch(text) else parts[0]  # Spark takes a second word for an alias
        meant.append(f"A text stands in quotes of its own: '{said}'.")
    return " ".join(meant) or None


def _is_known(qualifier: str, sight: Sight) -> bool:
    """Whether something goes by a word: source, target, or a column with fields."""
    known = {column.lower() for column in (*sight.names, *sight.columns, *(c.rpartition(".")[2] for c in sight.columns))}
    return qualifier.lower() in known


def _is_seen(qualifier: str, sight: Sight) -> bool:
    """Whether an expression sees the columns of source or target, if a word is the name of one of them."""
    is_side = qualifier.lower() in (name.lower() for name in sight.names)
    return not is_side or any(column.lower().startswith(f"{qualifier.lower()}.") for column in sight.columns)


def _unknown(qualifier: str, sight: Sight) -> str:
    if sight.has_unnamed:
        alias = f'.alias("{qualifier}"), in SQL AS {qualifier}'
        return f"Nothing is called {qualifier} here. Give the table or the source this alias: {alias}."
    return f"Nothing is called {qualifier} here. The names are {' and '.join(sight.names)}."


def _closest(word: str, columns: Sequence[str]) -> str | None:
    known = {column.lower(): column for column in columns} | {c.rpartition(".")[2].lower(): c for c in columns}
    close = get_close_matches(word.lower(), known, n=1) or get_close_matches(word.rpartition(".")[2].lower(), known, n=1)
    return known[close[0]] if close and word.lower() != close[0] else None


def _shown(name: str) -> str:
    """A name as users write it: Spark puts each part between backquotes."""
    parts = _parts(name)
    return ".".join(parts) if all(part.isidentifier() for part in parts) else name


def _parts(name: str) -> list[str]:
    try:
        return attribute_parts(name)
    except AnalysisError:
        return [name]
