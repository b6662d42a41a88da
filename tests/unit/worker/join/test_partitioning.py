"""Where source rows go: to every owner of a range that has their key, else to one task that inserts."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from deltamerge.budgets import Budgets
from deltamerge.worker.join.partitioning import SHUFFLED, KeyRanges, Partitioning, Partitions, partitioned
from deltamerge.worker.scan.streams import unpacked_rows

LEAST, GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
WHOLE = st.one_of(st.integers(-20, 20), st.sampled_from([LEAST, GREATEST, LEAST + 1, GREATEST - 1]))
KEYS = st.one_of(st.none(), WHOLE)


@st.composite
def ranges(draw: st.DrawFn) -> KeyRanges:
    """KeyRanges as a plan makes them: in the order of their least keys, their greatest ones never falling."""
    pairs = draw(st.lists(st.tuples(WHOLE, st.integers(0, 9)), max_size=5))
    low = sorted(least for least, _ in pairs)
    high = [min(least + width, GREATEST) for least, (_, width) in zip(low, pairs, strict=True)]
    most = np.maximum.accumulate(np.array(high, np.int64)) if high else np.zeros(0, np.int64)
    return KeyRanges(np.array(low, np.int64), most, tuple((at,) for at in range(len(low))))


def sent(spec: Partitioning, parts: list[pa.Table]) -> dict[int, list[tuple[int | None, int]]]:
    """What each task gets."""
    found: dict[int, list[tuple[int | None, int]]] = {}
    for batch in partitioned(spec, parts):
        assert batch.schema == SHUFFLED
        for number, task, payload in zip(*(batch.column(i) for i in range(3)), strict=True):
            assert number.as_py() == spec.partitions[task.as_py()]
            rows = unpacked_rows(payload)
            found.setdefault(task.as_py(), []).extend(zip(rows["k"].to_pylist(), rows["at"].to_pylist(), strict=True))
    return found


@settings(max_examples=200, deadline=None)
@given(ranges(), st.lists(KEYS, max_size=40), st.integers(0, 3), st.integers(1, 50), st.integers(1, 200))
def test_each_row_goes_to_every_owner_of_its_key(
    known: KeyRanges, keys: list[int | None], inserters: int, chunk: int, payload: int
) -> None:
    table = pa.table({"k": pa.array(keys, pa.int64()), "at": pa.array(range(len(keys)), pa.int64())})
    partitions = tuple(range(100, 100 + len(known.files) + inserters))
    spec = Partitioning("k", known, inserters, partitions, budgets=Budgets(chunk_rows=chunk, payload_bytes=payload))
    found = sent(spec, [table.slice(start, 7) for start in range(0, len(keys), 7)])
    bounds = list(zip(known.low.tolist(), known.high.tolist(), strict=True))
    owned = {
        at: {task for task, (low, high) in enumerate(bounds) if k is not None and low <= k <= high} for at, k in enumerate(keys)
    }
    tasks: dict[int, list[int]] = {at: [] for at in owned}
    for task, rows in found.items():
        for key, at in rows:
            assert keys[at] == key
            tasks[at].append(task)
    for at, owners in owned.items():
        if owners:
            assert Counter(tasks[at]) == Counter(owners)
        else:
            assert len(tasks[at]) == (1 if inserters else 0)
            assert all(task >= len(bounds) for task in tasks[at])


@given(ranges(), st.lists(KEYS, max_size=30), st.randoms())
def test_where_a_row_goes_depends_on_its_key_alone(known: KeyRanges, keys: list[int | None], rng: object) -> None:
    spec = Partitioning("k", known, 3, tuple(range(len(known.files) + 3)))
    rows = [(key, at) for at, key in enumerate(keys)]
    shuffled = list(rows)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    columns = [
        pa.table({"k": pa.array([k for k, _ in part], pa.int64()), "at": [at for _, at in part]}) for part in (rows, shuffled)
    ]
    one, other = ({task: sorted(found, key=str) for task, found in sent(spec, [table]).items()} for table in columns)
    assert one == other


@st.composite
def in_partitions(draw: st.DrawFn) -> tuple[KeyRanges, list[tuple[str, int] | None], list[int]]:
    """KeyRanges of a table partitioned by p and q, the partition of each group of ranges, and the group of each range."""
    named = sorted(draw(st.sets(st.tuples(st.sampled_from("abc"), st.integers(0, 2)), max_size=4)))
    names = sorted({p for p, _ in named}), sorted({q for _, q in named})
    codes = [names[0].index(p) * len(names[1]) + names[1].index(q) for p, q in named]
    groups: list[tuple[str, int] | None] = list(named)
    if draw(st.booleans()):  # files whose values are null
        groups, codes = [None, *groups], [-1, *codes]
    lows, highs, starts, tasks, group_of = [], [], [0], [], []
    for group in range(len(groups)):
        known = draw(ranges().filter(lambda found: len(found.files) > 0))
        count = len(known.files)
        shares = count == 1 and tasks and starts[-1] - starts[-2:][0] == 1 and draw(st.booleans())
        next_task = tasks[-1] + (0 if shares else 1) if tasks else 0
        lows.append(known.low)
        highs.append(known.high)
        tasks += range(next_task, next_task + count)
        group_of += [group] * count
        starts.append(starts[-1] + count)
    low, high = (np.concatenate([np.zeros(0, np.int64), *parts]) for parts in (lows, highs))
    values = (pa.array(names[0], pa.string()), pa.array(names[1], pa.int32()))
    found = Partitions(("p", "q"), values, np.array(codes, np.int64), np.array(starts), np.array(tasks, np.int64))
    files = tuple((task,) for task in range(max(tasks, default=-1) + 1))
    return KeyRanges(low, high, files, found), groups, group_of


def test_a_row_of_a_partition_without_files_goes_to_none_of_them() -> None:
    values = (pa.array(["a", "b"]), pa.array([1, 2], pa.int16()))
    codes, starts, tasks = np.array([0, 3], np.int64), np.array([0, 1, 2]), np.array([0, 1], np.int64)
    known = Partitions(("p", "q"), values, codes, starts, tasks)
    rows = pa.table({"p": ["a", "b", "c", None, "a", "a"], "q": pa.array([1, 2, 1, 1, 3, 2], pa.int16())})
    assert known.of_rows(rows).tolist() == [0, 1, -1, -1, -1, -1]


@settings(max_examples=300, deadline=None)
@given(
    in_partitions(),
    st.lists(st.tuples(st.sampled_from([*"abcd", None]), st.sampled_from([0, 1, 2, 3, None]), KEYS), max_size=40),
    st.integers(0, 3),
    st.booleans(),
)
def test_each_row_goes_to_the_owners_of_its_key_in_its_partition(
    made: tuple[KeyRanges, list[tuple[str, int] | None], list[int]],
    rows: list[tuple[str | None, int | None, int | None]],
    inserters: int,
    spread: bool,
) -> None:
    known, groups, group_of = made
    assert known.partitions is not None
    names = {"p": pa.string(), "q": pa.int16(), "k": pa.int64()}
    columns = {name: pa.array([row[at] for row in rows], type) for at, (name, type) in enumerate(names.items())}
    table = pa.table({**columns, "at": pa.array(range(len(rows)), pa.int64())})
    spread_by = ("p", "q") if spread else ()
    spec = Partitioning("k", known, inserters, tuple(range(len(known.files) + inserters)), spread_by=spread_by)
    tasks: dict[int, list[int]] = {at: [] for at in range(len(rows))}
    for task, found in sent(spec, [table.slice(0, 9), table.slice(9)]).items():
        for _, at in found:
            tasks[at].append(task)
    bounds = list(zip(known.low.tolist(), known.high.tolist(), known.partitions.tasks.tolist(), group_of, strict=True))
    homes: dict[tuple[str | None, int | None], set[int]] = {}
    for at, (p, q, k) in enumerate(rows):
        owners = [t for low, high, t, group in bounds if groups[group] == (p, q) and k is not None and low <= k <= high]
        if owners:
            assert tasks[at] == sorted(owners)
            continue
        assert len(tasks[at]) == (1 if inserters else 0)
        assert all(task >= len(known.files) for task in tasks[at])
        homes.setdefault((p, q), set()).update(tasks[at])
    if spread:
        assert all(len(found) <= 1 for found in homes.values())


def test_rows_of_partitions_that_share_a_task_go_to_that_task() -> None:
    values = (pa.array(["a", "b", "c"]),)
    shared = Partitions(("p",), values, np.arange(3), np.array([0, 1, 2, 4]), np.array([0, 0, 1, 2]))
    low, high = np.array([0, 0, 0, 10]), np.array([9, 9, 9, 19])
    known = KeyRanges(low, high, ((0, 1), (2,), (3,)), shared)
    rows = pa.table({"p": ["a", "b", "c", "c"], "k": pa.array([5, 5, 5, 15]), "at": pa.array([0, 1, 2, 3])})
    spec = Partitioning("k", known, 0, (0, 1, 2))
    assert {task: [at for _, at in found] for task, found in sent(spec, [rows]).items()} == {0: [0, 1], 1: [2], 2: [3]}
