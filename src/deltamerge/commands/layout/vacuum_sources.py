"""Where VACUUM finds what it may delete without listing the table's folder: in the log, or in an inventory.

Source: delta-spark's VacuumCommand, `getFilesFromDeltaLog` and `getFilesFromInventory`, and LastVacuumInfo. Times are in ms.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow.compute as pc

from deltamerge.errors import AnalysisError, InvalidArgumentError, StorageError
from deltamerge.log.replay.commit_file import read_commit
from deltamerge.log.replay.commit_times import ordered_times
from deltamerge.log.replay.paths import canonical_path
from deltamerge.log.replay.segment import LOG, all_commits, commit_version
from deltamerge.log.replay.table import DeltaLog
from deltamerge.protocol.formats.json_text import json_value
from deltamerge.protocol.table.actions import DeletionVector
from deltamerge.protocol.table.deletion_vector import vector_reference
from deltamerge.protocol.values.partitions import decode_path
from deltamerge.spark.session.frames import Frame
from deltamerge.spark.session.jobs import collect
from deltamerge.storage import NotFound, ObjectInfo, Store
from deltamerge.storage.location import is_absolute, location_text

log = logging.getLogger("deltamerge.commands")

_MOST_BYTES = 1 << 20
_INFO, _VERSION = f"{LOG}/_last_vacuum_info", "latestCommitVersionOutsideOfRetentionWindow"


@dataclass(frozen=True, slots=True)
class Listed:
    """Files and folders within a table, those of a listing or as others tell of them. `last` is the newest version before the
    retention where the log told, which the next VACUUM LITE begins behind.
    """

    files: tuple[ObjectInfo, ...]
    folders: tuple[ObjectInfo, ...] = ()
    last: int | None = None


def removed_files(table: DeltaLog, cutoff: int, is_hidden: Callable[[str], bool]) -> Listed:
    """The files that commits before `cutoff` have removed, since the last VACUUM LITE, and their change data files.

    Files that the log names by whole paths are left to a VACUUM that lists the folder. Raises InvalidArgumentError where the
    log no longer has these commits.
    """
    store = table.store
    commits = {commit_version(info): info for info in ordered_times(all_commits(store))}
    last = max((version for version, info in commits.items() if info.modified <= cutoff), default=None)
    if last is None:
        return Listed(())
    done, earliest = last_vacuum(store), min(commits)
    first = earliest if done is None else done + 1
    if (earliest != 0 and (done is None or done < earliest)) or any(n not in commits for n in range(first, last + 1)):
        raise InvalidArgumentError(
            "DELTA_CANNOT_VACUUM_LITE",
            f"VACUUM LITE cannot delete all eligible files of {store.url}: commits since the last VACUUM are not in the log.",
            parameters={"table": store.url, "earliest": earliest},
            hint="Run VACUUM without LITE, which lists the folder.",
        )
    found: dict[str, ObjectInfo] = {}
    for version in range(first, last + 1):
        commit = read_commit(store, commits[version])
        removes = commit.removes
        for path, size, at, vector in zip(
            *(removes[name].to_pylist() for name in ("path", "size", "deletionTimestamp", "deletionVector")), strict=True
        ):
            _add(found, path, size or 0, at or 0, is_hidden)
            reference = vector_reference(DeletionVector.from_json(vector), "a data file") if vector else None
            if reference is not None:
                _add(found, reference, vector["sizeInBytes"], at or 0, is_hidden)
        for file in commit.cdc:
            _add(found, file.path, file.size, 0, is_hidden)
    return Listed(tuple(found.values()), (), last)


def _add(found: dict[str, ObjectInfo], path: str, size: int, modified: int, is_hidden: Callable[[str], bool]) -> None:
    reference = canonical_path(path)
    if is_absolute(reference):
        return
    name = decode_path(reference)
    parts = name.split("/")
    if ".." not in parts and not any(map(is_hidden, parts)):
        found[name] = ObjectInfo(name, size, max(modified, found[name].modified if name in found else 0), "")


def last_vacuum(store: Store) -> int | None:
    """The version behind which the last VACUUM LITE ended; None where nothing tells."""
    try:
        found = json_value(store.read(_INFO, _MOST_BYTES)).get(_VERSION)
    except NotFound:
        return None
    except (ValueError, AttributeError, StorageError) as error:
        log.warning("%s of %s can't be read: %s", _INFO, store.url, error)
        return None
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else None


def note_vacuum(store: Store, last: int | None) -> None:
    """Note where a VACUUM LITE ended; a failure only means that the next one begins earlier."""
    if last is None:
        return
    try:
        store.put(_INFO, json.dumps({_VERSION: last}, separators=(",", ":")).encode())
    except (OSError, StorageError) as error:
        log.warning("%s of %s was not written: %s", _INFO, store.url, error)


def inventory_files(table: DeltaLog, inventory: Frame, is_hidden: Callable[[str], bool]) -> Listed:
    """The files and folders below the table's folder in an inventory, as the object store's own: `path`, `length`, `isDir` and
    `modificationTime`. Raises AnalysisError for other columns.
    """
    types = {field.name: field.dataType.simpleString() for field in inventory.schema.fields}
    wanted = {"path": "string", "length": "bigint", "isDir": "boolean", "modificationTime": "bigint"}
    if any(types.get(name) != type for name, type in wanted.items()):
        raise AnalysisError(
            "DELTA_INVALID_INVENTORY_SCHEMA",
            f"The schema for the specified INVENTORY does not contain all of the required fields: it has {types}.",
            parameters={"expectedSchema": str(wanted)},
            hint=f"Required are {', '.join(f'{name} {type}' for name, type in wanted.items())}.",
        )
    rows = collect(inventory.select(*wanted), f"deltamerge: inventory of {table.store.url}")
    root = location_text(table.store.url).rstrip("/") + "/"
    paths = pc.fill_null(rows["path"], "")
    rows = rows.filter(pc.starts_with(paths, root))
    files: list[ObjectInfo] = []
    folders: list[ObjectInfo] = []
    for row in rows.to_pylist():
        name = row["path"].removeprefix(root).strip("/")
        parts = name.split("/")
        if not name or ".." in parts or any(map(is_hidden, parts)):
            continue
        found = ObjectInfo(name, row["length"] or 0, row["modificationTime"] or 0, "")
        (folders if row["isDir"] else files).append(found)
    return Listed(tuple(files), tuple(folders))
