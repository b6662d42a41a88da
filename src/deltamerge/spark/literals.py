"""Python values as SQL literals, for parameters of a statement. Source: the types that `SparkSession.sql` takes as `args`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from math import isfinite
from typing import Any

from deltamerge.errors import AnalysisError, InvalidArgumentError
from deltamerge.spark.sqltext import with_literals

Arguments = Mapping[str, Any] | Sequence[Any]


def with_arguments(text: str, arguments: Arguments | None) -> str:
    """The text with its parameter markers replaced by literals. Raises AnalysisError for one without an argument."""

    def literal(marker: str | int) -> str:
        given = arguments or {}
        if isinstance(given, Mapping):
            if marker in given:
                return literal_of(given[str(marker)])
        elif isinstance(marker, int) and marker < len(given):
            return literal_of(given[marker])
        raise AnalysisError(
            "UNBOUND_SQL_PARAMETER",
            f"Found the unbound parameter: {marker}.",
            parameters={"name": marker},
            hint="Give a value for it in `args`: a dict for :name, a list for ?.",
        )

    return with_literals(text, literal)


def literal_of(value: Any) -> str:
    """The SQL literal of a Python value. Raises InvalidArgumentError for a type that has none."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return f"({value})" if -(2**31) <= value < 2**31 else f"({value}L)"
    if isinstance(value, float):
        return f"({value!r}D)" if isfinite(value) else f"double('{value}')"
    if isinstance(value, Decimal):
        return f"({value:f}BD)"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, bytes | bytearray):
        return f"X'{bytes(value).hex()}'"
    if isinstance(value, datetime):
        return f"TIMESTAMP'{value.isoformat(sep=' ')}'"
    if isinstance(value, date):
        return f"DATE'{value.isoformat()}'"
    if isinstance(value, Mapping):
        return "map(" + ", ".join(f"{literal_of(key)}, {literal_of(item)}" for key, item in value.items()) + ")"
    if isinstance(value, list | tuple):
        return "array(" + ", ".join(map(literal_of, value)) + ")"
    raise InvalidArgumentError(
        "INVALID_SQL_ARG",
        f"A parameter can't be a {type(value).__name__}.",
        parameters={"value": repr(value)},
        hint="Numbers, strings, bytes, dates, timestamps, booleans, None, and lists and dicts of them.",
    )


def _string(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
