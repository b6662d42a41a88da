"""Choices as text: what is known of a merge, its files and its source, and the plan that is chosen by it. Runs nothing.

A choice is a title and lines of `name: value`; what is left out is a table of two files with ranges of keys of their own, an
upsert of all columns by `k`, and a source of which nothing is known. Below `plan:` stands the plan, a line each.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from deltamerge.budgets import Budgets
from deltamerge.merge.plan.choose import Facts, choose, may_be_exchanged
from deltamerge.merge.plan.logical import LogicalPlan, Strategy, Wishes, logical_plan
from deltamerge.merge.plan.physical import Exchange, PhysicalPlan
from deltamerge.merge.plan.prune import FileFacts, prune, prune_by_source
from deltamerge.merge.resolve.resolve import ColumnValue, ResolvedClause, ResolvedMerge
from deltamerge.merge.statement.clauses import Action, ClauseKind
from deltamerge.protocol.schema.types import PrimitiveType, StructField, StructType, arrow_schema
from deltamerge.protocol.table.actions import Protocol
from deltamerge.protocol.table.constraints import Check, TableConstraints
from deltamerge.spark.session.schema import spark_type
from deltamerge.spark.source.facts import Evaluation, Source, SourceFacts, SourceFile
from tests.unit.merge.merges import COLUMN, FRAME, expression, merge_of, snapshot_of

FEATURES = frozenset({"deletionVectors", "changeDataFeed", "rowTracking", "domainMetadata", "clustering", "identityColumns"})
PROPERTIES = {
    "vectors": {"delta.enableDeletionVectors": "true"},
    "feed": {"delta.enableChangeDataFeed": "true"},
    "row ids": {
        "delta.enableRowTracking": "true",
        "delta.rowTracking.materializedRowIdColumnName": "_row_id",
        "delta.rowTracking.materializedRowCommitVersionColumnName": "_row_version",
    },
}
IDENTITY = {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.allowExplicitInsert": False}
_UNITS = {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}


@dataclass(frozen=True)
class Choice:
    """What is given, by name, and the plan that is expected."""

    title: str
    given: dict[str, str] = field(repr=False)
    plan: tuple[str, ...] = field(repr=False)


def choices(path: Path) -> list[Choice]:
    """The choices of a file."""
    found = []
    for section in re.split(r"^## ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        title, _, body = section.partition("\n")
        head, _, plan = body.partition("plan:\n")
        given = dict(line.split(": ", 1) for line in head.splitlines() if line.strip())
        found.append(Choice(title, given, tuple(line.strip() for line in plan.splitlines() if line.startswith("    "))))
    return found


def plan_of(choice: Choice) -> PhysicalPlan:
    """The plan that is chosen."""
    given = dict(choice.given)
    known = {name: float(value) for name, value in _pairs(given.pop("budgets", "")).items()}
    budgets = Budgets(**{name: int(value) if value == int(value) else value for name, value in known.items()})  # type: ignore[arg-type]
    strategy = Strategy(given.pop("strategy", "auto"))
    rereads = given.pop("rereads", None)
    source = given.pop("source", "")
    logical = replace(logical_plan(_resolved(given), Wishes(strategy)), **({"rereads": rereads} if rereads else {}))
    facts, files = _facts(logical, source)
    plan = choose(logical, Facts(facts, files), budgets)
    assert may_be_exchanged(logical, budgets) or not any(isinstance(attempt, Exchange) for attempt in plan.attempts)
    return plan


def _pairs(text: str) -> dict[str, str]:
    return {name: value for name, _, value in (part.partition("=") for part in text.split())}


def _schema(text: str) -> StructType:
    fields = []
    for part in text.split(", "):
        name, _, kind = part.partition(" ")
        length = re.search(r"char\(\d+\)", kind)
        metadata = {"__CHAR_VARCHAR_TYPE_STRING": kind} if length else {}
        fields.append(StructField(name, PrimitiveType("string" if length else kind), metadata=metadata))
    return StructType(tuple(fields))


def _resolved(given: dict[str, str]) -> ResolvedMerge:
    target = _schema(given.pop("target", "k long, v integer, w string"))
    source = _schema(given.pop("source columns")) if "source columns" in given else target
    snapshot = snapshot_of(target, _files(given), [name for name in given.pop("partitioned by", "").split(", ") if name])
    marks, statement = given.pop("table", "").split(", "), given.pop("statement", "merge")
    properties = {key: value for mark in marks for key, value in PROPERTIES.get(mark, {}).items()}
    snapshot = replace(
        snapshot,
        protocol=Protocol(3, 7, FEATURES & {"deletionVectors"}, FEATURES),
        metadata=replace(snapshot.metadata, configuration=properties),
    )
    clauses = [_clause(text, target, source) for text in given.pop("when", "update: * | insert: *").split(" | ")]
    merge = merge_of(snapshot, source, given.pop("on", "t.k = s.k"), *clauses)
    merge = replace(merge, spec=replace(merge.spec, derives_deletes=statement == "delete"))
    if "constraint" in marks:
        merge = replace(merge, constraints=TableConstraints(checks=(Check("positive", "v > 0"),)))
    if "identity" in marks:
        generated = StructField("k", PrimitiveType("long"), metadata=IDENTITY)
        numbered = tuple(replace(clause, numbered=frozenset({"k"})) for clause in merge.clauses)
        merge = replace(merge, schema=StructType((generated, *target.fields[1:])), clauses=numbered)
    if "evolves" in marks:
        merge = replace(merge, metadata=snapshot.metadata)
    if "skip unchanged" in marks:
        merge = replace(merge, original_clauses=merge.clauses)
    assert not given, given
    return merge


def _files(given: dict[str, str]) -> list[dict[str, Any]]:
    """Files by the ranges of their columns and the values of their partitions, `?` for one without statistics."""
    found = []
    rows, size = int(given.pop("rows a file", "10")), _bytes(given.pop("file size", "1KB"))
    text = given.pop("files", "k=0..9, k=10..19")
    for number, part in enumerate(text.split(", ") if text != "none" else []):
        named = {name: value for name, value in _pairs(part.replace("?", "")).items() if name}
        bounds = {name: value.split("..") for name, value in named.items() if ".." in value}
        partition = {name: value for name, value in named.items() if ".." not in value}
        stats = {
            "numRecords": rows,
            "minValues": {name: int(low) for name, (low, _) in bounds.items()},
            "maxValues": {name: int(high) for name, (_, high) in bounds.items()},
            "nullCount": dict.fromkeys(bounds, 0),
        }
        text_of = None if part == "?" else json.dumps(stats)
        found.append({"path": f"{number}", "size": size, "partitionValues": partition, "modificationTime": 0, "stats": text_of})
    return found


def _clause(text: str, target: StructType, source: StructType) -> ResolvedClause:
    """`[by source ]action[ if condition][: assignments]`; `*` assigns each column of the target from the source's of its name."""
    head, _, values = text.partition(": ")
    head, _, condition = head.partition(" if ")
    by_source, action = head.startswith("by source "), Action(head.removeprefix("by source "))
    kind = ClauseKind.BY_SOURCE if by_source else ClauseKind.NOT_MATCHED if action is Action.INSERT else ClauseKind.MATCHED
    given = [f"{name}=s.{name}" for name in target.names] if values == "*" else [part for part in values.split(", ") if part]
    pairs = [part.split("=", 1) for part in given]
    assigned = tuple(ColumnValue(name, expression(value), _type(value, target, source)) for name, value in pairs)
    return ResolvedClause(0, kind, action, expression(condition) if condition else None, assigned)


