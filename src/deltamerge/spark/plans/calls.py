"""How calls of functions are named in trees: sqlglot knows none by these names, and so leaves their arguments as they are."""

from __future__ import annotations

CALL = "deltamerge_call"
_NAMED_CALL = CALL + "_"
_NAMED = frozenset({"coalesce", "ifnull", "nvl", "if", "current_timestamp", "now", "current_date", "curdate"})


def call_name(function: str) -> str | None:
    """How a call of a function is named in trees where it matters which it is; None for all others."""
    return _NAMED_CALL + function.lower() if function.lower() in _NAMED else None


def called(name: str) -> str | None:
    """The function, in lower case, of a call in a tree by its name there; None for those of which it does not matter."""
    return name.removeprefix(_NAMED_CALL) if name.startswith(_NAMED_CALL) else None
