"""What RESTORE commits. No Spark: the command asks a session for settings only."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deltamerge.commands.layout.restore import Restored, restore_table
from deltamerge.errors import AnalysisError, InvalidArgumentError
from deltamerge.log.replay.table import DeltaLog
from deltamerge.storage.local import LocalStore
from tests.unit.log.building import add, commit, create, metadata, paths, remove, vector

NOW = int(time.time() * 1000)


def session(**settings: str) -> Any:
    """What the command needs of a session."""
    values = {"spark.sql.session.timeZone": "UTC", **{name.replace("_", "."): value for name, value in settings.items()}}
    conf = SimpleNamespace(get=lambda key, default=None: values.get(key, default), getAll=values)
    return SimpleNamespace(conf=conf, version="4.3")


def put(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")


def restore(root: Path, version: int, **settings: str) -> Restored | None:
    return restore_table(session(**settings), DeltaLog(LocalStore(str(root))), version)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """f, g; then g leaves and h comes, in a table that only allows appends."""
    create(tmp_path, add("a/f"), add("b/g"), properties={"delta.appendOnly": "true"})
    commit(tmp_path, 1, remove("b/g", deletionTimestamp=NOW), add("h", size=5))
    put(tmp_path, "a/f", "b/g", "h")
    return tmp_path


def test_the_files_of_the_older_version_come_back(table: Path) -> None:
    assert restore(table, 0) == Restored(20, 2, 1, 1, 5, 10)
    log = DeltaLog(LocalStore(str(table)))
    assert paths(log.snapshot()) == ["a/f", "b/g"]
    told = log.commits(1)[0].info
    assert told["operationParameters"] == {"version": 0, "timestamp": None}
    assert (told["isolationLevel"], told["isBlindAppend"]) == ("Serializable", False)


def test_the_newest_version_is_left_alone(table: Path) -> None:
    assert restore(table, 1) is None


def test_files_and_vectors_have_to_be_there(table: Path) -> None:
    where = "abcdefghijklmnopqrst"
    commit(table, 2, remove("h", deletionTimestamp=NOW), add("h", deletionVector=vector(where)))
    commit(table, 3, remove("h", deletionTimestamp=NOW, deletionVector=vector(where)))
    with pytest.raises(InvalidArgumentError, match=r"DELTAMERGE_RESTORE_MISSING_FILES.*deletion_vector_"):
        restore(table, 2)
    (table / "b" / "g").unlink()
    (table / "b").rmdir()
    with pytest.raises(InvalidArgumentError, match=r"DELTAMERGE_RESTORE_MISSING_FILES.*b/g"):
        restore(table, 0)
    found = restore(table, 0, spark_sql_files_ignoreMissingFiles="true")
    assert found is not None
    assert found.restored == 1


def test_features_stay(tmp_path: Path) -> None:
    create(tmp_path, add("f"))
    features = ["deletionVectors"]
    later = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    commit(tmp_path, 1, {"protocol": later}, metadata(properties={"delta.enableDeletionVectors": "true"}))
    put(tmp_path, "f")
    restore(tmp_path, 0)
    snapshot = DeltaLog(LocalStore(str(tmp_path))).snapshot()
    assert snapshot.metadata.configuration == {}
    assert snapshot.protocol.writer_features == {"deletionVectors", "appendOnly", "invariants"}


@pytest.mark.parametrize("version", [7, -1])
def test_a_version_that_is_not_there_is_named(table: Path, version: int) -> None:
    with pytest.raises(AnalysisError, match=r"DELTA_CANNOT_RESTORE_TABLE_VERSION.*from 0 to 1"):
        restore(table, version)
    assert json.loads((table / "_delta_log" / f"{1:020d}.json").read_text().splitlines()[0])
