"""The Arrow scan gives exactly the rows that can match, with their positions, and reads no more than it must."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import deltamerge.worker.scan.scan as scan
from deltamerge.protocol.table.column_mapping import FIELD_ID, PHYSICAL
from deltamerge.protocol.values.predicate import ALWAYS
from deltamerge.worker.scan.row_errors import Refused
from deltamerge.worker.scan.scan import (
    FILE,
    KEY_ID,
    POSITION_FIELDS,
    ROW,
    FileTask,
    ScanSpec,
    may_contain,
    open_parquet,
    scan_file,
)
from deltamerge.worker.scan.store import DataStore
from deltamerge.worker.skipping.keys import ExactFilter, NumberFilter, build_filter
from tests.unit.worker.data import DAY, UTC_TIME, bag, columns_alike, equal_in_spark, examples, folder, store_at, types, vector_of

NAME = "part.parquet"
NARROW = {pa.int64(): pa.int32(), pa.float64(): pa.float32()}


@dataclass(frozen=True)
class Scan:
    """A file with a key column `k` and others, a partition constant `p`, deleted rows, and the keys of a source."""

    type: pa.DataType
    key: list[Any]
    part: Any
    source: list[tuple[Any, Any]]
    null_safe: list[bool]
    group_rows: int
    key_is_stored: bool
    with_ids: bool
    deleted: set[int]
    inline: bool

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([("v", pa.int64()), ("p", pa.string()), ("k", self.type), ("new", pa.list_(pa.int32()))])

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """The file's rows as the scan has to show those that are not deleted."""
        keys = self.key if self.key_is_stored else [None] * len(self.key)
        return [(row, self.part, key, None) for row, key in enumerate(keys)]

    def task(self, root: Path, file: int) -> FileTask:
        vector = vector_of(root, self.deleted, self.inline)
        return FileTask(file, NAME, {"p": pa.scalar(self.part, pa.string())}, vector=vector)

    def write(self, root: Path) -> None:
        columns = {"k": pa.array(self.key, self.type)} if self.key_is_stored else {}
        table = pa.table({"v": pa.array(range(len(self.key)), pa.int64()), **columns})
        pq.write_table(table, root / NAME, row_group_size=self.group_rows)

    def filter(self) -> tuple[ExactFilter, list[int | None]]:
        arrays = [pa.array([row[0] for row in self.source], self.type), pa.array([row[1] for row in self.source], pa.string())]
        keys, ids = build_filter(["k", "p"], arrays, self.null_safe)
        return keys, ids.to_pylist()

    def matches(self) -> list[int]:
        """The living rows whose key a source row has."""
        wanted = {self.key_of(row) for row in self.source} - {None}
        return [row[0] for row in self.rows if self.key_of((row[2], row[1])) in wanted and row[0] not in self.deleted]

    def id_of(self, ids: list[int | None]) -> dict[Any, int | None]:
        return {self.key_of(row): id for row, id in zip(self.source, ids, strict=True)}

    def key_of(self, row: tuple[Any, Any]) -> tuple[Any, Any] | None:
        lost = any(value is None and not safe for value, safe in zip(row, self.null_safe, strict=True))
        return None if lost else (equal_in_spark(row[0]), row[1])


@st.composite
def scans(draw: st.DrawFn) -> Scan:
    type = draw(types)
    source, key = draw(columns_alike(type, draw(st.integers(0, 6)), draw(st.integers(1, 20))))
    parts = st.sampled_from(["x", "y", None])
    return Scan(
        type,
        key,
        draw(parts),
        [(value, draw(parts)) for value in source],
        [draw(st.booleans()), draw(st.booleans())],
        draw(st.integers(1, 8)),
        draw(st.sampled_from([True, True, True, False])),
        draw(st.booleans()),
        draw(st.just(set()) | st.sets(st.integers(0, len(key) - 1))),
        draw(st.booleans()),
    )


def scanned(spec: ScanSpec, task: FileTask) -> list[tuple[Any, ...]]:
    batches = list(scan_file(spec, task))
    assert all(batch.schema == spec.output for batch in batches)
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def test_rows_have_the_ids_of_keys_that_are_numbers(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2, 1, 4], "b": [5, 5, 6, 9], "v": [0, 1, 2, 3]}), tmp_path / NAME, row_group_size=3)
    keys, ids = build_filter(["a", "b"], [pa.array([1, 2, 3]), pa.array([6, 5, 1])], [False, False], 0)
    assert isinstance(keys, NumberFilter)
    schema = pa.schema([("v", pa.int64()), ("b", pa.int64()), ("a", pa.int64())])
    found = scanned(ScanSpec(store_at(tmp_path), schema, keys, with_key_ids=True), FileTask(7, NAME, {}))
    assert found == [(1, 5, 2, 7, 1, ids[1].as_py()), (2, 6, 1, 7, 2, ids[0].as_py())]


