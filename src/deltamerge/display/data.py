"""Results as JSON: whatever a row may hold becomes a value that JSON has."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from datetime import date, datetime, time
from typing import Any


def plain_json(value: Any) -> Any:
    """A value as JSON has it: times in ISO 8601, bytes in base 64, keys of mappings and all that is unknown as text.

    Numbers that JSON lacks (NaN, infinities) are texts, too.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {str(key): plain_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain_json(item) for item in value]
    return str(value)


def json_text(value: Any) -> str:
    """A value as indented JSON text."""
    return json.dumps(plain_json(value), indent=2, ensure_ascii=False)
