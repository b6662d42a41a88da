"""The write stage against a plain Python model: rows, counts and files, whatever the clauses and however rows arrive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamerge.budgets import using
from deltamerge.protocol.formats.roaring import decode
from deltamerge.protocol.table.row_tracking import TrackingColumns
from deltamerge.worker.scan.row_errors import Refused
from deltamerge.worker.scan.scan import FILE, ROW, FileTask
from deltamerge.worker.write.apply import apply_changes
from deltamerge.worker.write.feed import change_file_spec
from deltamerge.worker.write.results import ADD, CHANGE, COUNTS, MARKED, RESULT_SCHEMA, TOUCHED, unpack_partition
from deltamerge.worker.write.rewrite import CLAUSE, ChangeSpec, ClauseAction, inserted_rows
from deltamerge.worker.write.tracking import tracking_spec
from tests.unit.worker.data import bag, data_files, examples, folder, read_rows, vector_of, write_spec

Row = tuple[Any, ...]

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("word", pa.string()),
        ("nested", pa.struct([("x", pa.int32()), ("l", pa.list_(pa.field("element", pa.int32())))])),
        ("p", pa.string()),
    ]
)
VALUES: list[st.SearchStrategy[Any]] = [
    st.integers(0, 99),
    st.text("abc", max_size=2),
    st.tuples(st.none() | st.integers(0, 9), st.none() | st.lists(st.integers(0, 9), max_size=2)).map(
        lambda fields: {"x": fields[0], "l": fields[1]}
    ),
    st.sampled_from(["u", "v", "w"]),
]
TRACKING = ("_row-id-col", "_row-version-col")
rows_of_table = st.tuples(*[st.none() | values for values in VALUES])


@dataclass(frozen=True)
class Hit:
    """A modified row: the file and position that it has (an insert has none), the clause, and a new value per column."""

    file: int | None
    row: int | None
    clause: int
    values: Row


@dataclass(frozen=True)
class Change:
    """Files with their rows, those that are deleted, and what happens to the others."""

    files: list[list[Row]]
    deleted: list[set[int]]
    clauses: list[ClauseAction]
    hits: list[Hit]
    partitioned: bool
    folds: bool
    share: float
    counted: bool
    feed: bool
    tracked: bool

    def after(self) -> list[Row]:
        """All rows of the touched files and the inserted ones, as they must be afterwards, with id and version if tracked."""
        found = []
        for file in self.touched:
            clause_of = {hit.row: hit for hit in self.hits if hit.file == file}
            for number, row in enumerate(self.files[file]):
                hit = clause_of.get(number)
                action = self.clauses[hit.clause] if hit else None
                if number in self.deleted[file]:
                    continue
                id, version = self.identity(file, number)
                if hit is None or action is None:
                    found.append((*row, *([id, version] if self.tracked else [])))
                elif action.kind == "update":
                    pairs = zip(SCHEMA.names, hit.values, row, strict=True)
                    new = tuple(new if name in action.assigned else old for name, new, old in pairs)
                    found.append((*new, *([id, None] if self.tracked else [])))
        unknown = (None, None) if self.tracked else ()
        return found + [(*hit.values, *unknown) for hit in self.hits if hit.file is None]

    def stored_identity(self, file: int, row: int) -> tuple[int | None, int | None]:
        """Id and version of a row in the materialized columns of the odd files, which alone have them."""
        return (None if row % 2 else 50 - row, None if row % 3 else row) if file % 2 else (None, None)

    def identity(self, file: int, row: int) -> tuple[int, int]:
        """Id and version that a row of a file has before the change."""
        id, version = self.stored_identity(file, row)
        return 1000 * file + row if id is None else id, file + 7 if version is None else version

    def feed_rows(self) -> list[Row]:
        """The rows of the change data files: a row's values and the kind of its change."""
        if not self.feed:
            return []
        found: list[Row] = [(*hit.values, "insert") for hit in self.hits if hit.file is None]
        for (file, place), hit in {(hit.file, hit.row): hit for hit in self.hits if hit.file is not None}.items():
            old, action = self.files[file or 0][place or 0], self.clauses[hit.clause]
            if action.kind == "delete":
                found.append((*old, "delete"))
            else:
                pairs = zip(SCHEMA.names, hit.values, old, strict=True)
                new = tuple(value if name in action.assigned else before for name, value, before in pairs)
                found += [(*old, "update_preimage"), (*new, "update_postimage")]
        return found

    @property
    def touched(self) -> list[int]:
        return sorted({hit.file for hit in self.hits if hit.file is not None})

    @property
    def counts(self) -> list[int]:
        """Rows per clause, then rows copied from files that are written again; a target row counts once."""
        hits = {(hit.file, hit.row): hit.clause for hit in self.hits if hit.file is not None}
        inserts = [hit.clause for hit in self.hits if hit.file is None]
        per_clause = [[*hits.values(), *inserts].count(number) for number in range(len(self.clauses))]
        return [*per_clause, sum(len(self.files[file]) - len(self.gone(file)) for file in self.touched if not self.marks(file))]

    def gone(self, file: int) -> set[int]:
        """The rows of a file that are not there any more."""
        return self.deleted[file] | {hit.row for hit in self.hits if hit.file == file and hit.row is not None}

    def marks(self, file: int) -> bool:
        """Whether the file stays, with a vector."""
        gone, rows = len(self.gone(file)), len(self.files[file])
        return gone < rows and 0 < gone <= self.share * rows

    def table(self) -> pa.Table:
        """The modified rows as Spark sends them: only assigned columns, null where a row's clause doesn't assign one."""
        inserting = any(clause.kind == "insert" for clause in self.clauses)
        assigned = {name for clause in self.clauses for name in clause.assigned} | (set(SCHEMA.names) if inserting else set())
        columns: dict[str, Any] = {
            FILE: pa.array([hit.file for hit in self.hits], pa.int32()),
            ROW: pa.array([hit.row for hit in self.hits], pa.int64()),
            CLAUSE: pa.array([hit.clause for hit in self.hits], pa.int32()),
        }
        for place, field in enumerate(SCHEMA):
            if field.name in assigned:
                actions = [self.clauses[hit.clause] for hit in self.hits]
                sets = [action.kind == "insert" or field.name in action.assigned for action in actions]
                values = [hit.values[place] if found else None for hit, found in zip(self.hits, sets, strict=True)]
                columns[field.name] = pa.array(values, field.type)
        return pa.table(columns)

    def write(self, root: Path, group_rows: int, batch_of_old: bool) -> ChangeSpec:
        """Write the files, each a partition of its own if there are any; old files lack a column and have narrower ids."""
        partition_columns = ["p"] if self.partitioned else []
        tasks = {}
        for number, rows in enumerate(self.files):
            columns = {field.name: pa.array([row[i] for row in rows], field.type) for i, field in enumerate(SCHEMA)}
            partition = {"p": columns["p"][0]} if self.partitioned else {}
            stored = {name: values for name, values in columns.items() if name not in partition}
            if batch_of_old:
                stored["id"] = stored["id"].cast(pa.int32())
                del stored["nested"]
            if self.tracked and number % 2:
                kept = [self.stored_identity(number, row) for row in range(len(rows))]
                for place, name in enumerate(TRACKING):
                    stored[name] = pa.array([pair[place] for pair in kept], pa.int64())
            vector = vector_of(root, self.deleted[number], inline=number % 2 == 0)
            known = len(rows) if self.counted else None
            ids = {"base_row_id": 1000 * number, "row_version": number + 7} if self.tracked else {}
            task = FileTask(number, f"old-{number}.parquet", partition, vector=vector, rows=known, **ids)
            pq.write_table(pa.table(stored), root / task.name, row_group_size=group_rows)
            tasks[number] = task
        spec = write_spec(root, SCHEMA, partition_columns)
        feed = change_file_spec(spec) if self.feed else None
        spec = tracking_spec(spec, TrackingColumns(*TRACKING)) if self.tracked else spec
        return ChangeSpec(spec, tuple(self.clauses), tasks, self.folds, self.share, feed)


