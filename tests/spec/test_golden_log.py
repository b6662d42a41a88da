"""Every golden table's log: loaded as the plain replay of its commits has it, or refused by name."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from deltamerge.errors import DeltaMergeError, UnsupportedTableError
from deltamerge.log.commit.upkeep import checkpoint
from deltamerge.log.replay.load import load
from deltamerge.log.replay.segment import all_commits, commit_version
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.protocol.values.partitions import decode_path
from deltamerge.storage.local import LocalStore
from tests.spec.golden import FOLDER, golden_names, unpack
from tests.spec.naive import assert_same, replay

REFUSED = {
    "data-reader-absolute-paths-escaped-chars": "DELTAMERGE_CORRUPT_COMMIT",
    "deltalog-invalid-protocol-version": "DELTA_INVALID_PROTOCOL_VERSION",
    "deltalog-state-reconstruction-from-checkpoint-missing-metadata": "DELTA_STATE_RECOVER_ERROR",
    "deltalog-state-reconstruction-from-checkpoint-missing-protocol": "DELTA_STATE_RECOVER_ERROR",
    "deltalog-state-reconstruction-without-metadata": "DELTA_STATE_RECOVER_ERROR",
    "deltalog-state-reconstruction-without-protocol": "DELTA_STATE_RECOVER_ERROR",
    "hive": "DELTA_MISSING_DELTA_TABLE",
    "no-delta-log-folder": "DELTA_MISSING_DELTA_TABLE",
    "versions-not-contiguous": "DELTA_VERSIONS_NOT_CONTIGUOUS",
}

names = golden_names() or [pytest.param("", marks=pytest.mark.skip(reason="the folder ../shared/golden is absent"))]


def loaded(store: LocalStore, version: int | None = None) -> Snapshot:
    """The snapshot; a table with features that are not supported is skipped, its refusal names them."""
    try:
        return load(store, version)
    except UnsupportedTableError as error:
        if error.condition != "DELTA_UNSUPPORTED_FEATURES_FOR_READ":
            raise
        pytest.skip(f"refused by name: {', '.join(error.parameters['unsupported'])}")


@pytest.mark.parametrize("name", names)
def test_the_log_of_a_golden_table(name: str, tmp_path: Path) -> None:
    table = unpack(name, tmp_path)
    store = LocalStore(str(table))
    if name in REFUSED:
        with pytest.raises(DeltaMergeError) as caught:
            load(store)
        assert caught.value.condition == REFUSED[name]
        return
    snapshot = loaded(store)
    log = table / "_delta_log"
    if (log / f"{0:020d}.json").exists():
        assert_same(snapshot, replay(log))


@pytest.mark.parametrize("name", names)
def test_the_rows_of_a_golden_table(name: str, tmp_path: Path) -> None:
    table = unpack(name, tmp_path)
    expected = table.parent / "expected"
    if name in REFUSED or not expected.is_dir():
        pytest.skip("nothing to read is expected")
    snapshot = loaded(LocalStore(str(table)))
    files = [table / decode_path(path) for path in snapshot.files.column("path").to_pylist()]
    vectors = [vector for vector in snapshot.files.column("deletionVector").to_pylist() if vector]
    rows = sum(pq.read_metadata(file).num_rows for file in files) - sum(vector["cardinality"] for vector in vectors)
    wanted = [path for path in expected.glob("*.parquet") if not path.name.startswith((".", "_"))]
    assert rows == sum(pq.read_metadata(path).num_rows for path in wanted)


@pytest.mark.parametrize("name", names)
def test_a_checkpoint_of_ours_at_any_version_changes_nothing(name: str, tmp_path: Path) -> None:
    table = unpack(name, tmp_path)
    if name in REFUSED or not (table / "_delta_log" / f"{0:020d}.json").exists():
        pytest.skip("it has no version from the first on")
    store = LocalStore(str(table))
    newest = loaded(store)
    versions = [commit_version(info) for info in all_commits(store)]
    for version in versions[:: max(1, len(versions) // 4)]:
        snapshot = loaded(store, version)
        checkpoint(snapshot)
        assert_same(loaded(store, version), replay(table / "_delta_log", version))
    assert_same(load(store, newest.version), replay(table / "_delta_log"))


def test_the_list_of_refusals_is_of_golden_tables() -> None:
    if not FOLDER.is_dir():
        pytest.skip("the folder ../shared/golden is absent")
    assert REFUSED.keys() <= set(golden_names())