@examples
@given(scans(), st.integers(1, 5), st.booleans())
def test_a_filtered_scan_gives_the_rows_that_a_search_row_by_row_gives(found: Scan, shares: int, every: bool) -> None:
    keys, ids = found.filter()
    kept = [row for row in range(len(found.rows)) if row not in found.deleted] if every else found.matches()
    expected = [(*found.rows[row], 7, row) for row in kept]
    if found.with_ids:
        id_of = found.id_of(ids)
        expected = [(*row, id_of.get(found.key_of((row[2], row[1])))) for row in expected]
    with folder() as root:
        found.write(root)
        spec = ScanSpec(store_at(root), found.schema, keys, found.with_ids, ALWAYS if every else None)
        task = found.task(root, 7)
        parts = [scanned(spec, replace(task, share=(number, shares))) for number in range(shares)]
    assert bag(row for part in parts for row in part) == bag(expected)


@examples
@given(scans(), st.integers(1, 30))
def test_shares_cover_each_living_row_once(found: Scan, shares: int) -> None:
    with folder() as root:
        found.write(root)
        spec = ScanSpec(store_at(root), found.schema)
        task = found.task(root, 0)
        parts = [scanned(spec, replace(task, share=(number, shares))) for number in range(shares)]
    assert bag(row for part in parts for row in part) == bag(
        (*row, 0, row[0]) for row in found.rows if row[0] not in found.deleted
    )