@st.composite
def changes(draw: st.DrawFn, collide: bool = False) -> tuple[Change, bool]:
    partitioned, old = draw(st.booleans()), draw(st.booleans())
    files = []
    for _ in range(draw(st.integers(1, 3))):
        rows = draw(st.lists(rows_of_table, min_size=1, max_size=15))
        rows = [(*row[:2], None if old else row[2], row[3]) for row in rows]
        files.append([(*row[:3], rows[0][3]) for row in rows] if partitioned else rows)
    folds = not collide and draw(st.sampled_from([False, False, True]))
    assigned = st.sets(st.sampled_from(SCHEMA.names)).map(frozenset)
    update = st.builds(ClauseAction, st.just("update"), assigned)
    delete, insert = ClauseAction("delete"), ClauseAction("insert")
    clauses = [delete] if folds else draw(st.lists(update | st.just(delete), min_size=1, max_size=3))
    matched = len(clauses)
    clauses = draw(st.permutations([*clauses, insert])) if draw(st.booleans()) else clauses
    numbers = [number for number, clause in enumerate(clauses) if clause != insert]
    assert len(numbers) == matched
    hits = [Hit(None, None, clauses.index(insert), row) for row in draw(st.lists(rows_of_table, max_size=6)) if insert in clauses]
    deleted = []
    for file, rows in enumerate(files):
        positions = draw(st.lists(st.integers(0, len(rows) - 1), max_size=20, unique=not (folds or collide)))
        deleted.append(draw(st.just(set()) | st.sets(st.integers(0, len(rows) - 1))) - set(positions))
        hits += [Hit(file, row, draw(st.sampled_from(numbers)), draw(rows_of_table)) for row in sorted(positions)]
    share = draw(st.sampled_from([0.0, 0.0, 0.3, 0.6, 1.0]))
    return Change(files, deleted, clauses, hits, partitioned, folds, share, *(draw(st.booleans()) for _ in range(3))), old


