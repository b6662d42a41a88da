"""The name of the next version may be taken by what is no commit: a transaction says so, and does not try a thousand times."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from deltamerge.errors import StorageError
from deltamerge.log.commit.transaction import Proposal, commit
from deltamerge.log.replay.load import load
from deltamerge.log.replay.segment import commit_name
from deltamerge.protocol.table.actions import AddFile
from deltamerge.storage import ObjectInfo
from deltamerge.storage.local import LocalStore
from tests.unit.log import building

APPEND = Proposal("WRITE", [AddFile("a", {}, 1, 1)])
IN_THE_WAY = {
    "folder": lambda place: place.mkdir(),
    "link to nothing": lambda place: place.symlink_to("nowhere"),
    "link to itself": lambda place: place.symlink_to(place),
    "link to a folder": lambda place: place.symlink_to(place.parent),
    "pipe": os.mkfifo,
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", IN_THE_WAY)
def test_what_is_no_file_in_the_place_of_the_next_commit_is_named(tmp_path: Path, kind: str) -> None:
    store = building.create(tmp_path)
    place = tmp_path / commit_name(1)
    IN_THE_WAY[kind](place)
    snapshot = load(store)
    with pytest.raises(StorageError, match=r"00001\.json is there, but it is no file") as caught:
        commit(snapshot, APPEND)
    assert caught.value.condition == "DELTAMERGE_COMMIT_NAME_TAKEN"
    place.rmdir() if kind == "folder" else place.unlink()
    assert commit(snapshot, APPEND).version == 1


class LateListing(LocalStore):
    """A store whose listing tells of a commit when it has been asked for a hundred times."""

    asked = 0

    def list(self, folder: str, start: str = "") -> list[ObjectInfo]:
        self.asked += 1
        return super().list(folder, start) if self.asked > 100 else []


def test_a_commit_that_is_listed_late_is_waited_for(tmp_path: Path) -> None:
    snapshot = load(building.create(tmp_path))
    late = LateListing(str(tmp_path))
    building.commit(tmp_path, 1, building.add("b"))
    assert commit(replace(snapshot, store=late), APPEND).version == 2
    assert late.asked > 100
