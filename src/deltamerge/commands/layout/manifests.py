"""GENERATE symlink_format_manifest: files that name the data files of each partition, for engines that read no Delta log.

Source: delta-spark's GenerateSymlinkManifest.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from deltamerge.errors import InvalidArgumentError, UnsupportedTableError
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.log.replay.table import DeltaLog
from deltamerge.protocol.table.column_mapping import MappingMode, mode_of
from deltamerge.protocol.values.partitions import decode_path, partition_folder
from deltamerge.storage import Store
from deltamerge.storage.location import is_absolute, location_text

log = logging.getLogger("deltamerge.commands")

MODE = "symlink_format_manifest"
FOLDER = f"_{MODE}"
_MANIFEST = "manifest"
_AT_ONCE = 16


def check_mode(mode: str) -> None:
    """Raise InvalidArgumentError for what can't be generated."""
    if mode.lower() != MODE:
        raise InvalidArgumentError(
            "DELTA_MODE_NOT_SUPPORTED",
            f"Specified mode '{mode}' is not supported.",
            parameters={"mode": mode, "supportedModes": MODE},
            hint=f"Supported is {MODE}.",
        )


def generate_manifests(table: DeltaLog) -> None:
    """Write the manifests of the newest version, then delete those of partitions that it does not have.

    Raises UnsupportedTableError for rows or names that data files alone don't tell, StorageError.
    """
    snapshot = table.snapshot()
    _check_plain(snapshot)
    manifests = _manifests(snapshot)
    stale = _stale(table.store, manifests)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(lambda name: table.store.put(name, manifests[name].encode()), manifests))
    table.store.delete_all(stale)
    table.store.delete_empty_folders(_folders_of(stale))
    log.info("wrote %d manifests of %s and deleted %d", len(manifests), table.store.url, len(stale))


def _check_plain(snapshot: Snapshot) -> None:
    place = snapshot.store.url
    if mode_of(snapshot.metadata) is not MappingMode.NONE:
        raise UnsupportedTableError(
            "DELTA_UNSUPPORTED_MANIFEST_GENERATION_WITH_COLUMN_MAPPING",
            f"Manifests of {place} would be of no use: its data files name columns otherwise than the table does.",
            parameters={"tableName": place},
            hint="Read the table with an engine that knows Delta's column mapping.",
        )
    if snapshot.files.vectors[0]:
        raise UnsupportedTableError(
            "DELTA_UNSUPPORTED_GENERATE_WITH_DELETION_VECTORS",
            f"Manifests of {place} would bring deleted rows back: deletion vectors say which these are, and no manifest does.",
            parameters={"tableName": place},
            hint="Set the property delta.enableDeletionVectors to false and write the rows again: overwrite the table with "
            "them, or use delta-spark's REORG TABLE .. APPLY (PURGE).",
        )


def _manifests(snapshot: Snapshot) -> Mapping[str, str]:
    """The text of each manifest by its name within the table. A table without partitions has one, even of no file."""
    root, columns = location_text(snapshot.store.url).rstrip("/"), snapshot.partition_columns
    found: dict[str, list[str]] = {} if columns else {f"{FOLDER}/{_MANIFEST}": []}
    files = snapshot.files
    for path, pairs in zip(files.column("path").to_pylist(), files.column("partitionValues").to_pylist(), strict=True):
        values = dict(pairs or ())
        folder = partition_folder({name: values.get(name) or None for name in columns})
        name = decode_path(path)
        found.setdefault("/".join(filter(None, (FOLDER, folder, _MANIFEST))), []).append(
            _absolute(name) if is_absolute(path) else f"{root}/{name}"
        )
    return {name: "".join(f"{place}\n" for place in sorted(places)) for name, places in found.items()}


def _absolute(name: str) -> str:
    """The place of a file outside of the table as Hadoop writes it."""
    return location_text(name.removeprefix("file://") if name.startswith("file:///") else name)


def _stale(store: Store, manifests: Mapping[str, str]) -> list[str]:
    """The manifests of partitions that are gone."""
    if not store.exists_folder(FOLDER):
        return []
    names = [file.name for part in store.walk(_is_elsewhere) for file in part.files if file.name.startswith(f"{FOLDER}/")]
    return [name for name in names if name.endswith(f"/{_MANIFEST}") and name not in manifests]


def _is_elsewhere(name: str) -> bool:
    return name.startswith((".", "_")) and name != FOLDER and "=" not in name


def _folders_of(names: Sequence[str]) -> list[str]:
    """The folders of these manifests and those above, up to the folder of all, those within others first."""
    found = set[str]()
    for name in names:
        while (name := name.rpartition("/")[0]) and name != FOLDER:
            found.add(name)
    return sorted(found, key=lambda name: -name.count("/"))