def cut(table: pa.Table, cuts: list[int]) -> Iterator[pa.RecordBatch]:
    edges = [0, *sorted(min(place, table.num_rows) for place in cuts), table.num_rows]
    for start, end in pairwise(edges):
        yield from table.slice(start, end - start).combine_chunks().to_batches()


cuts = st.lists(st.integers(0, 40), max_size=8)
smalls = st.sampled_from([0, 1 << 20])  # whether files are put together


@examples
@given(changes(), cuts, st.integers(1, 6), st.integers(1, 16), smalls)
def test_rows_counts_and_files_are_those_of_the_model(
    drawn: tuple[Change, bool], places: list[int], group_rows: int, batch_rows: int, small: int
) -> None:
    change, old = drawn
    with folder() as root, using(rewrite_rows=batch_rows, small_file_bytes=small):
        spec = change.write(root, group_rows, old)
        before = data_files(root)
        (batch,) = apply_changes(spec, cut(change.table(), places), 5)
        result = batch.to_pylist()
        added = [row for row in result if row["kind"] == ADD]
        changed = [row for row in result if row["kind"] == CHANGE]
        feed: list[Row] = []
        for row in changed:
            partition = unpack_partition(row["partition"])
            folder_name, _, name = row["name"].rpartition("/")
            assert folder_name == "/".join(
                ["_change_data", *(f"p={value.as_py() or '__HIVE_DEFAULT_PARTITION__'}" for value in partition.values())]
            )
            assert name.startswith("cdc-00005-")
            feed += read_rows(root, row["name"], partition, [*SCHEMA.names, "_change_type"])
        found = []
        for row in added:
            partition = unpack_partition(row["partition"])
            assert set(partition) == set(spec.write.partition_columns)
            rows = read_rows(root, row["name"], partition, [*SCHEMA.names, *(TRACKING if change.tracked else [])])
            assert row["rows"] == len(rows) > 0
            found += rows
        marked = {row["file"]: row for row in result if row["kind"] == MARKED}
        for file, row in marked.items():
            gone = set(decode(row["positions"]).positions().tolist())
            assert (gone, row["rows"]) == (change.gone(file), len(change.files[file]))
            for place, values in enumerate(change.files[file]):
                found += [(*values, *(change.identity(file, place) if change.tracked else ()))] if place not in gone else []
        assert data_files(root) == sorted([*before, *(row["name"] for row in (*added, *changed))])
    assert bag(feed) == bag(change.feed_rows())
    assert batch.schema == RESULT_SCHEMA
    assert bag(found) == bag(change.after())
    assert [row["counts"] for row in result if row["kind"] == COUNTS] == [[*change.counts, 0]]
    assert sorted(marked) == [file for file in change.touched if change.marks(file)]
    assert [row["file"] for row in result if row["kind"] == TOUCHED] == [f for f in change.touched if not change.marks(f)]
    assert sum(row["rows"] for row in result if row["kind"] == TOUCHED) == change.counts[-1]


