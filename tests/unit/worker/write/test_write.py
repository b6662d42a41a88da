"""Data files from Arrow rows: what is read back, where it lies, when the next file begins, and what is refused."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamerge.protocol.values.partitions import partition_text
from deltamerge.worker.scan.columns import PHYSICAL
from deltamerge.worker.scan.row_errors import Refused
from deltamerge.worker.write.by_partition import split_by_partition
from deltamerge.worker.write.write import (
    DataFileWriter,
    PartitionWriters,
    WrittenFile,
    dictionary_columns,
    file_name,
)
from tests.unit.worker.data import (
    DAY,
    DECIMAL,
    MOMENT,
    PRICE,
    UTC_TIME,
    VALUES,
    bag,
    bounded,
    data_files,
    examples,
    folder,
    raw_texts,
    read_rows,
    types,
    write_spec,
)

EVERY_TYPE = pa.schema([(f"c{i}", type) for i, type in enumerate(VALUES)])
ROWS = pa.schema([("id", pa.int64()), ("word", pa.string())])


def write_tables(root: Path, schema: pa.Schema, *tables: pa.Table, **options: Any) -> list[WrittenFile]:
    writer = DataFileWriter(write_spec(root, schema, **options), {}, "", 0)
    for table in tables:
        writer.write(table)
    return writer.close()


@st.composite
def tables(draw: st.DrawFn) -> list[pa.Table]:
    row = st.tuples(*[st.none() | values for values in VALUES.values()])
    batches = draw(st.lists(st.lists(row, max_size=5), min_size=1, max_size=3))
    return [
        pa.table([pa.array([row[i] for row in rows], field.type) for i, field in enumerate(EVERY_TYPE)], schema=EVERY_TYPE)
        for rows in batches
    ]


@examples
@given(tables())
def test_every_type_is_read_back_as_it_was_written(batches: list[pa.Table]) -> None:
    rows = [tuple(row.values()) for table in batches for row in table.to_pylist()]
    with folder() as root:
        written = write_tables(root, EVERY_TYPE, *batches)
        found = [row for file in written for row in read_rows(root, file.name, {}, EVERY_TYPE.names)]
        sizes = [(root / file.name).stat().st_size for file in written]
    assert [repr(row) for row in found] == [repr(row) for row in rows]
    assert sum(file.rows for file in written) == len(rows)
    assert [file.size for file in written] == sizes


def test_other_readers_find_the_same_values(tmp_path: Path) -> None:
    types = [pa.int64(), pa.string(), DECIMAL, pa.date32(), pa.binary(), pa.bool_(), pa.list_(pa.int32()), UTC_TIME]
    schema = pa.schema([(f"c{i}", type) for i, type in enumerate(types)])
    rows = [(1, "é\U0001f600", PRICE, DAY, b"\x00\xff", True, [1, None], MOMENT), (None,) * 8]
    table = pa.table([pa.array(column, type) for column, type in zip(zip(*rows, strict=True), types, strict=True)], schema=schema)
    (file,) = write_tables(tmp_path, schema, table)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        epochs = "epoch_us(c7)"
        found = connection.execute(
            f"SELECT * REPLACE ({epochs} AS c7) FROM read_parquet(?)", [str(tmp_path / file.name)]
        ).fetchall()
    micros = table["c7"].cast(pa.int64()).to_pylist()
    assert found == [(*row[:7], moment) for row, moment in zip(rows, micros, strict=True)]
    deltalake.convert_to_deltalake(str(tmp_path))
    converted = pa.table(deltalake.DeltaTable(str(tmp_path)).to_pyarrow_table())
    assert [repr(list(row.values())) for row in converted.to_pylist()] == [repr(list(row.values())) for row in table.to_pylist()]


def test_files_are_as_delta_readers_want_them(tmp_path: Path) -> None:
    schema = pa.schema(
        [("t", UTC_TIME), ("small", pa.decimal128(9, 2)), ("middle", pa.decimal128(18, 2)), ("l", pa.list_(pa.int32()))]
    )
    (file,) = write_tables(tmp_path, schema, pa.table([pa.nulls(1, field.type) for field in schema], schema=schema))
    metadata = pq.ParquetFile(tmp_path / file.name).metadata
    columns = [metadata.schema.column(i) for i in range(4)]
    assert [column.physical_type for column in columns] == ["INT64", "INT32", "INT64", "INT32"]
    assert "timeUnit=microseconds" in str(columns[0].logical_type)
    assert "isAdjustedToUTC=true" in str(columns[0].logical_type)
    assert columns[3].path == "l.list.element"
    assert metadata.metadata is None


@pytest.mark.parametrize(
    ("codec", "extension", "stored"),
    [
        ("snappy", ".snappy", "SNAPPY"),
        ("zstd", ".zstd", "ZSTD"),
        ("gzip", ".gz", "GZIP"),
        ("lz4_raw", ".lz4raw", "LZ4"),
        ("none", "", "UNCOMPRESSED"),
        ("uncompressed", "", "UNCOMPRESSED"),
    ],
)
def test_files_have_the_tables_compression_and_are_named_for_it(tmp_path: Path, codec: str, extension: str, stored: str) -> None:
    spec = write_spec(tmp_path, ROWS, codec=codec)
    writer = DataFileWriter(spec, {}, "", 12)
    writer.write(pa.table({"id": [1], "word": ["a"]}))
    (file,) = writer.close()
    assert re.fullmatch(rf"part-00012-[0-9a-f-]{{36}}-c000{re.escape(extension)}\.parquet", file.name)
    assert pq.ParquetFile(tmp_path / file.name).metadata.row_group(0).column(0).compression == stored


def test_no_two_files_have_one_name() -> None:
    assert len({file_name(0, "snappy") for _ in range(100)}) == 100


def test_a_file_that_cannot_be_begun_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="no-such-codec"):
        write_tables(tmp_path, ROWS, pa.table({"id": [1], "word": ["a"]}), codec="no-such-codec")
    assert data_files(tmp_path) == []


@pytest.fixture
def small_groups(limit: Callable[..., None]) -> int:
    """Row groups of the fewest rows that a writer makes."""
    limit(row_group_bytes=1)
    return 16_384


def numbers(count: int) -> pa.Table:
    return pa.table({"id": pa.array(range(count), pa.int64()), "word": pa.nulls(count, pa.string())})


def test_a_file_that_has_reached_its_target_size_is_followed_by_another(tmp_path: Path, small_groups: int) -> None:
    table = numbers(5 * small_groups)
    group = write_tables(tmp_path, ROWS, table.slice(0, small_groups))[0].size
    written = write_tables(tmp_path, ROWS, table, target_bytes=group * 3 // 2)
    assert [file.rows for file in written] == [2 * small_groups, 2 * small_groups, small_groups]
    assert [row[0] for file in written for row in read_rows(tmp_path, file.name, {}, ["id"])] == table["id"].to_pylist()


def test_a_writer_that_must_not_roll_makes_one_file_of_many_row_groups(tmp_path: Path, small_groups: int) -> None:
    writer = DataFileWriter(write_spec(tmp_path, ROWS, target_bytes=1), {}, "", 0, rolls=False)
    writer.write(numbers(2 * small_groups + 1))
    (file,) = writer.close()
    metadata = pq.ParquetFile(tmp_path / file.name).metadata
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [small_groups, small_groups, 1]


def test_row_groups_do_not_depend_on_how_rows_arrive(tmp_path: Path, small_groups: int) -> None:
    table = numbers(2 * small_groups)
    pieces = [table.slice(start, 999) for start in range(0, table.num_rows, 999)]
    (file,) = write_tables(tmp_path, ROWS, *pieces)
    metadata = pq.ParquetFile(tmp_path / file.name).metadata
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [small_groups, small_groups]


def test_nothing_is_written_for_no_rows(tmp_path: Path) -> None:
    assert write_tables(tmp_path, ROWS, ROWS.empty_table()) == []
    assert data_files(tmp_path) == []


def test_discard_leaves_no_file_open_or_finished(tmp_path: Path, small_groups: int) -> None:
    writer = DataFileWriter(write_spec(tmp_path, ROWS, target_bytes=1), {}, "", 0)
    writer.write(numbers(2 * small_groups + 1))
    writer.flush()
    assert len(data_files(tmp_path)) == 3
    writer.discard()
    assert data_files(tmp_path) == []


def test_columns_are_stored_by_physical_name(tmp_path: Path) -> None:
    logical = pa.schema([pa.field("a", pa.struct([("x", pa.int32())]), metadata={PHYSICAL: b"col-1"})])
    stored = pa.schema([("col-1", pa.struct([("col-2", pa.int32())]))])
    table = pa.table({"a": [{"x": 1}, None]}, schema=logical)
    (file,) = write_tables(tmp_path, logical, table, stored=stored)
    assert pq.ParquetFile(tmp_path / file.name).read().to_pylist() == [{"col-1": {"col-2": 1}}, {"col-1": None}]


PARTITION_VALUES = {**VALUES, pa.binary(): st.text(max_size=5).map(str.encode)}


@st.composite
def partitioned(draw: st.DrawFn) -> pa.Table:
    first, second = draw(types), draw(types)
    pools = [[*draw(st.lists(PARTITION_VALUES[type], min_size=1, max_size=3)), None] for type in (first, second)]
    if pa.types.is_floating(first):
        pools[0] += [math.nan, -0.0, 0.0]
    rows = draw(st.lists(st.tuples(*[st.sampled_from(pool) for pool in pools]), max_size=15))
    columns = [pa.array([row[i] for row in rows], type) for i, type in enumerate((first, second))]
    cut = draw(st.integers(0, len(rows)))
    chunked = [pa.chunked_array([column.slice(0, cut), column.slice(cut)]) for column in columns]
    return pa.table([pa.array(range(len(rows)), pa.int64()), *chunked], names=["id", "p", "q"])


@examples
@given(partitioned())
def test_partitions_are_split_by_value_in_the_order_of_their_rows(table: pa.Table) -> None:
    found: dict[str, list[int]] = {}
    for partition, rows in split_by_partition(table, ["p", "q"]):
        name = repr(tuple(value.as_py() for value in partition.values()))
        for row in rows.to_pylist():
            assert repr((row["p"], row["q"])) == name
            found.setdefault(name, []).append(row["id"])
    expected: dict[str, list[int]] = {}
    for row in table.to_pylist():
        expected.setdefault(repr((row["p"], row["q"])), []).append(row["id"])
    assert found == expected


@examples
@given(partitioned())
def test_each_partition_has_files_of_its_own_and_only_its_rows(table: pa.Table) -> None:
    with folder() as root:
        spec = write_spec(root, table.schema, ["p", "q"])
        writers = PartitionWriters(spec, 0)
        for start in range(0, table.num_rows, 4):
            writers.write(table.slice(start, 4))
        written = writers.close()
        found = []
        for file in written:
            assert file.name.rpartition("/")[0] == spec.folder(file.partition)
            found += read_rows(root, file.name, file.partition, ["id", "p", "q"])
        assert data_files(root) == sorted(file.name for file in written)
    types = [table.schema.field(name).type for name in ("p", "q")]

    def texts(row: int, *values: Any) -> tuple[Any, ...]:
        return (row, *(partition_text(pa.scalar(value, type)) for value, type in zip(values, types, strict=True)))

    kept = [texts(row["id"], row["p"], row["q"]) for row in table.to_pylist()]
    assert sorted(texts(*row) for row in found) == kept
    assert len(written) == len({row[1:] for row in kept})


@pytest.mark.parametrize(
    ("value", "type", "expected"),
    [
        (None, pa.string(), "p=__HIVE_DEFAULT_PARTITION__"),
        ("", pa.string(), "p=__HIVE_DEFAULT_PARTITION__"),
        ("a/b=c", pa.string(), "p=a%2Fb%3Dc"),
        (math.nan, pa.float64(), "p=NaN"),
        (date(1, 1, 1), pa.date32(), "p=0001-01-01"),
        (Decimal("1.50"), pa.decimal128(9, 2), "p=1.50"),
        (MOMENT, UTC_TIME, "p=2020-02-29T12%3A30%3A01.000001Z"),
    ],
)
def test_a_partitions_folder_names_its_value(tmp_path: Path, value: Any, type: pa.DataType, expected: str) -> None:
    schema = pa.schema([("p", type), ("id", pa.int64())])
    writers = PartitionWriters(write_spec(tmp_path, schema, ["p"]), 0)
    writers.write(pa.table([pa.array([value], type), [1]], schema=schema))
    (file,) = writers.close()
    assert file.name.rpartition("/")[0] == expected
    assert (tmp_path / file.name).exists()


def test_many_partitions_are_written_at_once(tmp_path: Path) -> None:
    schema = pa.schema([("p", pa.int64()), ("id", pa.int64())])
    writers = PartitionWriters(write_spec(tmp_path, schema, ["p"]), 0)
    for start in range(3):
        writers.write(pa.table({"p": list(range(300)), "id": [start] * 300}, schema=schema))
    written = writers.close()
    assert sorted((file.partition["p"].as_py(), file.rows) for file in written) == [(p, 3) for p in range(300)]


def test_the_fullest_writers_are_relieved_while_too_many_rows_wait(tmp_path: Path, limit: Callable[..., None]) -> None:
    limit(open_partitions_bytes=1_000)
    schema = pa.schema([("p", pa.string()), ("id", pa.int64())])
    writers = PartitionWriters(write_spec(tmp_path, schema, ["p"]), 0)
    writers.write(pa.table({"p": ["small", *["large"] * 200], "id": range(201)}, schema=schema))
    assert [name.partition("/")[0] for name in data_files(tmp_path)] == ["p=large"]
    assert bag((file.partition["p"].as_py(), file.rows) for file in writers.close()) == bag([("small", 1), ("large", 200)])


def test_discard_empties_every_partition(tmp_path: Path) -> None:
    schema = pa.schema([("p", pa.int64()), ("id", pa.int64())])
    writers = PartitionWriters(write_spec(tmp_path, schema, ["p"]), 0)
    writers.write(pa.table({"p": [1, 2], "id": [1, 2]}, schema=schema))
    assert len(writers.close()) == 2
    writers.discard()
    assert data_files(tmp_path) == []


def test_dictionaries_are_for_columns_that_repeat_their_values() -> None:
    few, many = [i % 3 for i in range(100)], list(range(100))
    table = pa.table(
        {
            "few": few,
            "many": many,
            "flag": pa.array([True] * 100),
            "nothing": pa.nulls(100, pa.int64()),
            "s": [{"few": str(a), "many": b} for a, b in zip(few, many, strict=True)],
            "l": [[a, a] for a in few],
            "m": pa.array([[(a, b)] for a, b in zip(few, many, strict=True)], pa.map_(pa.int64(), pa.int64())),
        }
    )
    assert dictionary_columns(table) == ["few", "nothing", "s.few", "l.list.element", "m.key_value.key"]
    assert dictionary_columns(table.slice(0, 0)) == []


def test_columns_of_many_rows_have_dictionaries_where_half_of_the_first_rows_repeat_others() -> None:
    rows, random = 20_000, np.random.default_rng(1)
    unique = np.arange(rows)
    paying = {
        "runs": unique // 2,
        "runs, then none": np.where(unique < 6_000, unique // 4, unique),
        "a cycle": unique % 4_000,
        "a cycle of runs": unique // 2 % 1_500,
        "random": random.integers(0, 4_000, rows),
        "mostly nulls": pa.array([None if n % 3 else n for n in range(rows)]),
        "texts": pa.array([f"text {n % 1_000}" for n in range(rows)]),
    }
    others = {
        "unique": unique,
        "random numbers": random.integers(0, 50_000, rows),
        "random fractions": random.random(rows),
        "unique texts": pa.array([f"text {n}" for n in range(rows)]),
        "some nulls": pa.array([n if n % 3 else None for n in range(rows)]),
    }
    assert dictionary_columns(pa.table({**paying, **others})) == list(paying)


def test_the_chosen_columns_are_those_with_dictionary_pages(tmp_path: Path) -> None:
    table = pa.table({"few": [1, 2] * 50, "many": list(range(100)), "l": [[1]] * 100})
    (file,) = write_tables(tmp_path, table.schema, table)
    group = pq.ParquetFile(tmp_path / file.name).metadata.row_group(0)
    assert [group.column(i).has_dictionary_page for i in range(3)] == [True, False, True]


def test_statistics_describe_the_rows_of_the_file(tmp_path: Path) -> None:
    (file,) = write_tables(tmp_path, ROWS, pa.table({"id": [3, 1], "word": ["b", None]}), stats=bounded(ROWS))
    assert file.stats == (
        '{"numRecords":2,"minValues":{"id":1,"word":"b"},"maxValues":{"id":3,"word":"b"},"nullCount":{"id":0,"word":1}}'
    )


def test_a_partition_value_that_is_no_utf8_is_refused(tmp_path: Path) -> None:
    table = pa.table({"id": [1], "p": raw_texts(b"a\xff")})
    writers = PartitionWriters(write_spec(tmp_path, table.schema, ["p"]), 0)
    with pytest.raises(Refused, match=r"is not UTF-8") as caught:
        writers.write(table)
    assert (caught.value.condition, caught.value.parameters) == ("DELTAMERGE_UNSUPPORTED_PARTITION_VALUE", ("61ff",))
    assert data_files(tmp_path) == []