def _type(value: str, target: StructType, source: StructType) -> Any:
    side, _, name = value.removesuffix(" END").rpartition(" ")[2].partition(".")
    found = {"s": source, "t": target}.get(side, StructType(())).find(name) if name.isidentifier() else None
    return COLUMN if found is None else spark_type(found.type)


def _bytes(text: str) -> int:
    number, unit = re.fullmatch(r"(\d+)(\w*)", text).groups()  # type: ignore[union-attr]
    return int(number) * _UNITS[unit]


def _facts(logical: LogicalPlan, text: str) -> tuple[SourceFacts, FileFacts]:
    """What is known of the source and, by it, of the files: words, and pairs of a name and a value."""
    words = _pairs(text)
    files = prune(logical)
    if "collected" in words:
        keys = [int(key) for key in words["collected"].split(",")]
        names = [pair.source for pair in logical.pairs]
        columns = [field for field in arrow_schema(logical.resolved.scope.source) if field.name in logical.source_columns]
        arrays = [pa.array(keys, pa.int64()).cast(f.type) if f.name in names else pa.nulls(len(keys), f.type) for f in columns]
        table = pa.table(arrays, schema=pa.schema(columns))
        kept = (SourceFile("a", 1, 1, 1, (1, 1)),) if "files" in words else ()
        facts = SourceFacts(Evaluation.COLLECTED, len(keys), table.nbytes, files=kept)
        files = prune_by_source(logical, files, Source(lambda: FRAME, facts, table), Budgets())
        return facts, replace(files, lookup=None) if "unnumbered" in words else files
    bounds = None
    if "bounds" in words:
        low, high = words["bounds"].split("..")
        bounds = pa.table({"k": pa.array([int(low), int(high)], pa.int64())})
    sizes = {name: _bytes(words[name]) for name in ("estimate", "rows", "bytes") if name in words}
    facts = SourceFacts(
        Evaluation(words["evaluation"]) if "evaluation" in words else Evaluation.NONE,
        sizes.get("rows"),
        sizes.get("bytes"),
        sizes.get("estimate"),
        (SourceFile("a", 1, 1, 1, (1, 1)),) if "files" in words else (),
        "invisible" not in words,
        bounds,
        "repeatable" in words,
        "intervals" not in words,
        "nested" not in words,
        8,
    )
    return facts, files
