"""Damaged files of every kind that a log has: a load tells what a replay of the commits tells, or names what is wrong.

`DELTAMERGE_TEST_ALL=1` tries ten times as many damages.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltamerge.errors import DeltaMergeError
from deltamerge.log.commit.checkpoint_write import write_checkpoint
from deltamerge.log.replay.checksum import write_checksum
from deltamerge.log.replay.load import load
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.storage.local import LocalStore
from tests.effort import ALL
from tests.spec.naive import State, assert_same, replay
from tests.spec.test_log_fuzz import VERSIONS, build, silent
from tests.unit.log.building import log_file

__all__ = ["silent"]  # a fixture

SEEDS = range(60 if ALL else 6)
AT = 4
KEPT = ("protocol", "metaData", "txn", "domainMetadata")


def parted(root: Path) -> Path:
    """Checkpoints of several files each, of versions 2 and 4."""
    return _checkpointed(root)


def with_sidecars(root: Path) -> Path:
    """V2 checkpoints of versions 2 and 4, whose top files are Parquet."""
    return _checkpointed(root, delta_checkpointPolicy="v2")


def with_json_top(root: Path) -> Path:
    """V2 checkpoints of versions 2 and 4, whose top files are JSON."""
    log = with_sidecars(root)
    for path in log.glob("*.checkpoint.*.parquet"):
        rows = [{kind: value for kind, value in row.items() if value is not None} for row in pq.read_table(path).to_pylist()]
        path.with_suffix(".json").write_text("".join(json.dumps(_plain(row)) + "\n" for row in rows))
        path.unlink()
    (log / "_last_checkpoint").unlink()
    return log


def compacted(root: Path) -> Path:
    """Log compactions of versions 1 to 2 and 3 to 5, made by a replay of their commits."""
    log = build(root)
    for first, last in ((1, 2), (3, 5)):
        files: dict[str, dict[str, Any]] = {}
        small: dict[str, dict[str, Any]] = {}
        for version in range(first, last + 1):
            for action in map(json.loads, (log / f"{version:020d}.json").read_text().splitlines()):
                for kind, value in action.items():
                    if kind in ("add", "remove"):
                        files[value["path"]] = action
                    elif kind in KEPT:
                        small[kind + str(value.get("appId", value.get("domain")))] = action
        lines = [*files.values(), *small.values()]
        log_file(root, f"{first:020d}.{last:020d}.compacted.json").write_text("".join(json.dumps(a) + "\n" for a in lines))
    return log


def _checkpointed(root: Path, **properties: str) -> Path:
    log = build(root, **properties)
    for version in (2, AT):
        snapshot = load(LocalStore(str(root)), version)
        write_checkpoint(snapshot, snapshot.tombstones.table, 4)
    return log


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, list) and value and all(isinstance(item, tuple) for item in value):
        return dict(value)
    return value


def _is_json(path: Path) -> bool:
    try:
        return all(isinstance(json.loads(line), dict) for line in path.read_bytes().decode().splitlines() if line.strip())
    except ValueError:
        return False


KINDS = {kind.__name__: kind for kind in (parted, with_sidecars, with_json_top, compacted)}


def truncated(path: Path, others: list[Path], chance: random.Random) -> None:
    path.write_bytes(path.read_bytes()[: chance.randrange(path.stat().st_size)])


def emptied(path: Path, others: list[Path], chance: random.Random) -> None:
    path.write_bytes(b"")


def gone(path: Path, others: list[Path], chance: random.Random) -> None:
    path.unlink()


def flipped(path: Path, others: list[Path], chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(chance.choice([1, 1, 8])):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


def overwritten(path: Path, others: list[Path], chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    start, length = chance.randrange(len(data)), chance.randrange(1, 200)
    data[start : start + length] = bytes(len(data[start : start + length]))
    path.write_bytes(data)


def grown(path: Path, others: list[Path], chance: random.Random) -> None:
    path.write_bytes(path.read_bytes() + chance.randbytes(chance.randrange(1, 50)))


def another(path: Path, others: list[Path], chance: random.Random) -> None:
    """The content of another file of the log."""
    shutil.copyfile(chance.choice(others), path)


def without_a_column(path: Path, others: list[Path], chance: random.Random) -> None:
    if path.suffix != ".parquet":
        return truncated(path, others, chance)
    table = pq.read_table(path)
    names = [name for name in table.column_names if table[name].null_count < len(table)]
    pq.write_table(table.drop_columns([chance.choice(names)]), path)
    return None


def doubled(path: Path, others: list[Path], chance: random.Random) -> None:
    """Each action twice: a reader counts it once, or refuses."""
    if path.suffix != ".parquet":
        path.write_bytes(path.read_bytes() * 2)
        return
    table = pq.read_table(path)
    pq.write_table(pa.concat_tables([table, table]), path)


DAMAGES: list[Callable[[Path, list[Path], random.Random], None]] = [
    truncated, emptied, gone, flipped, overwritten, grown, another, without_a_column, doubled,
]  # fmt: skip


@pytest.mark.parametrize("with_checksum", [True, False], ids=["checksum", "no checksum"])
@pytest.mark.parametrize("damage", DAMAGES, ids=[damage.__name__ for damage in DAMAGES])
@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_never_gives_another_state(
    tmp_path: Path, kind: str, damage: Callable[[Path, list[Path], random.Random], None], with_checksum: bool
) -> None:
    origin = tmp_path / "origin"
    log = KINDS[kind](origin)
    right = replay(log)
    if with_checksum:
        write_checksum(load(LocalStore(str(origin))))
    assert_same(load(LocalStore(str(origin))), right)
    if not with_checksum and damage in (another, without_a_column):
        pytest.skip("whole files of other content: a checksum file alone tells")
    for seed in SEEDS:
        chance = random.Random(f"{kind} {damage.__name__} {seed}")
        _damage_one(origin, tmp_path / str(seed), damage, chance, right, with_checksum)


def _damage_one(
    origin: Path,
    root: Path,
    damage: Callable[[Path, list[Path], random.Random], None],
    chance: random.Random,
    right: State,
    with_checksum: bool,
) -> None:
    shutil.copytree(origin, root)
    log = root / "_delta_log"
    files = sorted(
        p for p in log.rglob("*") if p.is_file() and ("checkpoint" in p.name or "compacted" in p.name or p.parent != log)
    )
    path = chance.choice([file for file in files if not file.name.startswith(".")])
    others = [file for file in files if file.suffix == path.suffix and file != path]
    if damage is another and not others:
        return
    cleaned = chance.random() < 0.5
    damage(path, others, chance)
    if path.suffix == ".json" and path.exists() and damage in (flipped, overwritten) and _is_json(path):
        return  # a text that says something else
    if cleaned:
        for version in range(AT + 1):
            (log / f"{version:020d}.json").unlink()
    found = _loaded(root)
    if isinstance(found, DeltaMergeError):
        assert found.condition.startswith(("DELTA_", "DELTAMERGE_"))
        # As in delta-spark: a checkpoint without protocol or metadata ends a load, although the commits have both.
        assert cleaned or found.condition == "DELTA_STATE_RECOVER_ERROR", (
            f"the commits are all there, and yet {path.name}: {found}"
        )
    elif found.contradicted:
        assert with_checksum
    else:
        assert found.version == VERSIONS
        assert_same(found, right)


def _loaded(root: Path) -> Snapshot | DeltaMergeError:
    try:
        snapshot = load(LocalStore(str(root)))
        snapshot.files.table()
    except DeltaMergeError as error:
        return error
    return snapshot
