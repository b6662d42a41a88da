"""A writer that appends to a table's log, commit after commit; several processes of it race."""

from __future__ import annotations

from collections.abc import Mapping

from deltamerge.log.commit.transaction import Proposal, commit
from deltamerge.log.replay.table import open_log
from deltamerge.protocol.table.actions import AddFile


def append(location: str, options: Mapping[str, str], writer: int, commits: int) -> None:
    """Commit `commits` times, each time one file that is named after the writer and the commit's number."""
    log = open_log(location, options)
    for number in range(commits):
        done = commit(log.snapshot(), Proposal("WRITE", [AddFile(f"{writer}-{number}", {}, 10, 5)]))
        log.remember(done.snapshot)
