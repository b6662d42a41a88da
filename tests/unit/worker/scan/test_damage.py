"""Damaged data files: none is taken for another, and no wrong value gets into a row or into another file."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltamerge.worker.scan.row_errors import Refused
from deltamerge.worker.scan.scan import FILE, ROW, FileTask, ScanSpec, decoding, scan_file
from deltamerge.worker.write.apply import apply_changes
from deltamerge.worker.write.rewrite import CLAUSE, ChangeSpec, ClauseAction
from deltamerge.worker.write.write import DataFileWriter
from tests.unit.worker.data import data_files, store_at, write_spec

SCHEMA = pa.schema([("id", pa.int64()), ("word", pa.string()), ("share", pa.float64())])
ROWS = pa.table({"id": range(300), "word": [f"w{i % 7}" for i in range(300)], "share": np.linspace(0, 1, 300)}, schema=SCHEMA)
Use = Callable[[Path, FileTask], list[pa.RecordBatch]]


def scanned(root: Path, task: FileTask) -> list[pa.RecordBatch]:
    return list(scan_file(ScanSpec(store_at(root), SCHEMA), task))


def changed(share: float, clause: int) -> Use:
    def use(root: Path, task: FileTask) -> list[pa.RecordBatch]:
        clauses = (ClauseAction("update", frozenset({"word"})), ClauseAction("delete", frozenset()))
        spec = ChangeSpec(write_spec(root, SCHEMA), clauses, {0: task}, False, share)
        hits = {FILE: pa.array([0], pa.int32()), ROW: pa.array([5]), CLAUSE: pa.array([clause], pa.int32()), "word": ["new"]}
        return list(apply_changes(spec, [pa.RecordBatch.from_pydict(hits)], 0))

    return use


USES = {"scan": scanned, "rewrite": changed(0, 1), "update where rows are marked": changed(0.5, 0)}


@pytest.fixture
def task(tmp_path: Path) -> FileTask:
    """A file as it is written here."""
    writer = DataFileWriter(write_spec(tmp_path, SCHEMA), {}, "", 0)
    writer.write(ROWS)
    (written,) = writer.close()
    return FileTask(0, written.name, {}, rows=300, size=written.size)


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("more", [-1, 1])
def test_a_file_of_another_size_than_the_log_says_is_refused(tmp_path: Path, task: FileTask, use: Use, more: int) -> None:
    assert task.size is not None
    assert use(tmp_path, task)
    before = data_files(tmp_path)
    with pytest.raises(Refused) as caught:
        use(tmp_path, replace(task, size=task.size + more))
    assert caught.value.condition == "DELTAMERGE_CORRUPT_DATA_FILE"
    assert caught.value.parameters == (task.name,)
    assert f"has {task.size} bytes, the transaction log says {task.size + more}" in caught.value.message
    assert data_files(tmp_path) == before
    assert use(tmp_path, replace(task, size=None))


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_flipped_byte_is_refused_or_changes_nothing(tmp_path: Path, task: FileTask, use: Use) -> None:
    path, chosen = tmp_path / task.name, random.Random(2)
    good = path.read_bytes()
    footer = len(good) - 8 - int.from_bytes(good[-8:-4], "little")
    metadata = pq.read_metadata(path).row_group(0)
    pages = max(metadata.column(i).data_page_offset + metadata.column(i).total_compressed_size for i in range(3))
    assert 4 < pages <= footer
    right = use(tmp_path, task)
    before, refusals = data_files(tmp_path), list[Refused]()
    for place in chosen.sample(range(4, pages), 120):
        path.write_bytes(good[:place] + bytes([good[place] ^ (1 << chosen.randrange(8))]) + good[place + 1 :])
        try:
            found = use(tmp_path, task)
        except Refused as error:
            refusals.append(error)
        else:
            assert [batch.num_rows for batch in found] == [batch.num_rows for batch in right]
            assert use is not scanned or found == right
            (tmp_path / task.name).write_bytes(good)
            for name in set(data_files(tmp_path)) - set(before):
                assert set(pq.read_table(tmp_path / name)["word"].to_pylist()) <= {*ROWS["word"].to_pylist(), "new"}
                (tmp_path / name).unlink()
        assert data_files(tmp_path) == before
    assert len(refusals) > 60
    assert {error.condition for error in refusals} == {"DELTAMERGE_CORRUPT_DATA_FILE"}
    assert all(task.name in error.parameters and task.name in error.message for error in refusals)


def test_files_without_checksums_are_read(tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "plain.parquet", write_page_checksum=False)
    found = scanned(tmp_path, FileTask(0, "plain.parquet", {}))
    assert pa.Table.from_batches(found).select(SCHEMA.names).equals(ROWS)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EIO, "Input/output error"),
        OSError("When reading x: AWS Error NETWORK_CONNECTION during GetObject operation: curlCode: 28, Timeout was reached"),
        OSError("google::cloud::Status(UNAVAILABLE: connection reset)"),
        FileNotFoundError(errno.ENOENT, "gone"),
    ],
)
def test_what_can_not_be_reached_is_not_called_damaged(error: OSError) -> None:
    with pytest.raises(OSError) as caught, decoding():  # noqa: PT011
        raise error
    assert caught.value is error
