"""Rows of both sides that are matched by a hash of their keys: which change, to whom they go on, by their keys alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import deltamerge.worker.join.hash_join as hash_join
from deltamerge.budgets import Budgets, current_budgets, using
from deltamerge.protocol.values.computed import Arithmetic
from deltamerge.protocol.values.condition import Column, Comparison, Constant, Some
from deltamerge.worker.join.clauses import ClauseProgram, Origin
from deltamerge.worker.join.hash_join import ChangesByFile, HashJoin, HashJoinSpec
from deltamerge.worker.join.partitioning import KeyRanges, partitioned
from deltamerge.worker.join.range_join import JoinSpec
from deltamerge.worker.scan.outcomes import AttemptEnded, KeysRepeated, NotThisWay, TooLarge
from deltamerge.worker.scan.scan import FILE, ROW, ScanSpec
from deltamerge.worker.scan.source import BIN, POSITION
from deltamerge.worker.scan.store import DataStore
from deltamerge.worker.scan.streams import unpacked_rows
from deltamerge.worker.write.rewrite import CLAUSE

KEYS = st.one_of(st.none(), st.integers(-9, 9))
LIMITS = st.tuples(st.integers(0, 25), st.integers(-9, 9), st.integers(0, 25))
FILES = ((0, 2), (1,))
VALUE = {"v": Origin("source", "v")}
UPDATE, INSERT, GONE = ClauseProgram(0, VALUE), ClauseProgram(1, VALUE), ClauseProgram(2)


def with_limits(test: Any) -> Any:
    """Given are keys of a table and of a source, limits for conditions, and how many rows and bytes are worked on at once."""
    keys = st.lists(KEYS, max_size=25)
    given_all = given(keys, keys, LIMITS, st.integers(1, 40), st.sampled_from([1, 60, 1 << 20]))
    return settings(max_examples=80, deadline=None)(given_all(test))


def join_of(
    update: bool = True, inserts: bool = True, gone: bool = True, positions: bool = False, moves: bool = False, tasks: int = 3
) -> HashJoinSpec:
    """Some tasks match; files 0 and 2 are written by one task, file 1 by another; two tasks insert."""
    nothing = np.zeros(2, np.int64)
    matched = ClauseProgram(0) if moves else UPDATE
    join = JoinSpec(
        ScanSpec(DataStore("", ""), pa.schema([("k", pa.int64())])),
        (("k", "k"),),
        "k",
        KeyRanges(nothing, nothing, FILES),
        pa.schema([] if moves else [("v", pa.int64())]),
        (matched,) if update else (),
        (INSERT,) if inserts else (),
        (GONE,) if gone else (),
        positions,
        moves,
        budgets=current_budgets(),
    )
    writers = tuple(range(200, 202 + 2 * inserts))
    return HashJoinSpec(join, (("k", "k"),), tuple(range(100, 100 + tasks)), writers)


def table_of(spec: HashJoinSpec, keys: list[int | None]) -> pa.Table:
    rows = range(len(keys))
    columns = [pa.array(keys, pa.int64()), pa.array([n % 3 for n in rows], pa.int32()), pa.array(rows, pa.int64())]
    return pa.table(columns, schema=spec.join.scan.output)


def source_of(keys: list[int | None]) -> pa.Table:
    rows = range(len(keys))
    places = {BIN: pa.array([n % 2 for n in rows], pa.int32()), POSITION: pa.array(rows, pa.int64())}
    return pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array(rows, pa.int64()), **places})


def literal(value: int) -> Constant:
    return Constant(pa.scalar(value, pa.int64()))


def sent(spec: HashJoinSpec, table: pa.Table, source: pa.Table) -> dict[int, list[pa.RecordBatch]]:
    """What comes to each owner, by the number that Spark's partitioning sends there."""
    arrived: dict[int, list[pa.RecordBatch]] = {}
    for route, rows in ((spec.target, table), (spec.source, source)):
        for batch in partitioned(route, [rows.slice(start, 5) for start in range(0, rows.num_rows, 5)]):
            assert (batch.column(1)[0].as_py() < 0) is (rows is table)
            arrived.setdefault(batch.column(0)[0].as_py(), []).append(batch)
    found: dict[int, list[pa.RecordBatch]] = {}
    for batches in arrived.values():
        for batch in HashJoin(spec).changes(batches):
            found.setdefault(batch.column(0)[0].as_py(), []).append(batch)
    return found