@examples
@given(scans())
def test_a_row_group_that_holds_a_match_is_never_skipped(found: Scan) -> None:
    keys, _ = found.filter()
    groups = {row // found.group_rows for row in found.matches()}
    with folder() as root:
        found.write(root)
        file = open_parquet(pa.OSFile(str(root / NAME)))
        partition = {"p": pa.scalar(found.part, pa.string())}
        assert all(may_contain(file, group, keys, found.schema, partition) for group in groups)


@examples
@given(st.data())
def test_a_narrower_column_in_the_file_is_searched_as_the_tables_type(data: st.DataObject) -> None:
    wanted, stored = data.draw(st.sampled_from(list(NARROW.items())))
    source, key = data.draw(columns_alike(stored, 3, 10))
    keys, _ = build_filter(["k"], [pa.array(source, wanted)], [False])
    with folder() as root:
        pq.write_table(pa.table({"k": pa.array(key, stored)}), root / NAME, row_group_size=3)
        found = scanned(ScanSpec(store_at(root), pa.schema([("k", wanted)]), keys), FileTask(0, NAME, {}))
    held = {equal_in_spark(value) for value in source} - {None}
    assert [row for _, _, row in found] == [row for row, value in enumerate(key) if equal_in_spark(value) in held]


def spec_of(root: Path, table: pa.Table, keys: dict[str, Any], group_rows: int = 2, **options: Any) -> ScanSpec:
    """A scan of all columns of a new file with the given source keys."""
    pq.write_table(table, root / NAME, row_group_size=group_rows)
    schema = options.pop("schema", table.schema)
    arrays = [pa.array(values, schema.field(name).type) for name, values in keys.items()]
    return ScanSpec(store_at(root), schema, build_filter(list(keys), arrays, [False] * len(keys))[0], **options)


@pytest.mark.parametrize(
    ("values", "absent"),
    [
        (pa.array([1, 2, 8, 9]), 5),
        (pa.array(["b", "c", "x", "y"]), "m"),
        (pa.array([DAY.replace(year=year) for year in (1990, 1991, 2001, 2002)]), DAY),
    ],
    ids=["integers", "strings", "dates"],
)
def test_row_groups_are_skipped_by_their_statistics(tmp_path: Path, values: pa.Array, absent: Any) -> None:
    table = pa.table({"k": values})
    first, second = table["k"][0].as_py(), table["k"][2].as_py()
    for keys, expected in (([first], [True, False]), ([second], [False, True]), ([first, second], [True, True])):
        spec = spec_of(tmp_path, table, {"k": keys})
        file = open_parquet(pa.OSFile(str(tmp_path / NAME)))
        assert spec.keys is not None
        assert [may_contain(file, group, spec.keys, table.schema, {}) for group in (0, 1)] == expected
    spec = spec_of(tmp_path, table, {"k": [absent]})
    assert scanned(spec, FileTask(0, NAME, {})) == []


def test_statistics_of_a_file_that_has_none_skip_nothing(tmp_path: Path) -> None:
    table = pa.table({"k": [1, 2]})
    spec = spec_of(tmp_path, table, {"k": [2]})
    pq.write_table(table, tmp_path / NAME, write_statistics=False)
    assert scanned(spec, FileTask(0, NAME, {})) == [(2, 0, 1)]


@pytest.mark.parametrize("stored", [pa.dictionary(pa.int32(), pa.string()), pa.large_string(), pa.binary()], ids=str)
def test_texts_that_are_stored_otherwise_skip_row_groups(tmp_path: Path, stored: pa.DataType) -> None:
    table = pa.table({"k": pa.array(["b", "c", "x", "y"]).cast(stored)})
    spec = spec_of(tmp_path, table, {"k": ["x"]}, schema=pa.schema([("k", pa.string())]))
    file = open_parquet(pa.OSFile(str(tmp_path / NAME)))
    assert spec.keys is not None
    assert [may_contain(file, group, spec.keys, spec.schema, {}) for group in (0, 1)] == [False, True]
    assert scanned(spec, FileTask(0, NAME, {})) == [("x", 0, 2)]


def test_columns_of_one_name_are_told_apart_by_their_ids(tmp_path: Path) -> None:
    fields = [pa.field("a", pa.int64(), metadata={"PARQUET:field_id": str(id)}) for id in (1, 2)]
    table = pa.table([pa.array([1, 2]), pa.array([100, 200])], schema=pa.schema(fields))
    by_id = pa.schema([pa.field("a", pa.int64(), metadata={FIELD_ID: "1", PHYSICAL: "a"})])
    spec = spec_of(tmp_path, table, {"a": [1]}, schema=by_id)
    assert [row for row, _, _ in scanned(spec, FileTask(0, NAME, {}))] == [1]


def test_a_very_large_footer_is_not_walked_through(tmp_path: Path) -> None:
    """That would take longer than to read the keys."""
    table = pa.table({"k": [1, 2], **{f"c{number}": [0, 0] for number in range(9_000)}})
    spec = spec_of(tmp_path, table, {"k": [9]}, schema=pa.schema([("k", pa.int64())]))
    assert spec.keys is not None
    assert may_contain(open_parquet(pa.OSFile(str(tmp_path / NAME))), 0, spec.keys, spec.schema, {})
    assert scanned(spec, FileTask(0, NAME, {})) == []


@pytest.mark.parametrize("name", ["a.b", "b"])
def test_a_nested_field_that_reads_like_the_key_does_not_skip_row_groups(tmp_path: Path, name: str) -> None:
    table = pa.table({name: [5], "a": [{"b": 900}]})
    spec = spec_of(tmp_path, table, {name: [5]})
    assert [row[-1] for row in scanned(spec, FileTask(0, NAME, {}))] == [0]


def test_data_columns_are_read_for_row_groups_with_candidates_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[tuple[int, list[str]]] = []
    original = scan.read_columns

    def recorded(file: Any, group: int, schema: pa.Schema, partition: Any) -> pa.Table:
        read.append((group, schema.names))
        return original(file, group, schema, partition)

    monkeypatch.setattr(scan, "read_columns", recorded)
    table = pa.table({"k": [1, 3, 5, 9, 2, 8], "v": list("abcdef")})
    spec = spec_of(tmp_path, table, {"k": [2, 4]})
    assert scanned(spec, FileTask(0, NAME, {})) == [(2, "e", 0, 4)]
    assert read == [(0, ["k"]), (2, ["k"]), (2, ["v"])]


@pytest.mark.parametrize(
    ("rows_per_chunk", "key", "far", "read"),
    [(1, "k", False, 1), (2, "k", False, 3), (2, "v", False, 1), (2, "k", True, 1)],
    ids=["large", "small", "text", "remote"],
)
def test_of_small_row_groups_on_a_disk_keys_are_read_without_a_look_at_statistics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_per_chunk: int, key: str, far: bool, read: int
) -> None:
    """Three row groups of two rows and two columns: to read all keys costs less than to find out that one group has them."""
    groups: list[int] = []
    original = scan.read_columns
    monkeypatch.setattr(scan, "read_columns", lambda file, group, *rest: groups.append(group) or original(file, group, *rest))
    monkeypatch.setattr(DataStore, "remote", property(lambda store: store.root.endswith("far")))
    (tmp_path / "far").mkdir()
    spec = spec_of(tmp_path / "far", pa.table({"k": [1, 2, 5, 6, 8, 9], "v": list("abcdef")}), {key: [{"k": 2, "v": "b"}[key]]})
    spec = replace(spec, rows_per_chunk=rows_per_chunk, store=store_at(tmp_path))
    (tmp_path / NAME).hardlink_to(tmp_path / "far" / NAME)
    found = scanned(spec, FileTask(0, NAME, {}, store=store_at(tmp_path / "far") if far else None))
    assert found == [(2, "b", 0, 1)]
    assert groups == [0, 0, *range(1, read)]


