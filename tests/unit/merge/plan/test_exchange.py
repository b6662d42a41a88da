"""How rows would be exchanged: which tasks write which files, what a task has, and how many keys there can be."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamerge.budgets import Budgets
from deltamerge.merge.plan.exchange import Layouts
from deltamerge.merge.plan.logical import Wishes, logical_plan
from deltamerge.merge.plan.prune import prune
from deltamerge.spark.source.facts import Evaluation, SourceFacts
from tests.unit.merge.merges import delete, merge_of, snapshot_of, struct
from tests.unit.merge.plan.test_prune import add, spanning

KEYS = struct(k="long")


def layouts(*ranges: tuple[int, int] | None, **limits: Any) -> Layouts:
    """The layouts of files of ten rows, with these ranges of keys; without statistics for None."""
    files = [add(str(n), 100, None if given is None else spanning(*given)) for n, given in enumerate(ranges)]
    logical = logical_plan(merge_of(snapshot_of(KEYS, files), KEYS, "t.k = s.k", delete()), Wishes())
    return Layouts(logical, prune(logical), Budgets(**limits))


@pytest.mark.parametrize(
    ("task_bytes", "files", "most_rows"),
    [(1, ((0,), (1,), (2,), (3,)), 10), (200, ((0, 1), (2, 3)), 20), (1 << 30, ((0, 1, 2, 3),), 40)],
)
def test_neighbours_in_the_order_of_their_keys_are_one_tasks(
    task_bytes: int, files: tuple[tuple[int, ...], ...], most_rows: int
) -> None:
    found = layouts((0, 9), (10, 19), (20, 29), (30, 39), range_task_bytes=task_bytes).best
    assert (found.ranges.files, found.most_rows, found.overlap, found.span) == (files, most_rows, 1.0, 40)
    assert found.ranges.low.tolist() == [10 * own[0] for own in files]
    assert found.ranges.high.tolist() == [10 * own[-1] + 9 for own in files]


def test_overlap_is_averaged_over_the_files() -> None:
    assert layouts((0, 9), (0, 9), (20, 29), (20, 29), range_task_bytes=1).best.overlap == 2
    assert layouts((0, 9), (0, 99), (20, 29), (30, 39), range_task_bytes=1).best.overlap > 1.5
    assert layouts((9, 9), (9, 9), (9, 9), range_task_bytes=1).best.overlap == 3
    assert layouts((-9, -9), (-9, -9), range_task_bytes=1).best.overlap == 2


@pytest.mark.parametrize(
    ("rows", "size", "sent", "tasks"),
    [
        (1_000, 50_000, (), 50),
        (1_000, 50_000, ("k",), 20),  # keys of 8 bytes, positions of 12
        (None, 50_000, ("k",), 50),
        (1_000, 9_000, ("k",), 9),
        (1_000, 999_999_000, (), 512),
        (1, 1, ("k",), 4),
        (None, None, (), 4),
    ],
)
def test_as_many_tasks_match_keys_as_are_needed_for_what_is_sent(
    rows: int | None, size: int | None, sent: tuple[str, ...], tasks: int
) -> None:
    source = SourceFacts(Evaluation.DEFERRED, rows, size)
    assert layouts((0, 9), (10, 19), hash_source_bytes=1_000).hash_tasks(source, sent) == tasks
    # The table has 20 keys of 20 bytes each, positions included.
    assert layouts((0, 9), (10, 19), hash_key_bytes=1).hash_tasks(source, sent) == 400


def test_files_without_a_size_are_laid_out() -> None:
    files = [add(str(n), 0, spanning(10 * n, 10 * n + 9)) for n in range(3)]
    logical = logical_plan(merge_of(snapshot_of(KEYS, files), KEYS, "t.k = s.k", delete()), Wishes())
    assert Layouts(logical, prune(logical), Budgets()).best.overlap == 1


def test_a_file_without_statistics_may_have_every_key() -> None:
    found = layouts((0, 9), None, (20, 29), range_task_bytes=1).best
    assert (found.overlap, found.span) == (2.0, 0)


def test_a_file_without_keys_belongs_to_the_first_task() -> None:
    empty = {"numRecords": 10, "nullCount": {"k": 10}}
    files = [add("0", 100, spanning(0, 9)), add("1", 100, empty), add("2", 100, spanning(10, 19))]
    logical = logical_plan(merge_of(snapshot_of(KEYS, files), KEYS, "t.k = s.k", delete()), Wishes())
    found = Layouts(logical, prune(logical), Budgets(range_task_bytes=1)).best
    assert found.ranges.files == ((0, 1), (2,))
    assert (found.overlap, found.span) == (1.0, 20)


PARTITIONED = struct(k="long", p="string", q="integer", v="long")


def layouts_of(condition: str, *files: tuple[str | None, int | None, tuple[int, int] | None, int], **limits: Any) -> Layouts:
    """The layouts of a table partitioned by p and q: of each file these values, its range of keys, and its bytes."""
    adds = [
        add(str(n), size, None if given is None else spanning(*given))
        | {"partitionValues": {"p": p, "q": None if q is None else str(q)}}
        for n, (p, q, given, size) in enumerate(files)
    ]
    snapshot = snapshot_of(PARTITIONED, adds, ["p", "q"])
    logical = logical_plan(merge_of(snapshot, PARTITIONED, condition, delete()), Wishes())
    return Layouts(logical, prune(logical), Budgets(**limits))


def test_files_of_a_partition_have_ranges_of_their_own() -> None:
    files = [("a", 1, (0, 9), 100), ("b", 1, (0, 9), 100), ("a", 1, (10, 19), 100), ("b", 1, (10, 19), 100)]
    alone = layouts_of("t.k = s.k", *files, range_task_bytes=1).best
    assert (alone.overlap, alone.ranges.partitions) == (2.0, None)
    found = layouts_of("t.k = s.k AND t.p = s.p", *files, range_task_bytes=1).best
    assert (found.key, found.overlap, found.most_rows, found.span) == ("k", 1.0, 10, 20)
    assert found.ranges.files == ((0,), (2,), (1,), (3,))
    assert found.ranges.low.tolist() == [0, 10, 0, 10]
    partitions = found.ranges.partitions
    assert partitions is not None
    assert (partitions.columns, partitions.starts.tolist(), partitions.tasks.tolist()) == (("p",), [0, 2, 4], [0, 1, 2, 3])
    assert [values.to_pylist() for values in partitions.values] == [["a", "b"]]


def test_small_partitions_share_a_task_up_to_its_bytes() -> None:
    files = [(p, 1, (0, 9), 100) for p in "abcde"] + [("f", 1, (0, 9), 900), ("f", 1, (10, 19), 900), ("g", 1, (0, 9), 100)]
    found = layouts_of("t.k = s.k AND t.p = s.p", *files, range_task_bytes=250).best
    largest_first = sorted(files, key=lambda file: -file[3])
    own = [[largest_first[place][0] for place in places] for places in found.ranges.files]
    assert own == [["f"], ["f"], ["a", "b"], ["c", "d"], ["e", "g"]]
    assert found.overlap == 1.0


def test_partitions_of_several_columns_and_of_nulls() -> None:
    files = [("a", 1, (0, 9), 100), ("a", 2, (0, 9), 100), (None, 2, (0, 9), 100), ("b", None, (0, 9), 100), ("", 1, None, 100)]
    found = layouts_of("t.k = s.k AND s.q = t.q AND t.p = s.p", *files, range_task_bytes=1).best
    partitions = found.ranges.partitions
    assert partitions is not None
    assert set(partitions.columns) == {"p", "q"}
    assert len(partitions.codes) == 3, "two partitions, and all files with a null in one"
    assert (partitions.codes[0] < 0, sorted(partitions.codes.tolist()) == partitions.codes.tolist()) == (True, True)
    assert sorted(file for own in found.ranges.files for file in own) == [0, 1, 2, 3, 4]


def test_a_partition_of_one_file_has_its_range_and_none_without_keys() -> None:
    empty = {"numRecords": 10, "nullCount": {"k": 10}}
    files = [add(str(n), 100, stats) for n, stats in enumerate((spanning(9, 9), empty, None))]
    adds = [file | {"partitionValues": {"p": "abc"[n], "q": "1"}} for n, file in enumerate(files)]
    logical = logical_plan(
        merge_of(snapshot_of(PARTITIONED, adds, ["p", "q"]), PARTITIONED, "t.k = s.k AND t.p = s.p", delete()), Wishes()
    )
    found = Layouts(logical, prune(logical), Budgets(range_task_bytes=1)).best
    least, greatest = -(1 << 63), (1 << 63) - 1
    assert found.ranges.low.tolist() == [9, greatest, least]
    assert found.ranges.high.tolist() == [9, least, greatest]
    assert found.overlap == 1.0


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", None]),
            st.sampled_from([1, 2, None]),
            st.one_of(st.none(), st.tuples(st.integers(0, 30), st.integers(0, 9)).map(lambda pair: (pair[0], sum(pair)))),
            st.integers(1, 300),
        ),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from(["t.k = s.k", "t.k = s.k AND t.p = s.p", "t.k = s.k AND t.p = s.p AND t.q = s.q", "t.k = s.k AND t.q = s.q"]),
    st.sampled_from([1, 300, 1 << 20]),
)
def test_the_task_of_a_file_gets_each_row_that_can_match_in_it(files: list[Any], condition: str, task_bytes: int) -> None:
    found = layouts_of(condition, *files, range_task_bytes=task_bytes).all
    for layout in found:
        assert sorted(file for own in layout.ranges.files for file in own) == list(range(len(files)))
        task_of = {file: task for task, own in enumerate(layout.ranges.files) for file in own}
        order = sorted(range(len(files)), key=lambda n: -files[n][3])  # files are known by their places, the largest first
        for place, n in enumerate(order):
            p, q, bounds, _ = files[n]
            if (p is None and "p" in condition) or (q is None and "q" in condition):
                continue
            keys = range(-1, 42) if bounds is None else range(bounds[0], bounds[1] + 1)
            rows = pa.table({"k": list(keys), "p": [p] * len(keys), "q": pa.array([q] * len(keys), pa.int32()), "v": list(keys)})
            first, last = layout.ranges.tasks_of(rows, layout.key)
            if layout.key == "q":
                keys = range(q, q + 1)
                first, last = first[:1], last[:1]
            assert ((first <= task_of[place]) & (task_of[place] < last)).all()
