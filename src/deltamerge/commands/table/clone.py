"""Shallow clones: a table that begins with the data files of another one, where these lie.

Source: delta-spark's CloneTableCommand.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import quote

import numpy as np

from deltamerge.commands.table.create import already_exists, check_empty, existing
from deltamerge.commands.table.create_named import check_listed, check_path, made_by_name
from deltamerge.errors import AnalysisError, UnsupportedTableError
from deltamerge.log.commit.clustering import clustering_changes
from deltamerge.log.commit.conflict import ReadSet
from deltamerge.log.commit.proposal import Proposal
from deltamerge.log.commit.transaction import commit
from deltamerge.log.commit.upkeep import after_commit
from deltamerge.log.replay.commit_times import ENABLEMENT_TIMESTAMP, ENABLEMENT_VERSION
from deltamerge.log.replay.files import FileSet, Mask, add_files
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.log.replay.table import DeltaLog
from deltamerge.progress.operation import begin
from deltamerge.progress.value import Amount
from deltamerge.protocol.schema.types import parse_schema, schema_json
from deltamerge.protocol.table.actions import Action, AddFile, DeletionVector, Metadata, Protocol
from deltamerge.protocol.table.column_mapping import MAX_ID, highest_id, mode_of
from deltamerge.protocol.table.deletion_vector import vector_reference
from deltamerge.protocol.table.features import asked_features, check_writable, named_features, upgraded
from deltamerge.protocol.table.identity import with_later_marks
from deltamerge.protocol.table.known_properties import checked, is_of_protocol
from deltamerge.protocol.table.row_tracking import COLUMN_NAMES, with_column_names
from deltamerge.spark.read.catalog import is_path, sql_name, table_named
from deltamerge.spark.read.register import is_listed, whole_name
from deltamerge.spark.session.delta_check import check_delta
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.running import operation
from deltamerge.spark.session.settings import author
from deltamerge.spark.session.storage import open_table
from deltamerge.storage.location import is_absolute

_OWN = (ENABLEMENT_VERSION, ENABLEMENT_TIMESTAMP)


@dataclass(frozen=True, slots=True)
class Clone:
    """A clone to be made: the version of a table and how history names that table, and the target by the parts of its name.

    `properties` are for the clone alone. An existing target is kept if `keeps`; written into if `replaces`, and without rows.
    """

    source: Snapshot
    source_name: str
    target: tuple[str, ...]
    location: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    replaces: bool = False
    keeps: bool = False


def clone_table(spark: Session, request: Clone) -> tuple[DeltaLog, dict[str, int]]:
    """Make a shallow clone and return its log, and the counters of what was done, none where a table is kept; sizes in bytes.

    Raises AnalysisError for a target that can't be, UnsupportedTableError for one that has rows.
    """
    check_delta(spark, "CLONE")
    target = request.target
    if is_path(target):
        check_path(target[1], request.location)
        log = open_table(spark, target[1])
        return log, _cloned(spark, log, request)
    name = whole_name(spark, target)
    if is_listed(spark, name):
        found = table_named(spark, name).location
        check_listed(name, found, None if request.keeps else request.location)
        log = open_table(spark, found)
        return log, _cloned(spark, log, request)
    return made_by_name(
        spark, name, request.location, request.source.schema, lambda log, is_managed: _cloned(spark, log, request)
    )


def _cloned(spark: Session, log: DeltaLog, request: Clone) -> dict[str, int]:
    with operation(spark, "CLONE", log.store.url):
        return _committed(spark, log, request)


def _committed(spark: Session, log: DeltaLog, request: Clone) -> dict[str, int]:
    source = request.source
    begin("looking for the table")
    before = existing(log)
    if before is not None and request.keeps:
        return {}
    if before is not None and not request.replaces:
        raise already_exists(sql_name(request.target))
    if log.store.url == source.store.url:
        raise AnalysisError(
            "DELTA_UNSUPPORTED_CLONE_REPLACE_SAME_TABLE",
            f"The table {log.store.url} can't be replaced by a clone of itself.",
            parameters={"tableName": log.store.url},
            hint="Choose another target, or RESTORE an older version.",
        )
    if before is not None and len(before.files):
        raise UnsupportedTableError(
            "DELTA_UNSUPPORTED_NON_EMPTY_CLONE",
            f"The clone destination table {log.store.url} is non-empty.",
            parameters={"tableName": log.store.url},
            hint="Delete its rows first.",
        )
    if before is None:
        check_empty(log)
    begin("naming the files", lambda: Amount(len(source.files), source.files.total_bytes))
    actions = _actions(log, request, before)
    on = before or Snapshot(log.store, -1, 0, source.protocol, source.metadata, FileSet())
    proposal = Proposal(
        "CLONE",
        actions,
        ReadSet(whole_table=True, would_read=_everything),
        {"source": request.source_name, "sourceVersion": source.version},
        _metrics(source),
        author=author(spark),
        tells_no_version=True,
    )
    begin("committing")
    committed = commit(on, proposal)
    log.remember(committed.snapshot)
    after_commit(committed.snapshot)
    return _metrics(source)


def _actions(log: DeltaLog, request: Clone, before: Snapshot | None) -> list[Action]:
    source = request.source
    asked = checked(request.properties)
    metadata = replace(
        source.metadata,
        id=str(uuid.uuid4()) if before is None else before.metadata.id,
        name=None if before is None else before.metadata.name,
        description=None if before is None else before.metadata.description,
        configuration={**source.metadata.configuration, **asked},
    )
    for other in (source.metadata, *(() if before is None else (before.metadata,))):
        if mode_of(other) is not mode_of(metadata):
            raise AnalysisError(
                "DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE",
                f"Changing column mapping mode from '{mode_of(other).value}' to '{mode_of(metadata).value}' is not supported.",
                parameters={"oldMode": mode_of(other).value, "newMode": mode_of(metadata).value},
                hint="Clone into a target of the same mode.",
            )
    start = source.protocol if before is None else upgraded(before.protocol, named_features(source.protocol))
    protocol = upgraded(start, asked_features(metadata))
    kept = {key: value for key, value in metadata.configuration.items() if not is_of_protocol(key)}
    metadata = replace(metadata, configuration=_kept_by(before, protocol, kept))
    metadata = metadata if before is None else _going_on(metadata, before)
    check_writable(protocol, metadata, log.store.url)
    domains = clustering_changes(before or replace(source, domains={}), source)
    files = [_elsewhere(file, source.store.url) for file in add_files(source.files.table())]
    return [protocol, metadata, *domains, *files]


def _kept_by(before: Snapshot | None, protocol: Protocol, configuration: Mapping[str, str]) -> dict[str, str]:
    """The clone's properties, with what the log keeps of the target in place of what it keeps of the source.

    Rows get ids anew, so that the columns in which the source's files keep ids must mean nothing to the clone; and the source's
    versions are not the clone's, so that it has its own beginning of in-commit timestamps.
    """
    had = {} if before is None else before.metadata.configuration
    own = {key: had[key] for key in _OWN if key in had}
    kept = {key: value for key, value in configuration.items() if key not in (*_OWN, *COLUMN_NAMES)}
    return with_column_names(protocol, {**kept, **own}, had)


def _going_on(metadata: Metadata, before: Snapshot) -> Metadata:
    """The clone's metadata, whose identity columns and ids of columns go on where the target's are: none is given twice."""
    source = parse_schema(metadata.schema_string)
    schema = with_later_marks(source, parse_schema(before.metadata.schema_string))
    text = metadata.schema_string if schema is source else schema_json(schema)
    configuration = dict(metadata.configuration)
    if MAX_ID in configuration:
        configuration[MAX_ID] = str(highest_id(metadata, before.metadata))
    return replace(metadata, schema_string=text, configuration=configuration)


def _elsewhere(file: AddFile, root: str) -> AddFile:
    """The file as a table at another place names it. Its rows get ids anew."""
    vector = file.deletion_vector
    return replace(
        file,
        path=_absolute(file.path, root),
        deletion_vector=None if vector is None else _absolute_vector(vector, root),
        base_row_id=None,
        default_row_commit_version=None,
    )


def _absolute(path: str, root: str) -> str:
    if is_absolute(path):
        return path
    return f"file://{quote(root)}/{path}" if root.startswith("/") else f"{quote(root, safe=':/@')}/{path}"


def _absolute_vector(vector: DeletionVector, root: str) -> DeletionVector:
    reference = vector_reference(vector, root)
    if reference is None or vector.storage_type == "p":
        return vector
    return replace(vector, storage_type="p", path_or_inline=_absolute(reference, root))


def _metrics(source: Snapshot) -> dict[str, int]:
    return {
        "sourceTableSize": source.files.total_bytes,
        "sourceNumOfFiles": len(source.files),
        "numRemovedFiles": 0,
        "numCopiedFiles": 0,
        "removedFilesSize": 0,
        "copiedFilesSize": 0,
    }


def _everything(files: FileSet) -> Mask:
    return np.ones(len(files), np.bool_)