@pytest.mark.parametrize(("key", "refused"), [(9, False), (1, True)])
def test_keys_that_cannot_be_read_matter_where_statistics_leave_room_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: int, refused: bool
) -> None:
    original = scan.read_columns

    def failing(file: Any, group: int, *rest: Any) -> pa.Table:
        if group == 0:
            raise Refused("DELTAMERGE_ANCIENT_DATETIME", "A day of an unknown calendar.")
        return original(file, group, *rest)

    monkeypatch.setattr(scan, "read_columns", failing)
    spec = replace(spec_of(tmp_path, pa.table({"k": [1, 2, 8, 9]}), {"k": [key]}), rows_per_chunk=9)
    if refused:
        with pytest.raises(Refused, match="unknown calendar"):
            scanned(spec, FileTask(0, NAME, {}))
    else:
        assert scanned(spec, FileTask(0, NAME, {})) == [(9, 0, 3)]


def test_a_row_group_without_living_rows_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table({"k": range(6)}), tmp_path / NAME, row_group_size=2)
    read: list[int] = []
    original = scan.read_columns
    monkeypatch.setattr(scan, "read_columns", lambda file, group, *rest: read.append(group) or original(file, group, *rest))
    task = FileTask(0, NAME, {}, vector=vector_of(tmp_path, [0, 2, 3]))
    found = scanned(ScanSpec(store_at(tmp_path), pa.schema([("k", pa.int64())])), task)
    assert [row[0] for row in found] == [1, 4, 5]
    assert read == [0, 2]


@examples
@given(st.sets(st.integers(0, 9)), st.sets(st.integers(0, 9), min_size=1), st.integers(1, 4))
def test_rows_among_those_of_one_vector_and_not_of_the_other(deleted: set[int], among: set[int], group_rows: int) -> None:
    with folder() as root:
        pq.write_table(pa.table({"k": range(10)}), root / NAME, row_group_size=group_rows)
        task = FileTask(0, NAME, {}, vector=vector_of(root, deleted), among=vector_of(root, among))
        found = scanned(ScanSpec(store_at(root), pa.schema([("k", pa.int64())])), task)
    assert [row[0] for row in found] == sorted(among - deleted)


def test_columns_come_out_by_logical_name(tmp_path: Path) -> None:
    fields = [pa.field("v", pa.string(), metadata={PHYSICAL: b"col-2"}), pa.field("k", pa.int64(), metadata={PHYSICAL: b"col-1"})]
    stored = pa.table({"col-1": [1, 2, 3], "col-2": ["a", "b", "c"]})
    spec = spec_of(tmp_path, stored, {"k": [3, 1]}, schema=pa.schema(fields))
    assert scanned(spec, FileTask(4, NAME, {})) == [("a", 1, 4, 0), ("c", 3, 4, 2)]


def test_legacy_int96_timestamps_keep_years_that_nanoseconds_cannot_hold(tmp_path: Path) -> None:
    moments = [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)]
    table = pa.table({"k": pa.array(moments, UTC_TIME)})
    pq.write_table(table, tmp_path / NAME, use_deprecated_int96_timestamps=True)
    keys, _ = build_filter(["k"], [table["k"]], [False])
    assert scanned(ScanSpec(store_at(tmp_path), table.schema, keys), FileTask(0, NAME, {})) == [
        (moment, 0, row) for row, moment in enumerate(moments)
    ]


def test_a_scan_of_no_columns_gives_positions(tmp_path: Path) -> None:
    pq.write_table(pa.table({"v": [1, 2, 3]}), tmp_path / NAME, row_group_size=2)
    assert scanned(ScanSpec(store_at(tmp_path), pa.schema([])), FileTask(1, NAME, {})) == [(1, 0), (1, 1), (1, 2)]


def test_the_output_schema_ends_with_the_position_and_the_key_id_if_asked_for(tmp_path: Path) -> None:
    spec = ScanSpec(store_at(tmp_path), pa.schema([("v", pa.int64())]))
    assert spec.output == pa.schema([("v", pa.int64()), *POSITION_FIELDS])
    assert replace(spec, with_key_ids=True).output.names == ["v", FILE, ROW, KEY_ID]