@settings(max_examples=150, deadline=None)
@given(st.lists(KEYS, max_size=25), st.lists(KEYS, max_size=25), st.integers(1, 40), st.integers(1, 4))
def test_rows_that_change_go_to_the_writers_of_their_files(
    held: list[int | None], keys: list[int | None], chunk: int, tasks: int
) -> None:
    with using(chunk_rows=chunk):
        spec = join_of(tasks=tasks)
        found = sent(spec, table_of(spec, held), source_of(keys))
    updated: Counter[tuple[int, int]] = Counter()
    gone, inserted = [], []
    for partition, batches in found.items():
        order: list[tuple[int, int]] = []
        for batch in ChangesByFile(Budgets()).changes(batches):
            for row in batch.to_pylist():
                if row[FILE] is None:
                    assert partition >= 202
                    assert row[CLAUSE] == 1
                    inserted.append(row["v"])
                    continue
                assert row[FILE] in FILES[partition - 200]
                order.append((row[FILE], row[ROW]))
                if row[CLAUSE] == 0:
                    assert keys[row["v"]] == held[row[ROW]] is not None
                    updated[row[FILE], row[ROW]] += 1
                else:
                    assert row["v"] is None
                    gone.append(row[ROW])
        assert order == sorted(order)
    partners = Counter(key for key in keys if key is not None)
    rows = [(n % 3, n) for n in range(len(held))]
    assert updated == +Counter({place: min(2, partners[held[place[1]]]) for place in rows if held[place[1]] is not None})
    assert sorted(gone) == [n for n, key in enumerate(held) if key is None or key not in partners]
    assert sorted(inserted) == [n for n, key in enumerate(keys) if key is None or key not in held]


@settings(max_examples=80, deadline=None)
@given(
    st.lists(KEYS, max_size=25), st.lists(KEYS, max_size=25), st.booleans(), st.integers(1, 40), st.sampled_from([1, 7, 1 << 20])
)
@example(list(range(9)), list(range(9)), True, 40, 1)
def test_rows_are_reported_by_their_positions(
    held: list[int | None], keys: list[int | None], inserts: bool, chunk: int, piece: int
) -> None:
    repeats = any(key is not None and key in keys and held.count(key) > 1 for key in held)
    with using(chunk_rows=chunk, piece_bytes=piece):
        spec = join_of(inserts=inserts, gone=False, positions=True, moves=True)
        if repeats:
            with pytest.raises(AttemptEnded, match="several target rows") as caught:
                sent(spec, table_of(spec, held), source_of(keys))
            assert isinstance(caught.value.outcome, KeysRepeated)
            return
        found = sent(spec, table_of(spec, held), source_of(keys))
    told: list[tuple[int, int]] = []
    deleted: set[tuple[int, int]] = set()
    for batches in found.values():
        changes = ChangesByFile(Budgets())
        for batch in changes.changes(batches):
            assert batch.schema.names == [FILE, ROW, CLAUSE]
            deleted |= {(row[FILE], row[ROW]) for row in batch.to_pylist()}
        told += [(number, place) for number, some in changes.positions() for place in some.tolist()]
    if not any(count > 2 for key, count in Counter(keys).items() if key is not None):
        moved = {n for n, k in enumerate(keys) if k is not None and k in held}
        assert sorted(told) == sorted((n % 2, n) for n in range(len(keys)) if n in moved or inserts)
    assert len(deleted) == sum(key is not None and key in keys for key in held)


