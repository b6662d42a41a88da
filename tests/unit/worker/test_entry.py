"""The functions that Spark calls: batches in, batches out, and nothing but pyarrow needed where they run."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle

from deltamerge.budgets import DEFAULTS
from deltamerge.protocol.values.predicate import ALWAYS, Compare
from deltamerge.spark.session import shipping
from deltamerge.worker.entry import (
    Room,
    Work,
    apply_map,
    candidates,
    count_map,
    counted_bytes,
    match_map,
    payload_map,
    scan_map,
    write_map,
)
from deltamerge.worker.scan.row_errors import Refused
from deltamerge.worker.scan.scan import FILE, KEY_ID, ROW, FileTask, ScanSpec
from deltamerge.worker.scan.streams import arrow_stream, read_stream
from deltamerge.worker.skipping.keys import build_filter
from deltamerge.worker.write.apply import apply_changes
from deltamerge.worker.write.results import RESULT_SCHEMA, unpack_partition
from deltamerge.worker.write.rewrite import CLAUSE, ChangeSpec, ClauseAction
from tests.live import ship_live_code
from tests.unit.worker.data import data_files, read_rows, store_at, write_spec

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])
BYTES = 1 << 20


@pytest.fixture
def tasks(tmp_path: Path) -> list[FileTask]:
    """Three files of four rows, ids counting on from one to the next, each a partition."""
    found = []
    for number in range(3):
        task = FileTask(number, f"old-{number}.parquet", {"p": pa.scalar("abc"[number])})
        ids = pa.array(range(4 * number, 4 * number + 4), pa.int64())
        pq.write_table(pa.table({"id": ids}), tmp_path / task.name, row_group_size=2)
        found.append(task)
    return found


def scan_of(root: Path, source: list[int], with_key_ids: bool = False) -> ScanSpec:
    keys, _ = build_filter(["id"], [pa.array(source, pa.int64())], [False])
    return ScanSpec(store_at(root), SCHEMA, keys, with_key_ids)


def numbers(*bins: int) -> list[pa.RecordBatch]:
    return [pa.record_batch({"id": pa.array([number], pa.int64())}) for number in bins]


def hits(*rows: tuple[int | None, int | None, int, int | None, str | None]) -> pa.Table:
    types = {FILE: pa.int32(), ROW: pa.int64(), CLAUSE: pa.int32(), "id": pa.int64(), "p": pa.string()}
    columns = [pa.array([row[i] for row in rows], type) for i, type in enumerate(types.values())]
    return pa.table(columns, names=list(types))


def changes_of(root: Path, tasks: list[FileTask]) -> ChangeSpec:
    clauses = ClauseAction("update", frozenset({"id"})), ClauseAction("insert")
    return ChangeSpec(write_spec(root, SCHEMA, ["p"], required=(("id",),)), clauses, {task.file: task for task in tasks})


UPDATE_AND_INSERT = hits((None, None, 1, 100, "new"), (0, 1, 0, 50, None), (2, 3, 0, 60, None))


def values(batches: Iterable[pa.RecordBatch], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for batch in batches for row in batch.to_pylist()]


def test_a_scan_reads_the_files_of_the_bins_that_it_is_given(tmp_path: Path, tasks: list[FileTask]) -> None:
    run = scan_map(scan_of(tmp_path, [1, 2, 9, 77]), [[tasks[0], tasks[1]], [], [tasks[2]]])
    assert values(run(numbers(0, 1, 2)), "id", "p", FILE, ROW) == [(1, "a", 0, 1), (2, "a", 0, 2), (9, "c", 2, 1)]
    assert values(run(numbers(2)), "id") == [(9,)]
    assert values(run(numbers()), "id") == []


def rows_in(batches: Iterable[pa.RecordBatch], *names: str) -> list[tuple[Any, ...]]:
    """The rows that tasks report as Arrow streams."""
    return [
        tuple(row[name] for name in names) for b in batches for stream in b.column(0) for row in read_stream(stream).to_pylist()
    ]


def found_in(spec: ScanSpec, tasks: list[FileTask], room: Room, *names: str) -> list[tuple[Any, ...]] | None:
    """The candidate rows of files; None where there is no room for them."""
    batches = candidates(spec, tasks, room)
    return None if batches is None else values(batches, *names)


def test_matching_gives_each_rows_key_id(tmp_path: Path, tasks: list[FileTask]) -> None:
    spec = scan_of(tmp_path, [9, 1, 2], with_key_ids=True)
    for payload, streams in ((1 << 20, 1), (1, 3)):
        batches = list(match_map(spec, [tasks], 3, BYTES, payload)(numbers(0)))
        assert rows_in(batches, "id", KEY_ID, FILE) == [(1, 1, 0), (2, 2, 0), (9, 0, 2)]
        assert len(batches) == streams


def test_in_place_of_more_matches_than_the_limit_is_a_null(tmp_path: Path, tasks: list[FileTask]) -> None:
    spec = scan_of(tmp_path, list(range(12)), with_key_ids=True)
    for limit, most in ((5, BYTES), (11, BYTES), (12, 1)):
        assert candidates(spec, tasks, Room(limit, most)) is None
        (batch,) = match_map(spec, [tasks], limit, most, 100)(numbers(0))
        assert batch.to_pylist() == [{"rows": None}]
    assert candidates(spec, tasks, Room(12, BYTES)) is not None


def test_files_that_are_read_at_once_share_the_room(tmp_path: Path, tasks: list[FileTask]) -> None:
    spec, room = scan_of(tmp_path, list(range(12)), with_key_ids=True), Room(7, BYTES)
    assert [candidates(spec, [task], room) is None for task in tasks] == [False, True, True]


def test_so_it_is_where_every_row_comes(tmp_path: Path, tasks: list[FileTask]) -> None:
    whole = replace(scan_of(tmp_path, [5], with_key_ids=True), others=ALWAYS)
    assert candidates(whole, tasks, Room(12, 1)) is None
    assert found_in(whole, tasks, Room(12, BYTES), "id", KEY_ID) == [(id, 0 if id == 5 else None) for id in range(12)]


def test_rows_without_a_match_come_where_a_predicate_may_hold(tmp_path: Path, tasks: list[FileTask]) -> None:
    spec = scan_of(tmp_path, [5], with_key_ids=True)
    some = replace(spec, others=Compare(("id",), ">=", pa.scalar(9, spec.schema.field("id").type)))
    assert found_in(some, tasks, Room(12, BYTES), "id", KEY_ID) == [(5, 0), (9, None), (10, None), (11, None)]


def test_the_limit_is_for_each_bin(tmp_path: Path, tasks: list[FileTask]) -> None:
    run = match_map(scan_of(tmp_path, list(range(12)), with_key_ids=True), [[task] for task in tasks], 4, BYTES, 1 << 20)
    assert sorted(rows_in(run(numbers(0, 1, 2)), "id")) == [(number,) for number in range(12)]


def test_payloads_are_applied_each_under_its_own_number(tmp_path: Path, tasks: list[FileTask]) -> None:
    payloads = [arrow_stream(UPDATE_AND_INSERT.slice(start, 1)) for start in range(3)]
    batch = pa.record_batch({"number": pa.array([7, 8, 9], pa.int32()), "payload": pa.array(payloads, pa.binary())})
    results = list(payload_map(changes_of(tmp_path, tasks))([batch]))
    assert [found.schema for found in results] == [RESULT_SCHEMA] * 3
    names = [name.rpartition("/")[2][:10] for (name,) in values(results, "name") if name]
    assert names == ["part-00007", "part-00008", "part-00009"]
    assert [counts for (counts,) in values(results, "counts") if counts] == [[0, 1, 0, 0], [1, 0, 3, 0], [1, 0, 3, 0]]


def test_modified_rows_are_applied_by_the_names_that_their_columns_are_given(tmp_path: Path, tasks: list[FileTask]) -> None:
    nameless = UPDATE_AND_INSERT.rename_columns([f"_{i}" for i in range(5)])
    results = list(apply_map(changes_of(tmp_path, tasks), UPDATE_AND_INSERT.column_names)(nameless.to_batches()))
    assert [counts for (counts,) in values(results, "counts") if counts] == [[2, 1, 6, 0]]
    assert sorted(file for (file,) in values(results, "file") if file is not None) == [0, 2]


def test_rows_are_written_by_position_and_partition(tmp_path: Path) -> None:
    sent = [pa.record_batch({"x": pa.array([1, 2], pa.int64()), "y": ["a", "b"]}), pa.record_batch({"x": [3], "y": ["a"]})]
    results = list(write_map(write_spec(tmp_path, SCHEMA, ["p"]))(sent))
    found = []
    for name, partition in values(results, "name", "partition"):
        found += read_rows(tmp_path, name, unpack_partition(partition), ["id", "p"])
    assert sorted(found) == [(1, "a"), (2, "b"), (3, "a")]


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, limit: Callable[..., None]) -> None:
    limit(row_group_bytes=1)

    def breaking() -> Iterable[pa.RecordBatch]:
        yield pa.record_batch({"id": range(20_000), "p": pa.repeat("a", 20_000)})
        assert len(data_files(tmp_path)) == 1
        yield pa.record_batch({"id": pa.array([None], pa.int64()), "p": ["a"]})

    with pytest.raises(Refused):
        list(write_map(write_spec(tmp_path, SCHEMA, ["p"], required=(("id",),)))(breaking()))
    assert data_files(tmp_path) == []


def numbered(table: pa.Table, task: int) -> list[pa.RecordBatch]:
    """A batch a row, the task's number as the last column."""
    column = pa.array([task] * table.num_rows, pa.int32())
    return table.append_column("task", column).to_batches(max_chunksize=1)