@examples
@given(changes(collide=True), cuts, st.integers(1, 16), smalls)
def test_rows_that_are_hit_twice_are_counted_as_collisions(
    drawn: tuple[Change, bool], places: list[int], batch_rows: int, small: int
) -> None:
    change, old = drawn
    positions = [(hit.file, hit.row) for hit in change.hits if hit.file is not None]
    with folder() as root, using(rewrite_rows=batch_rows, small_file_bytes=small):
        (batch,) = apply_changes(change.write(root, 4, old), cut(change.table(), places), 0)
    (counts,) = [row["counts"] for row in batch.to_pylist() if row["kind"] == COUNTS]
    assert counts[-1] == len({position for position in positions if positions.count(position) > 1})


class Broken(Exception):
    """What goes wrong in the middle."""


@examples
@given(changes(), cuts, st.integers(0, 8), st.integers(1, 16), smalls)
def test_a_failure_in_the_middle_leaves_no_new_file(
    drawn: tuple[Change, bool], places: list[int], good: int, batch_rows: int, small: int
) -> None:
    change, old = drawn

    def breaking() -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(cut(change.table(), places)):
            if number == good:
                raise Broken
            yield batch
        raise Broken

    with folder() as root, using(rewrite_rows=batch_rows, small_file_bytes=small):
        spec = change.write(root, 4, old)
        before = data_files(root)
        with pytest.raises(Broken):
            list(apply_changes(spec, breaking(), 0))
        assert data_files(root) == before


def test_small_files_and_inserted_rows_of_a_partition_come_together(tmp_path: Path, limit: Callable[..., None]) -> None:
    limit(small_file_bytes=20_000)
    spec = small_spec(tmp_path, [3, 30_000, 4], UPDATE, INSERT)
    (batch,) = apply_changes(spec, small_hits((0, 1, 0, 7), (1, 9, 0, 8), (2, 0, 0, 9), (None, None, 1, 5)), 0)
    result = batch.to_pylist()
    assert sorted(row["rows"] for row in result if row["kind"] == ADD) == [8, 30_000]
    assert [row["file"] for row in result if row["kind"] == TOUCHED] == [0, 1, 2]
    (name,) = [row["name"] for row in result if row["kind"] == ADD and row["rows"] == 8]
    assert sorted(read_rows(tmp_path, name, {}, ["id"])) == [(0,), (1,), (2,), (2,), (3,), (5,), (7,), (9,)]


SMALL = pa.schema([("id", pa.int64())])


def small_spec(root: Path, files: list[int], *clauses: ClauseAction, **options: Any) -> ChangeSpec:
    """Files with the given numbers of rows, their ids counting from 0."""
    tasks = {number: FileTask(number, f"old-{number}.parquet", {}) for number in range(len(files))}
    for number, rows in enumerate(files):
        pq.write_table(pa.table({"id": pa.array(range(rows), pa.int64())}), root / tasks[number].name)
    return ChangeSpec(write_spec(root, SMALL, **options), clauses, tasks)


