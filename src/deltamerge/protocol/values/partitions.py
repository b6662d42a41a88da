"""Partition values: their text in the log, and the folder names that hold them.

Source: PROTOCOL.md, "Partition Value Serialization"; folder escaping as Hive's, which delta-spark uses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.errors import CorruptTableError, InvalidArgumentError
from deltamerge.protocol.values.times import day_text, moment_text, parse_day, spark_moment

NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
_DIGITS = r"\A-?[0-9]+\z"
_NO_PAYLOAD = r"\A[^(]*\z"
_ESCAPED = frozenset("\"#%'*/:=?\\\x7f{[]^") | {chr(code) for code in range(32)}


def partition_text(scalar: pa.Scalar) -> str | None:
    """The log's text of one partition value; null and '' give None."""
    if not scalar.is_valid:
        return None
    if pa.types.is_timestamp(scalar.type):
        return _moment_text(scalar)
    if pa.types.is_date(scalar.type):
        return day_text(scalar.cast(pa.date32()).value)
    if pa.types.is_binary(scalar.type) or pa.types.is_string(scalar.type):
        return _bytes_text(scalar.cast(pa.binary()).as_py()) or None
    value = scalar.as_py()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return float_text(np.float32(value) if pa.types.is_float32(scalar.type) else value)
    if isinstance(value, Decimal):
        return format(value, "f")
    return str(value)


def _moment_text(scalar: pa.Scalar) -> str:
    """A timestamp: of the time line in UTC, else as it is without a fraction that is zero."""
    if scalar.type.tz:
        return moment_text(scalar.cast(pa.timestamp("us", "UTC")).value) + "Z"
    return moment_text(scalar.cast(pa.timestamp("us")).value, " ").removesuffix(".000000")


def _bytes_text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(
            "DELTAMERGE_UNSUPPORTED_PARTITION_VALUE",
            f"The value {value[:40]!r} can't be a partition value: the log keeps it as text, and it is not UTF-8.",
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

    Timestamps without an offset are read in `zone`. Raises CorruptTableError for a text that the type can't hold, which
    delta-spark takes for null, InvalidArgumentError for a `zone` that is needed and not known.
    """
    texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
    if pa.types.is_string(type):
        return texts
    try:
        if pa.types.is_timestamp(type):
            return _of_each(texts, lambda text: spark_moment(text, zone if type.tz else None), pa.int64()).cast(type)
        if pa.types.is_date(type):
            return _days(texts).cast(type)
        if pa.types.is_binary(type):
            return pa.array([None if t is None else t.encode("utf-8", "surrogateescape") for t in texts.to_pylist()], type)
        if pa.types.is_integer(type) or pa.types.is_floating(type):
            _check_number(texts, _DIGITS if pa.types.is_integer(type) else _NO_PAYLOAD)
        return texts.cast(type)
    except (pa.ArrowInvalid, ValueError) as error:
        raise CorruptTableError(
            "DELTAMERGE_CORRUPT_PARTITION_VALUE",
            f"A partition value in the transaction log is no {type}: {error}.",
            parameters={"type": str(type)},
        ) from error


def _check_number(texts: pa.Array, pattern: str) -> None:
    """Raise ValueError for a text that Arrow takes for a number and Spark doesn't: `0xFF`, which it wraps, and `nan(1)`."""
    distinct = texts.unique()
    wrong = distinct.filter(pc.invert(pc.match_substring_regex(distinct, pattern)))
    if len(wrong):
        raise ValueError(f"{wrong[0].as_py()!r} is no number")


def _of_each(texts: pa.Array, parse: Callable[[str], int], type: pa.DataType) -> pa.Array:
    """What `parse` makes of each text, called once for each different one."""
    found = texts.dictionary_encode()
    return pa.array([None if text is None else parse(text) for text in found.dictionary.to_pylist()], type).take(found.indices)


def _days(texts: pa.Array) -> pa.Array:
    try:
        return texts.cast(pa.date32())
    except pa.ArrowInvalid:
        return _of_each(texts, parse_day, pa.int32())


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
