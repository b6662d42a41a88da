"""Python values as SQL literals, for parameters of a statement. Source: the types that `SparkSession.sql` takes as `args`."""

from __future__ import annotations

import calendar
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any

from deltamerge.errors import AnalysisError, InvalidArgumentError
from deltamerge.spark.sql.text import with_literals

Arguments = Mapping[str, Any] | Sequence[Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONG = range(-(2**63), 2**63)


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
    """The SQL literal of a Python value. Raises InvalidArgumentError for a type that has none.

    A datetime without a time zone is of the process's, as everywhere in PySpark.
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int) and value in _LONG:
        return f"({value})" if -(2**31) <= value < 2**31 else f"({value}L)"
    if isinstance(value, float):
        return f"({float(value)!r}D)" if isfinite(value) else f"double('{value}')"
    if isinstance(value, Decimal) and value.is_finite():
        return f"({value:f}BD)"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, bytes | bytearray):
        return f"X'{bytes(value).hex()}'"
    if isinstance(value, datetime):
        return _moment(value)
    if isinstance(value, date):
        return f"DATE'{value.isoformat()}'"
    if isinstance(value, timedelta) and value // timedelta(microseconds=1) in _LONG:
        return f"({value // timedelta(microseconds=1)}L * INTERVAL '0.000001' SECOND)"
    if isinstance(value, Mapping):
        return "map(" + ", ".join(f"{literal_of(key)}, {literal_of(item)}" for key, item in value.items()) + ")"
    if isinstance(value, list | tuple):
        return "array(" + ", ".join(map(literal_of, value)) + ")"
    raise InvalidArgumentError(
        "INVALID_SQL_ARG",
        f"A parameter can't be this {type(value).__name__}: {str(value)[:100]}.",
        parameters={"value": repr(value)},
        hint="Numbers, strings, bytes, dates, timestamps, timedeltas, booleans, None, and lists and dicts of them.",
    )


def _string(value: str) -> str:
    """By its bytes where Spark may read the text otherwise: by its settings, or in place of a variable."""
    if any(mark in value for mark in ("\\", "'", "${")):
        return f"CAST(X'{value.encode().hex()}' AS STRING)"
    return f"'{value}'"


def _moment(value: datetime) -> str:
    """As PySpark takes it: without a time zone it is one of the process's."""
    if value.tzinfo is None:
        seconds = int(time.mktime(value.timetuple()))
    else:
        seconds = calendar.timegm(value.replace(tzinfo=None).timetuple()) - (value.utcoffset() or timedelta()) // timedelta(
            seconds=1
        )
    try:
        moment = _EPOCH + timedelta(seconds=seconds, microseconds=value.microsecond)
    except OverflowError:
        return f"timestamp_micros({seconds * 1_000_000 + value.microsecond}L)"
    return f"TIMESTAMP'{moment.isoformat(sep=' ')}'"
