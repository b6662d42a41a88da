"""Partition values: their text in the log, and the folder names that hold them.

Source: PROTOCOL.md, "Partition Value Serialization"; folder escaping as Hive's, which delta-spark uses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import quote, unquote
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.errors import CorruptTableError, InvalidArgumentError

NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = frozenset("\"#%'*/:=?\\\x7f{[]^") | {chr(code) for code in range(32)}


def partition_text(value: Any) -> str | None:
    """The log's text of one partition value, given as the Python object of an Arrow scalar; null and '' give None."""
    if value is None or value == "" or value == b"":
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float | np.floating):
        return float_text(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return value.isoformat(sep=" ", timespec="microseconds" if value.microsecond else "seconds")
        return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return _binary_text(value)
    return str(value)


def _binary_text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(
            "DELTAMERGE_UNSUPPORTED_PARTITION_VALUE",
            f"The binary value {value[:40]!r} can't be a partition value: the log keeps it as text, and it is not UTF-8.",
            parameters={"value": value[:40].hex()},
            hint="Partition by another column, or by hex(column).",
        ) from error


def float_text(value: float | np.floating[Any]) -> str:
    """A float as Java prints it, which every Delta reader parses: `1.5`, `1.0E100`, `NaN`, `-Infinity`."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    text = np.format_float_scientific(value, unique=True, trim="0", exp_digits=1)
    mantissa, exponent = text.split("e")
    if value == 0 or -3 <= int(exponent) < 7:
        return str(np.format_float_positional(value, unique=True, trim="0"))
    return f"{mantissa}E{int(exponent)}"


def parse_partition_values(texts: pa.Array, type: pa.DataType, zone: str = "UTC") -> pa.Array:
    """Typed values of partition texts (an Arrow string array); '' is null for every type.

    Timestamps without an offset are read in `zone`. Raises CorruptTableError for a text that the type can't hold.
    """
    texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
    if pa.types.is_string(type):
        return texts
    try:
        if pa.types.is_timestamp(type):
            return pa.array([_timestamp(text, type, zone) for text in texts.to_pylist()], pa.int64()).cast(type)
        if pa.types.is_binary(type):
            return pa.array([None if t is None else t.encode("utf-8", "surrogateescape") for t in texts.to_pylist()], type)
        return texts.cast(type)
    except (pa.ArrowInvalid, ValueError) as error:
        raise CorruptTableError(
            "DELTAMERGE_CORRUPT_PARTITION_VALUE",
            f"A partition value in the transaction log is no {type}: {error}.",
            parameters={"type": str(type)},
        ) from error


def _timestamp(text: str | None, type: pa.DataType, zone: str) -> int | None:
    if text is None:
        return None
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC if type.tz is None else ZoneInfo(zone))
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def partition_folder(values: Mapping[str, str | None]) -> str:
    """The folder of a partition, `a=1/b=x`, escaped for a file system but not for the log."""
    return "/".join(f"{_escape(name)}={NULL_FOLDER if text is None else _escape(text)}" for name, text in values.items())


def _escape(text: str) -> str:
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in text)


def encode_path(name: str) -> str:
    """A file's name as the log holds it: percent-encoded."""
    return quote(name, safe="/=:@!$&'()*+,;~-._")


def decode_path(path: str) -> str:
    """The file's name that a log's `path` stands for."""
    return unquote(path)
