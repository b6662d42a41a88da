"""Case tables as Delta tables and back: written and read on the driver, so that a table costs no Spark job.

What this library must not do itself, such as writing tables of features that it refuses, is done here by hand.
"""

from __future__ import annotations

import functools
import json
import re
import shutil
import time
import uuid
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from deltamerge.budgets import current_budgets
from deltamerge.log.commit.transaction import Proposal, commit
from deltamerge.log.replay.files import FILE_SCHEMA, FileSet, table_of
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.log.replay.table import DeltaLog
from deltamerge.protocol.schema.types import StructType, arrow_schema, parse_schema, schema_json
from deltamerge.protocol.table.actions import Action, Metadata
from deltamerge.protocol.table.column_mapping import MAX_ID, assigned, logical_schema, mapping_mode
from deltamerge.protocol.table.features import FEATURE_PROPERTY, needed, upgraded
from deltamerge.spark.session.jobs import local_frame
from deltamerge.spark.session.schema import nullable_type, to_spark
from deltamerge.spark.stages.results import added_files
from deltamerge.spark.stages.target import file_tasks, scan_spec, write_spec
from deltamerge.storage.local import LocalStore
from deltamerge.tables import DeltaTable
from deltamerge.worker.entry import write_map
from deltamerge.worker.scan.scan import FileTask, ScanSpec, scan_file
from tests.cases.format import Table
from tests.cases.values import Malformed, header_text, parse_row, render, sort_key

VECTORS = ("delta.enableDeletionVectors", "true")
_COLUMN = re.compile(
    r"(`(?:[^`]|``)+`|\S+) (.+?)( not null)?(?: invariant (.+?))?(?: default (.+?))?(?: generated (.+?)| identity(?: (.+?))?)?"
)
_CHARS = re.compile(r"\b(?:var)?char\(\d+\)")
_ROW_COLUMNS = ("delta.rowTracking.materializedRowIdColumnName", "delta.rowTracking.materializedRowCommitVersionColumnName")
_IDENTITY = "delta.identity."


@dataclass(frozen=True)
class Rows:
    """A table's content as a case shows it: header cells, and the rows in order, each as its cells."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def schema_of(header: Iterable[str]) -> T.StructType:
    """The Spark schema that header cells say, with the metadata that Delta keeps of columns. Raises Malformed."""
    return T.StructType([_field(cell) for cell in header])


@functools.lru_cache(maxsize=1024)
def _field(cell: str) -> T.StructField:
    match = _COLUMN.fullmatch(cell)
    if match is None:
        raise Malformed(f"no column: {cell!r}")
    name, text, required, invariant, default, generated, identity = match.groups()
    metadata: dict[str, Any] = {}
    if invariant:
        metadata["delta.invariants"] = json.dumps({"expression": {"expression": invariant}})
    if default:
        metadata["CURRENT_DEFAULT"] = default
    if generated:
        metadata["delta.generationExpression"] = generated
    if " identity" in cell:
        explicit = "by default" in (identity or "")
        start, step = (int(number) for number in (re.findall(r"-?\d+", identity or "") or ["1", "1"]))
        metadata |= {_IDENTITY + "start": start, _IDENTITY + "step": step, _IDENTITY + "allowExplicitInsert": explicit}
    if _CHARS.search(text):  # as Spark keeps it: the column's whole type, wherever in it the texts are
        metadata["__CHAR_VARCHAR_TYPE_STRING"] = text.replace(": ", ":").replace(", ", ",")
        text = _CHARS.sub("string", text)
    plain = name[1:-1].replace("``", "`") if name.startswith("`") else name
    return T.StructField(plain, type_of(text), not required, metadata)


@functools.lru_cache(maxsize=1024)
def type_of(text: str) -> T.DataType:
    """The Spark type of a type's text."""
    return T._parse_datatype_string(f"struct<c: {text}>").fields[0].dataType


def arrow_rows(lines: Iterable[str], spark_schema: T.StructType, schema: pa.Schema) -> pa.Table:
    """Rows of a case as an Arrow table."""
    types = [field.dataType for field in spark_schema.fields]
    rows = [parse_row(line, types) for line in lines]
    columns = [pa.array([row[at] for row in rows], field.type) for at, field in enumerate(schema)]
    return pa.table(columns, schema=pa.schema([pa.field(f.name, f.type) for f in schema]))


def create_table(table: Table, path: Path, vectors: bool) -> None:
    """Write a case's table; `vectors` gives it deletion vectors."""
    spark_schema = schema_of(table.header)
    schema = parse_schema(json.dumps(spark_schema.jsonValue()))
    configuration = dict(table.properties) | dict([VECTORS] if vectors else [])
    if configuration.get("delta.columnMapping.mode", "none") != "none":
        schema, highest = assigned(schema)
        configuration[MAX_ID] = str(highest)
    if configuration.get("delta.enableRowTracking") == "true":
        configuration |= {name: f"_col-{uuid.uuid4()}" for name in _ROW_COLUMNS}
    metadata = Metadata(
        str(uuid.uuid4()), schema_json(schema), table.partitioned_by, configuration, created_time=int(time.time() * 1000)
    )
    protocol = upgraded(needed(metadata), ["allowColumnDefaults"] if "CURRENT_DEFAULT" in metadata.schema_string else [])
    kept = {key: value for key, value in configuration.items() if not key.startswith(FEATURE_PROPERTY)}
    path.mkdir(parents=True)
    empty = Snapshot(LocalStore(str(path)), -1, 0, protocol, replace(metadata, configuration=kept), FileSet())
    added: list[Action] = []
    for lines in table.files:
        rows = arrow_rows(lines, spark_schema, arrow_schema(schema))
        result = pa.Table.from_batches(list(write_map(write_spec(empty, current_budgets()))(rows.to_batches())))
        added += [file for _, file in added_files(result, empty.schema)]
        schema = _with_high_water_marks(schema, rows)
    metadata = replace(empty.metadata, schema_string=schema_json(schema))
    commit(empty, Proposal("CREATE TABLE", [protocol, metadata, *added]))


