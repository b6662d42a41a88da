"""Tables whose data files are only named: transactions that mark rows of them, and which rows are left. No Parquet is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deltamerge.errors import ConcurrentModificationError
from deltamerge.log.commit.conflict import ReadSet
from deltamerge.log.commit.dv_files import MarkedFile
from deltamerge.log.commit.transaction import Proposal, commit
from deltamerge.log.replay.files import FileSet, Mask, add_files, file_key
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.protocol.formats.roaring import encode
from deltamerge.protocol.table.actions import Action, AddFile, DeletionVector
from deltamerge.protocol.table.deletion_vector import deleted_rows, vector_reference
from deltamerge.storage.local import LocalStore
from tests.unit.log import building

COUNTS = ("numDeletionVectorsUpdated", "numDeletionVectorsRemoved")
ROWS = 10
_FEATURES = ["deletionVectors"]


def create(root: Path, *paths: str, features: Iterable[str] = (), **properties: str) -> LocalStore:
    """A table with files of ten rows each, which may be marked."""
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": _FEATURES,
        "writerFeatures": [*_FEATURES, *features],
    }
    asked = {"delta.enableDeletionVectors": "true"} | {name.replace("_", "."): value for name, value in properties.items()}
    files = [building.add(path, stats=f'{{"numRecords":{ROWS}}}') for path in paths]
    building.commit(root, 0, {"protocol": protocol}, building.metadata(properties=asked), *files)
    return LocalStore(str(root))


def added(path: str, rows: int = ROWS) -> AddFile:
    """A file that a transaction adds."""
    return AddFile(path, {}, 10, 5, stats=f'{{"numRecords":{rows}}}')


def files_of(snapshot: Snapshot) -> dict[str, AddFile]:
    """The live files by their paths."""
    return {file.path: file for file in add_files(snapshot.files.table())}


def gone(snapshot: Snapshot, vector: DeletionVector | None, path: str) -> list[int]:
    """The rows of a file that a vector deletes."""
    if vector is None:
        return []
    reference = vector_reference(vector, path)
    data = b"" if reference is None else snapshot.store.read(reference)
    found: list[int] = deleted_rows(vector, lambda at, size: data[at : at + size], path).positions().tolist()
    return found


def deleted(snapshot: Snapshot) -> dict[str, list[int]]:
    """The deleted rows of each live file."""
    return {path: gone(snapshot, file.deletion_vector, path) for path, file in sorted(files_of(snapshot).items())}


def mark(
    read: Snapshot,
    rows: Mapping[str, Iterable[int]],
    *others: Action,
    leaves: Mapping[str, Iterable[int]] | None = None,
    **more: Any,
) -> Proposal:
    """A transaction that has read all files, deletes `rows` of some, and has found others that it `leaves`.

    It would read added files but for those whose names begin with "o", others.
    """
    files = files_of(read)
    marked = []
    for path, own in rows.items():
        before = gone(read, files[path].deletion_vector, path)
        marked.append(MarkedFile(files[path], ROWS, encode(np.array(sorted({*before, *own})))))
    keys = frozenset(map(file_key, files.values()))
    known = ReadSet(keys, would_read, would_find=finding(read, leaves or {}))
    metrics = {COUNTS[0]: sum(files[path].deletion_vector is not None for path in rows)}
    metrics |= {COUNTS[1]: metrics[COUNTS[0]], "numDeletedRows": sum(len(list(own)) for own in rows.values())}
    return Proposal("DELETE", others, known, metrics=metrics, marked=tuple(marked), vector_counts=COUNTS, **more)


def finding(read: Snapshot, rows: Mapping[str, Iterable[int]]) -> Callable[[AddFile, DeletionVector], bool]:
    """Whether rows of a file that were deleted are among some that a transaction has found and left as they are."""

    def would_find(file: AddFile, after: DeletionVector) -> bool:
        new = set(gone(read, after, file.path)) - set(gone(read, file.deletion_vector, file.path))
        return bool(new & set(rows.get(file.path, ())))

    return would_find


def would_read(files: FileSet) -> Mask:
    """The files whose names don't begin with "o"."""
    return np.array([not path.startswith("o") for path in files.column("path").to_pylist()], np.bool_)


def vector_files(root: Path) -> list[str]:
    """The files of vectors that there are."""
    return sorted(path.name for path in root.glob("deletion_vector_*.bin"))


def conflicts(read: Snapshot, proposal: Proposal) -> ConcurrentModificationError:
    """The conflict that a transaction ends with; it leaves nothing."""
    root, before = Path(read.store.url), building.load(read.store)  # type: ignore[arg-type]
    files = vector_files(root)
    with pytest.raises(ConcurrentModificationError) as caught:
        commit(read, proposal)
    assert vector_files(root) == files
    assert building.load(read.store).version == before.version  # type: ignore[arg-type]
    return caught.value


def rewritten(read: Snapshot) -> Proposal:
    """A transaction that writes the file "f" again."""
    file = files_of(read)["f"]
    return Proposal("UPDATE", [file.removed(1), added("other")], mark(read, {}).read)


def moved(read: Snapshot) -> Proposal:
    """A transaction that moves the rows of the file "f" to another one."""
    actions = [files_of(read)["f"].removed(1, data_change=False), replace(added("other"), data_change=False)]
    return Proposal("OPTIMIZE", actions, ReadSet(mark(read, {}).read.keys))


def removed(read: Snapshot) -> Proposal:
    """A transaction that removes the file "f"."""
    return Proposal("DELETE", [files_of(read)["f"].removed(1)], mark(read, {}).read)
