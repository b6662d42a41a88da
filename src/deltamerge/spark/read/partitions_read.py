"""Which partitions a frame reads of a table: those that the filters next to its scan leave. What is not understood leaves all."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any

import pyarrow as pa

from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.protocol.schema.char_varchar import SIZED_TEXT
from deltamerge.protocol.schema.types import StructField
from deltamerge.spark.plans.filters import Comparison

_WHOLE_NUMBERS = ("byte", "short", "integer", "long")
_COLLATED = "__COLLATIONS"
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _day(text: str) -> date:
    if not _DAY.fullmatch(text):
        raise ValueError(text)
    return date.fromisoformat(text)


_PARSERS: Mapping[str, Callable[[str], Any]] = {"string": str, "date": _day, **dict.fromkeys(_WHOLE_NUMBERS, int)}


def may_have_read(places: Sequence[Sequence[Comparison]], files: pa.Table, snapshot: Snapshot) -> bool:
    """Whether rows of some of the files may be among those that are read: in one of several places, each with its comparisons.

    `files` are as a commit adds or removes them, of a table with the snapshot's columns.
    """
    known = {field.name: field for field in snapshot.partition_schema if _is_understood(field)}
    values = [None if pairs is None else dict(pairs) for pairs in files["partitionValues"].to_pylist()]
    for comparisons in places:
        tests = [_test(comparison, known[comparison.column]) for comparison in comparisons if comparison.column in known]
        if any(all(test(found) for test in tests) for found in values):
            return True
    return not places and bool(values)


def _is_understood(field: StructField) -> bool:
    return str(field.type) in _PARSERS and SIZED_TEXT not in field.metadata and _COLLATED not in field.metadata


def _test(comparison: Comparison, field: StructField) -> Callable[[Mapping[str, str | None] | None], bool]:
    """Whether a file with some partition values may have rows for which a comparison is true."""
    parse, name, compare = _PARSERS[str(field.type)], field.physical_name, _OPERATORS[comparison.operator]
    try:
        wanted = [parse(value) for value in comparison.values]
    except ValueError:
        return lambda _: True

    def may_hold(found: Mapping[str, str | None] | None) -> bool:
        if found is None or name not in found:
            return True
        text = found[name]
        try:
            return bool(text) and any(compare(parse(text or ""), value) for value in wanted)
        except ValueError:
            return True

    return may_hold