@with_limits
@example(list(range(10)), list(range(9, -4, -1)), (7, 4, 12), 40, 1)
@example([0], [0, 0, 0], (0, 0, 0), 1, 1)
def test_only_rows_for_which_conditions_are_true_are_reported(
    held: list[int | None], keys: list[int | None], limits: tuple[int, int, int], chunk: int, piece: int
) -> None:
    """An update of rows with a great value, or a great key in the table; an insert of those with a small value."""
    updated, above, added = limits
    applies = {n for n, key in enumerate(keys) if key is not None and key in held and (n >= updated or key > above)}
    with using(chunk_rows=chunk, piece_bytes=piece):
        spec = join_of(gone=False, positions=True, moves=True)
        value, key = Column("v", "source"), Column("k", "target")
        either = Some((Comparison(value, ">=", literal(updated)), Comparison(key, ">", literal(above))))
        matched = replace(spec.join.matched[0], condition=either)
        inserts = replace(INSERT, condition=Comparison(value, "<", literal(added)))
        spec = replace(spec, join=replace(spec.join, matched=(matched,), inserts=(inserts,)))
        if any(held.count(keys[n]) > 1 for n in applies):
            with pytest.raises(AttemptEnded, match="several target rows"):
                sent(spec, table_of(spec, held), source_of(keys))
            return
        found = sent(spec, table_of(spec, held), source_of(keys))
    told: list[tuple[int, int]] = []
    deleted: Counter[tuple[int, int]] = Counter()
    for batches in found.values():
        changes = ChangesByFile(Budgets())
        for batch in changes.changes(batches):
            deleted.update((row[FILE], row[ROW]) for row in batch.to_pylist())
        told += [(number, place) for number, some in changes.positions() for place in some.tolist()]
    new = {n for n, key in enumerate(keys) if n < added and (key is None or key not in held)}
    by_key = Counter(keys[n] for n in applies)
    if max(by_key.values(), default=0) <= 2:  # a third is an error anyway
        assert sorted(told) == sorted((n % 2, n) for n in applies | new)
    assert deleted == Counter({(n % 3, n): min(2, by_key[key]) for n, key in enumerate(held) if by_key[key]})


@with_limits
@example(list(range(10)), list(range(9, -4, -1)), (7, 4, 12), 40, 1)
@example(list(range(10)), list(range(10)), (7, 4, 0), 40, 1 << 20)
def test_values_are_those_of_the_rows_for_which_conditions_are_true(
    held: list[int | None], keys: list[int | None], limits: tuple[int, int, int], chunk: int, piece: int
) -> None:
    """An update of great values, another, by another column, that sets one of the table; an insert that computes its value."""
    updated, above, added = limits
    value, other = Column("v", "source"), Column("u", "source")
    with using(chunk_rows=chunk, piece_bytes=piece):
        spec = join_of(gone=False)
        matched = (
            replace(UPDATE, condition=Comparison(value, ">=", literal(updated))),
            ClauseProgram(3, {"v": Origin("target", "w")}, Comparison(other, ">", literal(above))),
        )
        computed = {"v": Arithmetic(other, "+", literal(100))}
        inserts = (ClauseProgram(1, {"v": Origin("evaluated", "v")}, Comparison(value, ">=", literal(added)), computed),)
        scan = replace(spec.join.scan, schema=pa.schema([("k", pa.int64()), ("w", pa.int64())]))
        spec = replace(spec, join=replace(spec.join, scan=scan, matched=matched, inserts=inserts))
        table = table_of(join_of(), held)
        table = pa.table(
            [table["k"], pa.array([n + 1_000 for n in range(len(held))], pa.int64()), table[FILE], table[ROW]], scan.output
        )
        source = source_of(keys).append_column("u", pa.array([n - 9 for n in range(len(keys))], pa.int64()))
        found = sent(spec, table, source)
    rows = [row for some in found.values() for batch in ChangesByFile(Budgets()).changes(some) for row in batch.to_pylist()]
    of_key = {key: [n for n, other in enumerate(keys) if other == key] for key in keys if key is not None}
    for place, own in enumerate(held):
        changes = [(0, n) if n >= updated else (3, place + 1_000) for n in of_key.get(own, []) if n >= updated or n - 9 > above]
        made = [(row[CLAUSE], row["v"]) for row in rows if row[ROW] == place]
        assert len(made) == min(2, len(changes))
        assert not Counter(made) - Counter(changes)
    new = [n - 9 + 100 for n, key in enumerate(keys) if n >= added and (key is None or key not in held)]
    assert sorted(row["v"] for row in rows if row[FILE] is None) == new


@settings(deadline=None)
@given(st.lists(KEYS, max_size=25), st.lists(KEYS, max_size=25), st.randoms())
def test_where_rows_go_on_does_not_depend_on_their_order(held: list[int | None], keys: list[int | None], rng: Any) -> None:
    spec = join_of()
    table, source = table_of(spec, held), source_of(list(dict.fromkeys(keys)))
    ends = []
    for _ in range(2):
        ends.append({p: _rows(batches) for p, batches in sent(spec, table, source).items()})
        table, source = (
            rows.take(pa.array(rng.sample(range(rows.num_rows), rows.num_rows), pa.int64())) for rows in (table, source)
        )
    assert ends[0] == ends[1]


