"""What several commits in a row have changed together, as if one had."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from deltamerge.log.replay.commit_file import CommitFile
from deltamerge.protocol.table.actions import CommitInfo, DomainMetadata, Txn


def net_of(commits: Sequence[CommitFile]) -> CommitFile | None:
    """One commit in the place of several: the files that are there after the last and were not before the first, those that were
    and are not, and the transactions and domains of all. Its version, file and commitInfo are the last one's.

    None where each by itself tells a transaction more: where one has changed the protocol, the metadata or no data, was a blind
    append, or has named files again.
    """
    if not commits or any(
        not commit.data_change or commit.protocol is not None or commit.metadata is not None or commit.is_blind_append
        for commit in commits
    ):
        return None
    adds, removes = (pa.concat_tables(tables) for tables in zip(*((c.adds, c.removes) for c in commits), strict=True))
    added, removed = dict[str, int](), dict[str, int]()
    first_add = first_remove = 0
    for commit in commits:
        for row, key in enumerate(commit.removed_keys, first_remove):
            if added.pop(key, None) is None:
                removed[key] = row
        for row, key in enumerate(commit.added_keys, first_add):
            if key in added or key in removed:
                return None
            added[key] = row
        first_add, first_remove = first_add + commit.adds.num_rows, first_remove + commit.removes.num_rows
    last, infos = commits[-1], [action for action in commits[-1].others if isinstance(action, CommitInfo)]
    told = [action for commit in commits for action in commit.others if isinstance(action, Txn | DomainMetadata)]
    return replace(
        last,
        adds=adds.take(pa.array(added.values(), pa.int64())),
        removes=removes.take(pa.array(removed.values(), pa.int64())),
        others=(*infos, *told),
    )
