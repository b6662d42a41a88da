"""What a log tells in values of its own: JSON and texts within the actions, and small files beside them."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlglot import exp

from deltamerge.commands.layout.kept import Kept
from deltamerge.commands.layout.vacuum_sources import removed_files
from deltamerge.commands.table.describe import detail_page, detail_table, history_page, history_table, history_view
from deltamerge.errors import DeltaMergeError
from deltamerge.log.commit.clustering import layout_paths
from deltamerge.log.commit.row_ids import high_water_mark
from deltamerge.log.replay.files import add_files
from deltamerge.log.replay.table import DeltaLog
from deltamerge.protocol.schema.char_varchar import char_varchars
from deltamerge.protocol.table.column_mapping import mode_of
from deltamerge.protocol.table.constraints import constraints_of, default_of
from deltamerge.protocol.table.deletion_vector import vector_reference
from deltamerge.protocol.table.identity import identity_columns
from deltamerge.protocol.table.properties import Properties
from deltamerge.spark.sql.allowed.functions import OF_ROWS, forbidden
from deltamerge.spark.sql.allowed.operands import Columns
from deltamerge.spark.sql.text import name_parts, parse
from deltamerge.storage.local import LocalStore
from tests.unit.log import building

_FEATURES = [*("rowTracking", "domainMetadata", "clustering", "checkConstraints", "generatedColumns"), "deletionVectors"]
_PROTOCOL = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [], "writerFeatures": _FEATURES}}
# The lines of an input, each what a log has in one place.
_INFO: dict[str, Any] = {
    "timestamp": 1,
    "operation": "MERGE",
    "operationParameters": {"a": [1]},
    "operationMetrics": {"numTargetRowsInserted": "3"},
    "inCommitTimestamp": 5,
    "job": {"jobId": "1"},
    "notebook": {"notebookId": "2"},
    "readVersion": 0,
    "isBlindAppend": True,
    "userName": "u",
}
_FIELD = {
    "delta.invariants": '{"expression":{"expression":"id > 1"}}',
    "delta.generationExpression": "id",
    "CURRENT_DEFAULT": "1",
    "delta.identity.start": 1,
    "delta.identity.step": 1,
    "__CHAR_VARCHAR_TYPE_STRING": "varchar(3)",
    "delta.columnMapping.id": 1,
    "delta.columnMapping.physicalName": "p",
}
_PROPERTIES = {
    "delta.targetFileSize": "64mb",
    "delta.deletedFileRetentionDuration": "interval 1 day",
    "delta.checkpointInterval": "7",
    "delta.constraints.c": "id > 0",
    "delta.columnMapping.mode": "none",
    "delta.dataSkippingStatsColumns": "id,value",
}
_VECTOR = {"storageType": "p", "pathOrInlineDv": "file:/x/y.bin", "sizeInBytes": 4, "cardinality": 1, "offset": 1}
_ROWS, _VACUUMED = {"rowIdHighWaterMark": 7}, {"latestCommitVersionOutsideOfRetentionWindow": 1}
_PARTS: list[dict[str, Any]] = [
    _INFO,
    {"clusteringColumns": [["id"], ["value"]]},
    _ROWS,
    _VACUUMED,
    _FIELD,
    _PROPERTIES,
    _VECTOR,
]
# The lines of an input, each what a log has in one place.
SEED = [json.dumps(part, separators=(",", ":")) for part in _PARTS]
_NAMES = [name for name, member in vars(Properties).items() if isinstance(member, property)]


class Told:
    """A table whose log is made of each input, and all that asks for what it tells. Named errors alone pass."""

    def __init__(self) -> None:
        self._root = Path(tempfile.mkdtemp())
        self._store = LocalStore(str(self._root))

    def __call__(self, data: bytes) -> None:
        lines = [*data.decode("utf-8", "replace").split("\n"), *[""] * len(SEED)]
        self._write(*lines[: len(SEED)])
        log = DeltaLog(self._store)
        for ask in (_history, _details, _properties, _requirements, _layout, _files, self._vacuum):
            with contextlib.suppress(DeltaMergeError):
                ask(log)

    def _write(self, info: str, clustering: str, rows: str, vacuum: str, field: str, properties: str, vector: str) -> None:
        log = self._root / "_delta_log"
        shutil.rmtree(log, ignore_errors=True)
        log.mkdir()
        of_field = f'{{"name":"id","type":"long","nullable":true,"metadata":{field or "{}"}}}'
        schema = f'{{"type":"struct","fields":[{of_field},{{"name":"value","type":"string","nullable":true,"metadata":{{}}}}]}}'
        metadata = json.dumps(building.metadata(schema))
        domains = {"delta.clustering": clustering, "delta.rowTracking": rows}
        first = [
            json.dumps(_PROTOCOL),
            metadata.replace('"configuration": {}', f'"configuration": {properties or "{}"}'),
            *(json.dumps({"domainMetadata": {"domain": d, "configuration": c, "removed": False}}) for d, c in domains.items()),
            f'{{"add":{{"path":"a","partitionValues":{{}},"size":1,"modificationTime":1,"deletionVector":{vector or "null"}}}}}',
        ]
        (log / f"{0:020d}.json").write_text("\n".join(first))
        (log / f"{1:020d}.json").write_text(f'{{"commitInfo":{info or "{}"}}}\n' + json.dumps(building.remove("b")))
        (log / "_last_vacuum_info").write_text(vacuum)

    def _vacuum(self, log: DeltaLog) -> None:
        removed_files(log, 1 << 62, lambda name: False)


def _history(log: DeltaLog) -> None:
    found = history_table(log)
    history_page(found, "x")
    history_view(found).rows  # noqa: B018


def _details(log: DeltaLog) -> None:
    snapshot = log.snapshot()
    detail_table(snapshot)
    detail_page(snapshot)


def _properties(log: DeltaLog) -> None:
    found = log.snapshot().properties
    for name in _NAMES:
        with contextlib.suppress(DeltaMergeError):
            getattr(found, name)
    found.prefix_length(True)


def _requirements(log: DeltaLog) -> None:
    snapshot = log.snapshot()
    asks: list[Callable[[], Any]] = [
        lambda: constraints_of(snapshot.schema, snapshot.metadata.configuration),
        lambda: [default_of(field) for field in snapshot.schema],
        lambda: identity_columns(snapshot.schema),
        lambda: char_varchars(snapshot.schema),
        lambda: mode_of(snapshot.metadata),
    ]
    for ask in asks:
        with contextlib.suppress(DeltaMergeError):
            ask()


def _layout(log: DeltaLog) -> None:
    snapshot = log.snapshot()
    with contextlib.suppress(DeltaMergeError):
        layout_paths(snapshot)
    high_water_mark(snapshot.domains)


def _files(log: DeltaLog) -> None:
    kept = Kept(log.store)
    for file in add_files(log.snapshot().files.table()):
        kept.add([file.path])
        if file.deletion_vector is not None:
            reference = vector_reference(file.deletion_vector, file.path)
            kept.add([] if reference is None else [reference])


_COLUMNS = ("a", "b", "xs")


def judged(text: str) -> None:
    """Raise AssertionError for SQL of a table's metadata that is let through, and asks for more than its row by its tree."""
    found = forbidden(text, OF_ROWS, Columns(_COLUMNS))
    tree = parse(text)
    if found is not None or tree is None:
        return
    for node in tree.walk():
        assert not isinstance(node, exp.Query | exp.Table | exp.Star), node.sql()
        if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier):
            name = (name_parts(node) or [node.name])[0].lower()
            assert name in {*_COLUMNS, *_variables(node)} or _is_unit(node), name


def _is_unit(node: exp.Column) -> bool:
    """Whether a name is the first of three arguments, as the unit of DATEADD is."""
    call = node.parent
    return isinstance(call, exp.Func) and next(call.iter_expressions(), None) is node and len(list(call.iter_expressions())) == 3


def _variables(node: exp.Expression) -> set[str]:
    """The variables of the lambda functions around."""
    found = set()
    parent = node.parent
    while parent is not None:
        if isinstance(parent, exp.Lambda):
            found |= {variable.name.lower() for variable in parent.expressions}
        parent = parent.parent
    return found