def small_hits(*rows: tuple[int | None, int | None, int, int | None]) -> list[pa.RecordBatch]:
    types = {FILE: pa.int32(), ROW: pa.int64(), CLAUSE: pa.int32(), "id": pa.int64()}
    columns = [pa.array([row[i] for row in rows], type) for i, type in enumerate(types.values())]
    return pa.table(columns, names=list(types)).to_batches()


UPDATE, DELETE, INSERT = ClauseAction("update", frozenset({"id"})), ClauseAction("delete"), ClauseAction("insert")


def test_files_and_inserts_that_were_finished_before_a_failure_are_deleted(tmp_path: Path, limit: Callable[..., None]) -> None:
    limit(row_group_bytes=1, rewrite_rows=20_000, small_file_bytes=0, splices=False)
    spec = small_spec(tmp_path, [3, 30_000], UPDATE, INSERT, target_bytes=1)
    inserts = pa.table({FILE: pa.nulls(20_000, pa.int32()), ROW: pa.nulls(20_000, pa.int64()), CLAUSE: pa.repeat(1, 20_000)})
    seen = []

    def batches() -> Iterator[pa.RecordBatch]:
        yield from inserts.append_column("id", pa.array(range(20_000))).to_batches()
        yield from small_hits((0, 1, 0, 7), (1, 25_000, 0, 8))
        seen.extend(data_files(tmp_path))
        raise Broken

    with pytest.raises(Broken):
        list(apply_changes(spec, batches(), 0))
    assert len(seen) == 5
    assert data_files(tmp_path) == ["old-0.parquet", "old-1.parquet"]


def test_a_missing_file_fails_and_leaves_the_others_alone(tmp_path: Path) -> None:
    spec = small_spec(tmp_path, [3, 3], DELETE)
    (tmp_path / "old-1.parquet").unlink()
    with pytest.raises(FileNotFoundError):
        list(apply_changes(spec, small_hits((0, 1, 0, None), (1, 1, 0, None)), 0))
    assert data_files(tmp_path) == ["old-0.parquet"]


def test_a_refused_row_leaves_no_new_file(tmp_path: Path) -> None:
    spec = small_spec(tmp_path, [3, 3], UPDATE, INSERT, required=(("id",),))
    for rows in ([(None, None, 1, 1), (0, 1, 0, 7), (1, 1, 0, None)], [(None, None, 1, None)]):
        with pytest.raises(Refused):
            list(apply_changes(spec, small_hits(*rows), 0))
        assert data_files(tmp_path) == ["old-0.parquet", "old-1.parquet"]


def test_a_file_whose_rows_are_all_deleted_is_touched_and_not_written(tmp_path: Path) -> None:
    spec = small_spec(tmp_path, [2], DELETE)
    (batch,) = apply_changes(spec, small_hits((0, 0, 0, None), (0, 1, 0, None)), 0)
    assert [(row["kind"], row["file"], row["rows"]) for row in batch.to_pylist()] == [(TOUCHED, 0, 0), (COUNTS, None, None)]
    assert data_files(tmp_path) == ["old-0.parquet"]


def test_no_rows_are_counts_of_zero(tmp_path: Path) -> None:
    (batch,) = apply_changes(small_spec(tmp_path, [2], UPDATE, INSERT), [], 0)
    assert [row["counts"] for row in batch.to_pylist()] == [[0, 0, 0, 0]]


def test_files_are_named_for_the_task(tmp_path: Path, limit: Callable[..., None]) -> None:
    limit(small_file_bytes=0)
    spec = small_spec(tmp_path, [2], UPDATE, INSERT)
    (batch,) = apply_changes(spec, small_hits((None, None, 1, 1), (0, 1, 0, 7)), 31)
    assert [name[:10] for name in batch.column("name").to_pylist() if name] == ["part-00031"] * 2


def test_inserted_rows_are_in_the_tables_order_and_types(tmp_path: Path) -> None:
    schema = pa.schema([("b", pa.string()), ("a", pa.int64())])
    hits = pa.table({"a": pa.array([1], pa.int32()), CLAUSE: [0], "b": ["x"]})
    assert inserted_rows(write_spec(tmp_path, schema), hits).equals(pa.table({"b": ["x"], "a": [1]}, schema=schema))