def counted(
    batches: list[pa.RecordBatch], bounded: Sequence[int] = (), part: int = DEFAULTS.counted_part_bytes
) -> dict[str, Any]:
    """What a task that counts rows reports."""
    (row,) = pa.Table.from_batches(count_map(replace(DEFAULTS, counted_part_bytes=part), bounded)(batches)).to_pylist()
    return dict(row)


def test_rows_are_counted_and_brought_along_while_they_are_few() -> None:
    few = UPDATE_AND_INSERT.to_batches(max_chunksize=1)
    size, brought = sum(batch.nbytes for batch in few), len(arrow_stream(pa.Table.from_batches(few)))
    assert brought > size
    for part, kept in ((brought, True), (brought - 1, False), (size - 1, False)):
        row = counted(numbered(UPDATE_AND_INSERT, 0), part=part)
        assert (row["rows"], row["bytes"]) == (3, size)
        assert (row["payload"] is not None) == kept
        assert not kept or pa.ipc.open_stream(row["payload"]).read_all().equals(UPDATE_AND_INSERT)
    assert list(count_map(DEFAULTS)([])) == []


def test_all_tasks_together_bring_no_more_than_64_mb() -> None:
    assert sum(counted_bytes(task, DEFAULTS) for task in range(20_000)) < 64_000_000
    assert [counted_bytes(task, DEFAULTS) for task in (0, 9, 199, 10_000)] == [800_000, 800_000, 40_000, 0]
    rows = pa.table({"k": pa.array(range(100), pa.int64()), "w": ["x" * 2_000] * 100})
    for task, kept in ((0, True), (39, False), (10_000, False)):
        row = counted(numbered(rows, task), [0])
        assert (row["payload"] is not None) == kept
        assert (row["bounds"] is not None) == (task < 10_000)
    assert counted(numbered(rows, 0), [1])["bounds"] is None


