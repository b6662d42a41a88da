"""What the text of a plan says, as Spark explains it: the only form of a plan that classic sessions and Connect both show."""

from __future__ import annotations

import re


def analyzed(text: str) -> str:
    """The analyzed plan in what Spark explains; all of a text that was cut off before it."""
    _, title, rest = text.partition("== Analyzed Logical Plan ==")
    return rest.partition("== Optimized Logical Plan ==")[0] if title else text


def optimized_plan(text: str) -> str:
    """The optimized plan in what Spark explains."""
    return text.partition("== Optimized Logical Plan ==")[2].partition("== Physical Plan ==")[0]


# What these make of their input Spark can't foresee, and takes to be as much.
_GROWS = re.compile(
    r"^[\s:|+*-]*(Generate|MapIn\w+|PythonMapIn\w+|FlatMap\w*|\w*UDTF\w*|MapPartitions\w*|MapGroups\w*)\b", re.MULTILINE
)


def may_grow(text: str) -> bool:
    """Whether a plan has a node that may make more of its input than Spark foresees."""
    return _GROWS.search(text) is not None


_UNITS = {unit: 1 << 10 * power for power, unit in enumerate(("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"))}
_SIZE = re.compile(r"Statistics\(sizeInBytes=([0-9.]+) ([KMGTPE]?i?B)\b")


def explained_bytes(text: str) -> tuple[int | None, str]:
    """The size of a plan's result as `EXPLAIN COST` writes it beside the root of the optimized plan, and that plan."""
    optimized = optimized_plan(text)
    found = None if may_grow(optimized) else _SIZE.search(optimized.strip().partition("\n")[0])
    return None if found is None else int(float(found[1]) * _UNITS[found[2]]), optimized


_NODE = re.compile(
    r"^[\s:|+-]*(?:(?P<scan>Relation(?: [\w.`-]+)? ?\[[^\[\]]*\] (?:parquet|orc)$)|(?:Project \[|Filter )(?P<rest>.*)$)"
)
_CALL = re.compile(r"([^\s()\[\],]+)\(")
_HARMLESS = frozenset(("isnotnull", "isnull", "cast", "coalesce", "abs", "upper", "lower", "trim", "concat", "substring"))


def scans_files(text: str) -> bool:
    """Whether a plan's text has only scans, projections and filters, and calls no function but some that are known."""
    nodes = [_NODE.match(line) for line in text.strip().splitlines()]
    rests = [node["rest"] or "" for node in nodes if node]
    hides = any("subquery" in rest or "more fields" in rest or set(_CALL.findall(rest)) - _HARMLESS for rest in rests)
    scans = sum(node is not None and node["scan"] is not None for node in nodes)
    return all(nodes) and scans == 1 and not hides


_COLUMNS_OF_PARQUET = re.compile(r"(?:[\s:|+-]*Project \[.*\n)*[\s:|+-]*Relation ?\[.*\] parquet\b.*")


def may_be_parquet(text: str) -> bool:
    """Whether an optimized plan, abridged or with statistics, looks like columns of Parquet files and no more."""
    return _COLUMNS_OF_PARQUET.fullmatch(text.strip()) is not None
