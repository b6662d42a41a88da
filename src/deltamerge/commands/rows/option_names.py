"""Names of options that say nothing to a Delta table. Must not know a session or a table."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from deltamerge.errors import InvalidArgumentError

_ALIKE = 0.75
# They say which rows an overwrite replaces: without them it would replace all.
_REPLACING = ("replaceon", "replaceusing", "targetalias")

log = logging.getLogger("deltamerge.activation")


def check_unknown(names: Iterable[str], known: Sequence[str], what: str) -> None:
    """Raise InvalidArgumentError for a name that is nearly one of those `known`, or says which rows are replaced; tell of others
    that they are ignored, as delta-spark ignores them.
    """
    ignored = sorted(names)
    spelled = {name.lower(): name for name in known}
    for name in ignored:
        alike = get_close_matches(name.lower(), spelled, 1, _ALIKE)
        if alike or name.lower() in _REPLACING:
            raise InvalidArgumentError(
                "DELTAMERGE_UNKNOWN_OPTION",
                f"There is no option {name} of {what}.",
                parameters={"options": [name]},
                hint=f"Did you mean {spelled[alike[0]]}?" if alike else f"There are {', '.join(known)}.",
            )
    if ignored:
        log.warning("These options say nothing to %s into a Delta table, and are ignored: %s.", what, ", ".join(ignored))