def test_a_row_counts_some_bytes_however_narrow_it_is() -> None:
    assert counted(numbered(pa.table({"b": [True] * 1_000}), 0))["bytes"] == 8_000


ELSEWHERE = """
import pickle, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("deltamerge", "sqlglot", "pandas", "tests"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
try:
    import deltamerge
except ModuleNotFoundError:
    pass
else:
    sys.exit("deltamerge is here")
import pyarrow as pa

calls = pickle.load(sys.stdin.buffer)
results = []
for function, batches in calls:
    try:
        results.append([batch.to_pylist() for batch in function(batches)])
    except Exception as error:
        results.append(f"{type(error).__name__}: {error}")
sys.stdout.buffer.write(pickle.dumps(results))
"""


def elsewhere(calls: list[tuple[Work, list[pa.RecordBatch]]]) -> list[Any]:
    """What each function gives in a Python process that has pyarrow and PySpark, and no deltamerge."""
    shipped = cloudpickle.dumps([(shipping.shipped(work), batches) for work, batches in calls])
    done = subprocess.run([sys.executable, "-I", "-c", ELSEWHERE], input=shipped, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return list(pickle.loads(done.stdout))


@pytest.mark.parametrize("by", ["files", "value"])
def test_all_functions_run_where_deltamerge_is_not_installed(
    tmp_path: Path, tasks: list[FileTask], monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    if by == "value":
        ship_live_code(monkeypatch)
    changes, plain = changes_of(tmp_path, tasks), write_spec(tmp_path, SCHEMA, ["p"], required=(("id",),))
    payload = pa.record_batch({"number": pa.array([1], pa.int32()), "payload": pa.array([arrow_stream(UPDATE_AND_INSERT)])})
    reading = [
        (scan_map(scan_of(tmp_path, [1, 9]), [tasks]), numbers(0)),
        (match_map(scan_of(tmp_path, [1, 9], with_key_ids=True), [tasks], 10, BYTES, 1 << 20), numbers(0)),
        (count_map(DEFAULTS), numbered(UPDATE_AND_INSERT, 3)),
    ]
    writing = [
        (payload_map(changes), [payload]),
        (apply_map(changes, UPDATE_AND_INSERT.column_names), UPDATE_AND_INSERT.to_batches()),
        (write_map(plain), [pa.record_batch({"id": [1], "p": ["a"]})]),
    ]
    refused = (write_map(plain), [pa.record_batch({"id": pa.array([None], pa.int64()), "p": ["a"]})])
    *found, refusal = elsewhere([*reading, *writing, refused])
    assert [shipping.shipped(work).__name__ for work, _ in reading] == ["scan_map", "match_map", "count_map"]
    assert found[:3] == [[batch.to_pylist() for batch in function(batches)] for function, batches in reading]
    (here,) = apply_changes(changes, UPDATE_AND_INSERT.to_batches(), 0)
    unique = {"name", "modified", "partition", "size"}
    expected = [{key: value for key, value in row.items() if key not in unique} for row in here.to_pylist()]
    for result in found[3:5]:
        assert [[{key: value for key, value in row.items() if key not in unique} for row in batch] for batch in result] == [
            expected
        ]
    assert [row["rows"] for batch in found[5] for row in batch] == [1]
    assert refusal.startswith(f"Refused: {Refused.MARK}")
