"""What is not certain to be right as copied bytes is written from its rows, and the reason is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltamerge.protocol.formats.thrift import BINARY, I32, I64, LIST, STRUCT, Items, struct_bytes
from deltamerge.worker.parquet.footer import footer_of, parse_footer
from deltamerge.worker.parquet.plain import NotSpliceable, Reason
from deltamerge.worker.parquet.schema import check_chunk, columns_of
from deltamerge.worker.write.splice import base
from tests.unit.worker.data import UTC_TIME, vector_of
from tests.unit.worker.write.splicing import (
    DELETE,
    EVERY,
    IDS,
    LEGACY,
    NAME,
    ROWS,
    STRICT,
    by_arrow,
    column_index_of_noise,
    edited,
    edited_meta,
    edited_statistics,
    moved_pages,
    read,
    update_of,
    with_unknown,
    without_orders,
)


@dataclass(frozen=True)
class Plain:
    """A file that is written from its rows, and why."""

    reason: Reason
    table: pa.Table = field(default_factory=lambda: ROWS)
    write: Any = None
    edit: Callable[[Path], None] = lambda path: None
    options: Any = None


PLAIN = {
    "switched off": Plain(Reason.OFF, options={"splices": False}),
    "small": Plain(Reason.SMALL, options={"limits": {"small_file_bytes": 1 << 20}}),
    "every column of the only row group": Plain(Reason.WHOLE, write={"group_rows": 12}, options={"clause": EVERY}),
    "rows of every row group": Plain(Reason.WHOLE, options={"clause": DELETE, "rows": (0, 4, 8)}),
    "a few bytes, a footer that is not looked into": Plain(
        Reason.WHOLE, write={"group_rows": 12}, edit=lambda path: edited(path, with_unknown), options={"clause": DELETE}
    ),
    "a few bytes that are worth it": Plain(
        Reason.FOOTER,
        write={"group_rows": 12},
        edit=lambda path: edited(path, with_unknown),
        options={"clause": DELETE, "limits": {"page_bytes": 0}},
    ),
    "a field that is not known": Plain(Reason.FOOTER, edit=lambda path: edited(path, with_unknown)),
    "no column orders": Plain(Reason.ORDERS, edit=lambda path: edited(path, without_orders)),
    "a column less": Plain(Reason.COLUMNS, ROWS.drop_columns(["share"])),
    "a column more": Plain(Reason.COLUMNS, ROWS.append_column("more", ROWS["id"])),
    "a column of another case": Plain(Reason.COLUMNS, ROWS.rename_columns(["ID", "word", "share"])),
    "a narrower type": Plain(Reason.TYPES, ROWS.set_column(0, "id", ROWS["id"].cast(pa.int32()))),
    "no nulls in the file, nulls may come": Plain(Reason.TYPES, ROWS.cast(STRICT)),
    "another calendar": Plain(Reason.CALENDAR, ROWS.replace_schema_metadata(LEGACY), write={"store_schema": True}),
    "a Bloom filter without a length": Plain(Reason.INDEXES, edit=lambda path: edited_meta(path, m14=(I64, 4))),
    "a Bloom filter that is none": Plain(Reason.INDEXES, edit=lambda path: edited_meta(path, m14=(I64, 4), m15=(I32, 9))),
    "half an index": Plain(Reason.INDEXES, edit=lambda path: edited_meta(path, o6=(I64, 1 << 30))),
    "a column index that is none": Plain(Reason.INDEXES, edit=column_index_of_noise),
    "more nulls than values": Plain(Reason.STATISTICS, edit=lambda path: edited_statistics(path, 0, {3: (I64, 5)})),
    "fewer nulls than its pages have": Plain(
        Reason.STATISTICS,
        ROWS.set_column(0, "id", pa.array([None] * 12, pa.int64())),
        write={"write_page_index": False},
        edit=lambda path: edited_statistics(path, 0, {3: (I64, 0)}),
    ),
    "pages that are elsewhere": Plain(Reason.PAGES, edit=moved_pages),
}


@pytest.mark.parametrize("case", PLAIN.values(), ids=list(PLAIN))
def test_what_is_not_certain_is_written_from_its_rows(tmp_path: Path, case: Plain) -> None:
    by_arrow(case.table, tmp_path / NAME, **{"group_rows": 4, **(case.write or {})})
    case.edit(tmp_path / NAME)
    options = dict(case.options or {})
    done = update_of(tmp_path, *options.pop("rows", (5,)), **options)
    assert done.plain is case.reason
    if case.reason is not Reason.SMALL:
        assert read(tmp_path, done).num_rows == done.copied + done.counts.sum() * (options.get("clause") != DELETE)


def test_deleted_rows_are_left_behind_from_rows(tmp_path: Path) -> None:
    by_arrow(ROWS, tmp_path / NAME, 4)
    done = update_of(tmp_path, 5, vector=vector_of(tmp_path, [1, 11]))
    assert (done.plain, done.written[0].rows) == (Reason.VECTOR, 10)


def test_int96_is_written_from_rows(tmp_path: Path) -> None:
    schema = pa.schema([*IDS, ("at", UTC_TIME)])
    table = pa.table([*ROWS.columns, pa.array([0] * 12, UTC_TIME)], schema=schema)
    by_arrow(table, tmp_path / NAME, 4, use_deprecated_int96_timestamps=True)
    assert update_of(tmp_path, 5, schema=schema).plain is Reason.TYPES


@pytest.mark.parametrize(
    "changed",
    [
        {"m12": (STRUCT, {5: (BINARY, b"b"), 6: (BINARY, b"a")})},
        {"m12": (STRUCT, {1: (BINARY, bytes(8)), 5: (BINARY, b"a" * 8), 6: (BINARY, b"a" * 8)})},
        {"m16": (STRUCT, {1: (I64, 9)})},
        {"m16": (STRUCT, {2: (LIST, Items(I64, (1, 2)))})},
        {"m16": (STRUCT, {3: (LIST, Items(I64, (1, 2, 3)))})},
        {"m1": (I32, 6)},
    ],
)
def test_chunks_that_are_not_of_their_column(tmp_path: Path, changed: dict[str, Any]) -> None:
    by_arrow(ROWS, tmp_path / NAME, 4)
    edited_meta(tmp_path / NAME, **changed)
    data = (tmp_path / NAME).read_bytes()
    footer = footer_of(data)
    leaf = columns_of(footer.schema)[0].leaves[0]
    with pytest.raises(NotSpliceable):
        check_chunk(footer.groups[0].chunks[0], leaf)


def test_a_file_whose_footer_is_too_large_to_be_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    by_arrow(ROWS, tmp_path / NAME, 4)
    size = int.from_bytes((tmp_path / NAME).read_bytes()[-8:-4], "little")
    monkeypatch.setattr(base, "MOST_FOOTER_BYTES", size - 1)
    assert update_of(tmp_path, 5).plain is Reason.FOOTER
    by_arrow(ROWS, tmp_path / NAME, 4)
    monkeypatch.setattr(base, "MOST_FOOTER_BYTES", size)
    assert update_of(tmp_path, 5).plain is None


@pytest.mark.parametrize(
    ("fields", "reason"),
    [({8: (STRUCT, {1: (STRUCT, {})})}, Reason.ENCRYPTED), ({9: (BINARY, b"key")}, Reason.ENCRYPTED)],
)
def test_encrypted_files_are_told_by_their_footer(tmp_path: Path, fields: dict[int, Any], reason: Reason) -> None:
    by_arrow(ROWS, tmp_path / NAME, 4)
    data = (tmp_path / NAME).read_bytes()
    footer = footer_of(data)
    with pytest.raises(NotSpliceable) as caught:
        parse_footer(struct_bytes({**footer.fields, **fields}), footer.start)
    assert caught.value.reason is reason


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"o1": (BINARY, b"elsewhere.parquet")}, Reason.ELSEWHERE),
        ({"o8": (STRUCT, {1: (STRUCT, {})})}, Reason.ENCRYPTED),
        ({"o9": (BINARY, b"")}, Reason.ENCRYPTED),
        ({"m10": (I64, 9)}, Reason.FOOTER),
        ({"m7": (I64, 1 << 40)}, Reason.FOOTER),
    ],
)
def test_chunks_that_are_elsewhere_or_encrypted(tmp_path: Path, changed: dict[str, Any], reason: Reason) -> None:
    by_arrow(ROWS, tmp_path / NAME, 4)
    edited_meta(tmp_path / NAME, **changed)
    data = (tmp_path / NAME).read_bytes()
    with pytest.raises(NotSpliceable) as caught:
        footer_of(data)
    assert caught.value.reason is reason