def _rows(batches: list[pa.RecordBatch]) -> list[str]:
    return sorted(str(row) for batch in ChangesByFile(Budgets()).changes(batches) for row in batch.to_pylist())


def test_no_columns_are_made_of_rows_that_are_only_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[list[str]] = []
    original = hash_join.inserted

    def recorded(programs: Any, schema: pa.Schema, *rest: Any) -> Any:
        made.append(schema.names)
        return original(programs, schema, *rest)

    monkeypatch.setattr(hash_join, "inserted", recorded)
    spec = join_of(gone=False, positions=True, tasks=1)
    assert "v" in spec.join.changes.names
    sent(spec, table_of(spec, [1]), source_of([1, 2]))
    assert made == [[FILE, ROW, CLAUSE]]


@pytest.mark.parametrize(("moves", "ended"), [(True, KeysRepeated), (False, TooLarge)])
def test_too_many_pairs_of_a_few_columns_are_left_to_an_exchange_of_whole_rows(moves: bool, ended: type[NotThisWay]) -> None:
    with using(match_rows=3):
        spec = join_of(gone=False, positions=moves, moves=moves, tasks=1)
        matched = replace(spec.join.matched[0], condition=Comparison(Column("v", "source"), ">", literal(0)))
        spec = replace(spec, join=replace(spec.join, matched=(matched,)))
        with pytest.raises(AttemptEnded, match="more than 3 pairs") as caught:
            sent(spec, table_of(spec, [1, 1, 1, 1]), source_of([1]))
    assert isinstance(caught.value.outcome, ended)


def test_rows_of_the_table_come_first() -> None:
    with using(chunk_rows=1):
        spec = join_of(tasks=1)
    table = list(partitioned(spec.target, [table_of(spec, [1, 2])]))
    source = list(partitioned(spec.source, [source_of([1])]))
    with pytest.raises(RuntimeError, match="after rows had been matched"):
        list(HashJoin(spec).changes([*source, *table]))


def test_neighbours_are_told_to_one_task() -> None:
    spec = join_of(gone=False, positions=True)
    keys = list(range(200_000))
    found = sent(spec, table_of(spec, []), source_of(keys))
    blocks: dict[tuple[int, int], set[int]] = {}
    for partition, batches in found.items():
        changes = ChangesByFile(Budgets())
        assert not list(changes.changes(batches))
        for number, places in changes.positions():
            for block in np.unique(places >> 16).tolist():
                blocks.setdefault((number, block), set()).add(partition)
    assert set(map(len, blocks.values())) == {1}
    assert len(set().union(*blocks.values())) > 1


def test_a_long_row_that_many_rows_match_is_sent_in_pieces() -> None:
    spec = join_of(gone=False, inserts=False, tasks=1)
    spec = replace(spec, join=replace(spec.join, written=pa.schema([("v", pa.string())])))
    source = pa.table({"k": [7, 8], "v": ["x" * 100_000, "y"]})
    table = table_of(spec, [7] * 2_000 + [8])
    batches = [*partitioned(spec.target, [table]), *partitioned(spec.source, [source])]
    rows = [unpacked_rows(batch.column(2)[0]) for batch in HashJoin(spec).changes(batches)]
    assert max(part.nbytes for part in rows) < 24 << 20
    assert sum(part.num_rows for part in rows) == 2_001
    assert {part["v"][0].as_py()[:1] for part in rows} <= {"x", "y"}
    with pytest.raises(AttemptEnded, match="more than 64 MB") as caught:
        list(ChangesByFile(Budgets(exchange_buffer_bytes=64 << 20)).changes(HashJoin(spec).changes(batches)))
    assert isinstance(caught.value.outcome, TooLarge)
    small = replace(spec, join=replace(spec.join, budgets=Budgets(hash_buffer_bytes=1_000)))
    with pytest.raises(AttemptEnded, match="more than 0 MB"):
        list(HashJoin(small).changes(batches))


def test_deletions_are_sent_in_pieces() -> None:
    with using(piece_rows=64):
        spec = join_of(update=False, inserts=False, tasks=1)
    found = sent(spec, table_of(spec, list(range(1_000))), source_of([5]))
    rows = [unpacked_rows(batch.column(2)[0]) for batches in found.values() for batch in batches]
    assert max(part.num_rows for part in rows) <= 64
    assert sum(part.num_rows for part in rows) == 999
