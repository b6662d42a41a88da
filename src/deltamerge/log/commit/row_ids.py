"""Row ids and row commit versions of added files, assigned for the version at which a commit is tried.

Source: PROTOCOL.md, "Writer Requirements for Row Tracking".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import pyarrow.compute as pc

from deltamerge.errors import AnalysisError, CorruptTableError, restore_action
from deltamerge.log.replay.commit_file import CommitFile
from deltamerge.log.replay.paths import canonical_path
from deltamerge.protocol.formats.json_text import json_value
from deltamerge.protocol.table.actions import Action, AddFile, DomainMetadata, RemoveFile
from deltamerge.protocol.values.values import long

ROW_TRACKING = "delta.rowTracking"
_MARK = "rowIdHighWaterMark"
_Kind = TypeVar("_Kind", bound=Action)


def high_water_mark(domains: Mapping[str, DomainMetadata]) -> int:
    """The highest row id assigned so far, -1 for none. Raises CorruptTableError when the domain does not tell."""
    found = domains.get(ROW_TRACKING)
    if found is None:
        return -1
    try:
        mark = long(json_value(found.configuration)[_MARK])
        if mark < -1:
            raise ValueError(f"{mark} is no row id")
    except (ValueError, LookupError, TypeError) as error:
        raise CorruptTableError(
            "DELTAMERGE_CORRUPT_ROW_TRACKING",
            f"The highest row id of the table can't be read: {found.configuration[:200]}.",
            parameters={"domain": ROW_TRACKING, "configuration": found.configuration},
            hint=restore_action("domainMetadata"),
        ) from error
    return mark


def assigned(actions: Sequence[Action], domains: Mapping[str, DomainMetadata], version: int) -> list[Action]:
    """The actions with row ids above the table's high-water mark for files without them, and the new mark.

    Files that are committed again keep what they have. Raises AnalysisError for a file of unknown row count, CorruptTableError
    when the mark before can't be read.
    """
    before = mark = high_water_mark(domains)
    found: list[Action] = []
    for action in actions:
        if not isinstance(action, AddFile):
            found.append(action)
            continue
        first, made = action.base_row_id, action.default_row_commit_version
        if first is None:
            first, mark = mark + 1, mark + _rows(action)
        found.append(replace(action, base_row_id=first, default_row_commit_version=version if made is None else made))
    if mark != before:
        found.append(DomainMetadata(ROW_TRACKING, json.dumps({_MARK: mark}, separators=(",", ":"))))
    return found


def _rows(file: AddFile) -> int:
    count = file.num_records
    if count is None:
        raise without_count(file.path)
    return count


def without_count(path: str) -> AnalysisError:
    """The error for a file of unknown row count, whose rows can't be given ids."""
    return AnalysisError(
        "DELTA_ROW_ID_ASSIGNMENT_WITHOUT_STATS",
        f"Cannot assign row ids to {path}: its statistics don't say how many rows it has.",
        parameters={"path": path},
        hint="Write the file with statistics: delta.rowTracking needs numRecords of each file.",
    )


def with_ids_of(winner: CommitFile, actions: Sequence[_Kind]) -> list[_Kind]:
    """The actions of a transaction that follows `winner`, whose files have the ids that it gave to files that were there before.

    Source: delta-spark's ConflictChecker.resolveRowTrackingBackfillConflicts.
    """
    named = winner.adds.filter(pc.is_valid(winner.adds["baseRowId"]))
    columns = (named[name].to_pylist() for name in ("path", "baseRowId", "defaultRowCommitVersion"))
    given = {canonical_path(path): (first, version) for path, first, version in zip(*columns, strict=True)}
    if not given:
        return list(actions)

    def known(action: _Kind) -> _Kind:
        if not isinstance(action, AddFile | RemoveFile):
            return action
        ids = given.get(canonical_path(action.path))
        return action if ids is None else replace(action, base_row_id=ids[0], default_row_commit_version=ids[1])

    return [known(action) for action in actions]


def without_files_of(winner: CommitFile, actions: Sequence[Action]) -> list[Action]:
    """The actions of a transaction that names files of the table again, without those that `winner` has named or removed."""
    gone = {canonical_path(path) for table in (winner.adds, winner.removes) for path in table["path"].to_pylist()}
    return [action for action in actions if not (isinstance(action, AddFile) and canonical_path(action.path) in gone)]