def _with_high_water_marks(schema: StructType, rows: pa.Table) -> StructType:
    """The schema with the greatest value of each identity column noted."""
    fields = []
    for field in schema:
        values = [v for v in rows[field.name].to_pylist() if v is not None] if _IDENTITY + "start" in field.metadata else []
        known = field.metadata.get(_IDENTITY + "highWaterMark")
        marks = values if known is None else [*values, known]
        fields.append(replace(field, metadata={**field.metadata, _IDENTITY + "highWaterMark": max(marks)}) if marks else field)
    return StructType(tuple(fields))


class Tables:
    """Makes the tables of cases in a folder; equal tables are written once and copied."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._made: dict[tuple[Table, bool], Path] = {}

    def copy_of(self, table: Table, vectors: bool) -> Path:
        """The path of a table of one's own."""
        made = self._made.get((table, vectors))
        if made is None:
            made = self._made[table, vectors] = self._folder / f"made-{len(self._made)}"
            create_table(table, made, vectors)
            if table.deleted is not None:
                DeltaTable.forPath(self._spark, str(made)).delete(table.deleted)
        path = self._folder / f"t-{uuid.uuid4().hex[:12]}"
        shutil.copytree(made, path)
        return path


def source_view(spark: SparkSession, table: Table) -> None:
    """Make the temporary view `s` of a case's source."""
    schema = schema_of(table.header)
    arrow = arrow_schema(parse_schema(json.dumps(schema.jsonValue())))
    rows = arrow_rows([line for file in table.files for line in file], schema, arrow)
    frame = local_frame(spark, rows, T.StructType([T.StructField(f.name, nullable_type(f.dataType)) for f in schema.fields]))
    frame.createOrReplaceTempView("s")


def newest(path: Path) -> Snapshot:
    """The newest version of a table, read afresh."""
    return DeltaLog(LocalStore(str(path))).snapshot()


def content(path: Path) -> Rows:
    """All rows of a table in canonical form and order."""
    snapshot = newest(path)
    tasks = file_tasks(snapshot, snapshot.files.table())
    return rendered(_scanned(scan_spec(snapshot, snapshot.schema, None), tasks), to_spark(snapshot.schema))


def _scanned(spec: ScanSpec, tasks: Iterable[FileTask]) -> list[dict[str, Any]]:
    return [row for task in tasks for batch in scan_file(spec, task) for row in batch.to_pylist()]


def rendered(rows: list[dict[str, Any]], schema: T.StructType) -> Rows:
    """Rows as Arrow gives them in canonical form and order."""
    values = sorted((tuple(row[name] for name in schema.names) for row in rows), key=sort_key)
    types = [field.dataType for field in schema.fields]
    cells = tuple(tuple(render(value, type) for value, type in zip(row, types, strict=True)) for row in values)
    return Rows(header_text(schema), cells)


def rendered_table(table: Table) -> Rows:
    """A table as a case has it in canonical form and order."""
    schema = schema_of(table.header)
    arrow = arrow_schema(parse_schema(json.dumps(schema.jsonValue())))
    return rendered(arrow_rows([line for file in table.files for line in file], schema, arrow).to_pylist(), schema)


def last_commit(path: Path) -> dict[str, list[dict[str, Any]]]:
    """The actions of a table's newest commit, by kind."""
    file = max(p for p in (path / "_delta_log").glob("*.json") if p.stem.isdigit())
    found: dict[str, list[dict[str, Any]]] = {}
    for action in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
        for kind, value in action.items():
            found.setdefault(kind, []).append(value)
    return found


def feed(path: Path, before: Snapshot) -> Rows:
    """The change feed of a table's newest commit; `before` is the version that it was made from.

    Source: PROTOCOL.md, "Add CDC File" and "Reader Requirements for AddCDCFile".
    """
    after = newest(path)
    kind = pa.field("_change_type", pa.string())
    mode = mapping_mode(after.protocol, after.metadata)
    read = scan_spec(after, after.schema, None)
    changes = last_commit(path).get("cdc", [])
    if changes:
        spec = replace(read, schema=pa.schema([kind, *logical_schema(after.schema, mode)]))
        rows = _scanned(spec, file_tasks(after, table_of(changes, FILE_SCHEMA)))
    else:
        rows = [*_gone(before, after, read, "delete"), *_gone(after, before, read, "insert")]
    schema = to_spark(after.schema)
    return rendered(rows, T.StructType([T.StructField("_change_type", T.StringType()), *schema.fields]))


def _gone(one: Snapshot, other: Snapshot, spec: ScanSpec, change: str) -> list[dict[str, Any]]:
    """The rows of the files of `one` that are not in the same files of `other`."""
    left = Counter(repr(row) for row in _by_file(other, spec))
    found = []
    for row in _by_file(one, spec):
        if left[repr(row)]:
            left[repr(row)] -= 1
        else:
            found.append({**row[1], "_change_type": change})
    return found


def _by_file(snapshot: Snapshot, spec: ScanSpec) -> list[tuple[str, dict[str, Any]]]:
    tasks = file_tasks(snapshot, snapshot.files.table())
    return [(task.name, row) for task in tasks for batch in scan_file(spec, task) for row in batch.to_pylist()]
