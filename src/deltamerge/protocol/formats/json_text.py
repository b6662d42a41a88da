"""JSON texts that a table's log carries within its values."""

from __future__ import annotations

import json
from typing import Any


def json_value(text: str | bytes, **options: Any) -> Any:
    """The value of a JSON text. Raises ValueError for a text that is none, or that nests too deep to be read."""
    try:
        return json.loads(text, **options)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
