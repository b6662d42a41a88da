"""Row groups of checkpoints: only the actions that one has are read, and none is overlooked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltamerge.errors import CorruptTableError
from deltamerge.protocol.formats.parquet_file import ParquetFile
from deltamerge.protocol.formats.thrift import I64, LIST, STRUCT, Items, read_struct, struct_bytes
from deltamerge.protocol.table.actions import Action, DomainMetadata, Txn
from tests.unit.log.replay.test_checkpoint import ADDS, OTHERS, REMOVES, adds_of, checkpoint_bytes, parquet, read_back


def in_groups(data: bytes, *lengths: int) -> bytes:
    """A checkpoint with row groups of so many rows, whose footer counts no nulls."""
    table, sink, start = pq.read_table(pa.BufferReader(data)), pa.BufferOutputStream(), 0
    with pq.ParquetWriter(sink, table.schema, write_statistics=False) as writer:
        for length in lengths:
            writer.write_table(table.slice(start, length))
            start += length
    assert start == table.num_rows
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("lengths", [(1,) * 11, (2, 9), (7, 1, 3), (5, 4, 2), (10, 1)], ids=str)
def test_row_groups_of_some_kinds_of_actions_only(tmp_path: Path, lengths: tuple[int, ...]) -> None:
    data = checkpoint_bytes(ADDS, REMOVES, OTHERS)
    state, together = read_back(tmp_path / "a", in_groups(data, *lengths)), read_back(tmp_path / "b", data)
    assert adds_of(state).to_pylist() == adds_of(together).to_pylist() == ADDS.to_pylist()
    assert state.removes.to_pylist() == together.removes.to_pylist() == REMOVES.to_pylist()
    assert state.others == together.others


def test_columns_of_actions_that_no_row_of_a_row_group_has_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: dict[int, set[str]] = {}
    real = ParquetFile.read_row_group

    def read_row_group(file: ParquetFile, number: int, columns: list[str]) -> pa.Table:
        read.setdefault(number, set()).update(columns)
        return real(file, number, columns)

    monkeypatch.setattr(ParquetFile, "read_row_group", read_row_group)
    read_back(tmp_path, in_groups(checkpoint_bytes(ADDS, REMOVES, OTHERS), 6, 3, 2))
    leaves = {"protocol.minReaderVersion", "metaData.createdTime", "txn.version", "domainMetadata.removed"}
    assert read[0] == {"protocol", "metaData", "txn", "domainMetadata", "add.size", "remove.deletionTimestamp", *leaves}
    assert {name for name in read[1] if not name.startswith("add.")} == {"remove.deletionTimestamp", *leaves}
    assert {name for name in read[2] if not name.startswith("remove.")} == {"add.size", *leaves}


def with_meta(data: bytes, group: int, leaf: int, change: Callable[[dict[int, Any]], None]) -> bytes:
    """A file whose footer says something else of a column chunk."""
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    fields = dict(read_struct(data[start:-8])[0])
    groups = [dict(found) for found in fields[4][1].values]
    chunks = [dict(found) for found in groups[group][1][1].values]
    meta = dict(chunks[leaf][3][1])
    change(meta)
    chunks[leaf][3] = (STRUCT, meta)
    groups[group][1] = (LIST, Items(STRUCT, tuple(chunks)))
    fields[4] = (LIST, Items(STRUCT, tuple(groups)))
    footer = struct_bytes(fields)
    return data[:start] + footer + len(footer).to_bytes(4, "little") + data[-4:]


def leaves_of(data: bytes) -> list[str]:
    schema = pq.read_metadata(pa.BufferReader(data)).schema
    return [schema.column(number).path for number in range(len(schema))]


@pytest.mark.parametrize("leaf", ["txn.appId", "txn.version", "domainMetadata.domain"])
def test_values_that_a_damaged_footer_hides_are_not_lost(tmp_path: Path, leaf: str) -> None:
    others: list[Action] = [Txn("a", 1)] if leaf.startswith("txn") else [DomainMetadata("d", "{}")]
    data = in_groups(checkpoint_bytes(ADDS.slice(0, 0), REMOVES.slice(0, 0), others), 1)
    assert read_back(tmp_path / "whole", data).others == tuple(others)
    less = with_meta(data, 0, leaves_of(data).index(leaf), lambda meta: meta.update({5: (I64, 0)}))
    with pytest.raises(CorruptTableError) as caught:
        read_back(tmp_path / "less", less)
    assert caught.value.condition == "DELTAMERGE_CORRUPT_CHECKPOINT"


def test_one_leaf_alone_does_not_say_that_there_are_no_files(tmp_path: Path) -> None:
    """Its levels say that no row has it, as one bit can do."""
    files = {"path": pa.array(["a", "b"]), "size": pa.array([1, 2])}
    good = parquet(add=pa.StructArray.from_arrays(list(files.values()), list(files)))
    empty = parquet(add=pa.StructArray.from_arrays(list(files.values()), list(files), mask=pa.array([True, True])))
    start = len(good) - 8 - int.from_bytes(good[-8:-4], "little")
    place = pq.read_metadata(pa.BufferReader(empty)).row_group(0).column(1)
    first = place.dictionary_page_offset or place.data_page_offset
    pages = empty[first : first + place.total_compressed_size]

    def moved(meta: dict[int, Any]) -> None:
        meta[9] = (I64, len(empty_before) + place.data_page_offset - first)
        if 11 in meta:
            meta[11] = (I64, len(empty_before))
        meta[6], meta[7] = (I64, place.total_uncompressed_size), (I64, place.total_compressed_size)

    empty_before = good[:start]
    footer = good[start:]
    lying = with_meta(empty_before + pages + footer, 0, leaves_of(good).index("add.size"), moved)
    with pytest.raises(CorruptTableError):
        read_back(tmp_path, lying)


def test_several_columns_of_one_kind_are_refused(tmp_path: Path) -> None:
    txn = pa.array([{"appId": "a", "version": 1}])
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table([txn, txn], names=["txn", "txn"]), sink)
    with pytest.raises(CorruptTableError, match="several columns txn"):
        read_back(tmp_path, sink.getvalue().to_pybytes())


def test_a_column_whose_name_begins_as_a_kind_is_passed_over(tmp_path: Path) -> None:
    txn = pa.array([{"appId": "a", "version": 1}])
    for number, names in enumerate((["txn.x", "txn"], ["txn", "txn.x"])):
        columns = {"txn": txn, "txn.x": pa.array([1])}
        assert read_back(tmp_path / str(number), parquet(**{name: columns[name] for name in names})).others == (Txn("a", 1),)
