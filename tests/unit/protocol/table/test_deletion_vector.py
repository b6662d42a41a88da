"""Deletion vectors by their descriptors: where they are, what they hold, and what is wrong with those that are damaged."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from dataclasses import replace
from urllib.parse import unquote

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamerge.errors import CorruptTableError
from deltamerge.protocol.formats.roaring import RowSet, decode, encode
from deltamerge.protocol.table.actions import DeletionVector
from deltamerge.protocol.table.deletion_vector import (
    check_rows,
    deleted_rows,
    file_of_vectors,
    vector_reference,
    z85_decode,
    z85_encode,
)
from tests.effort import examples

EXAMPLE = DeletionVector("i", "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", 40, 6)
FIRST, SECOND = encode(np.array([1, 5, 70_000])), encode(np.arange(10, 20))
FILE, OFFSETS = file_of_vectors([FIRST, SECOND])


def reader(data: bytes = FILE) -> Callable[[int, int], bytes]:
    return lambda offset, size: data[offset : offset + size]


def stored(number: int) -> DeletionVector:
    data = (FIRST, SECOND)[number]
    return DeletionVector("p", "file:/x/y.bin", len(data), (3, 10)[number], OFFSETS[number])


def test_the_protocols_examples_are_read() -> None:
    assert deleted_rows(EXAMPLE, reader(), "f").positions().tolist() == [3, 4, 7, 11, 18, 29]
    relative = DeletionVector("u", "ab^-aqEH.-t@S}K{vb[*k^", 40, 6, 4)
    assert vector_reference(relative, "f") == "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    plain = replace(relative, path_or_inline="^-aqEH.-t@S}K{vb[*k^")
    assert vector_reference(plain, "f") == "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    assert vector_reference(stored(0), "f") == "file:/x/y.bin"
    assert vector_reference(EXAMPLE, "f") is None


@examples(100)
@given(st.uuids())
def test_a_uuid_has_twenty_characters_and_comes_back(id: uuid.UUID) -> None:
    text = z85_encode(id.bytes)
    assert len(text) == 20
    assert uuid.UUID(bytes=z85_decode(text)) == id


@pytest.mark.parametrize("text", ["abcd", "abcd;", "####~", "#####", "é0000"])
def test_what_is_no_z85_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        z85_decode(text)


def test_an_inline_vector_may_be_padded_or_empty() -> None:
    data = encode(np.array([2, 3, 70_001]))
    padded = data + b"\0" * (-len(data) % 4)
    assert len(padded) > len(data)
    vector = DeletionVector("i", z85_encode(padded), len(data), 3)
    assert deleted_rows(vector, reader(), "f").positions().tolist() == [2, 3, 70_001]
    assert deleted_rows(DeletionVector("i", "", 0, 0), reader(), "f") == RowSet()


def test_each_vector_of_a_file_is_found() -> None:
    assert deleted_rows(stored(0), reader(), "f").positions().tolist() == [1, 5, 70_000]
    assert deleted_rows(stored(1), reader(), "f").positions().tolist() == list(range(10, 20))
    assert deleted_rows(replace(stored(0), offset=None), reader(), "f").rows == 3


def flipped(at: int) -> bytes:
    return FILE[:at] + bytes([FILE[at] ^ 1]) + FILE[at + 1 :]


@pytest.mark.parametrize(
    ("vector", "data", "condition"),
    [
        (stored(0), flipped(0), "DELTAMERGE_CORRUPT_DELETION_VECTOR"),
        (stored(1), flipped(0), "DELTAMERGE_CORRUPT_DELETION_VECTOR"),
        (stored(0), flipped(OFFSETS[0] + 3), "DELTA_DELETION_VECTOR_SIZE_MISMATCH"),
        (stored(0), flipped(OFFSETS[0] + 9), "DELTA_DELETION_VECTOR_CHECKSUM_MISMATCH"),
        (stored(1), flipped(len(FILE) - 1), "DELTA_DELETION_VECTOR_CHECKSUM_MISMATCH"),
        (stored(1), FILE[:-1], "DELTA_DELETION_VECTOR_SIZE_MISMATCH"),
        (replace(stored(1), offset=9_999), FILE, "DELTA_DELETION_VECTOR_SIZE_MISMATCH"),
        (replace(stored(1), offset=-4), FILE, "DELTA_DELETION_VECTOR_SIZE_MISMATCH"),
        (replace(stored(1), size_in_bytes=-4), FILE, "DELTA_DELETION_VECTOR_SIZE_MISMATCH"),
        (replace(stored(1), size_in_bytes=2**31 - 1), FILE, "DELTA_DELETION_VECTOR_SIZE_MISMATCH"),
        (replace(stored(1), cardinality=9), FILE, "DELTA_DELETION_VECTOR_CARDINALITY_MISMATCH"),
        (replace(EXAMPLE, size_in_bytes=44), FILE, "DELTA_DELETION_VECTOR_SIZE_MISMATCH"),
        (replace(EXAMPLE, size_in_bytes=38), FILE, "DELTAMERGE_CORRUPT_DELETION_VECTOR"),
        (replace(EXAMPLE, path_or_inline="~" * 50), FILE, "DELTAMERGE_CORRUPT_DELETION_VECTOR"),
    ],
)
def test_damage_is_named_with_the_data_file(vector: DeletionVector, data: bytes, condition: str) -> None:
    with pytest.raises(CorruptTableError) as caught:
        deleted_rows(vector, reader(data), "part-7.parquet")
    assert caught.value.condition == condition
    assert "part-7.parquet" in str(caught.value)


@pytest.mark.parametrize(
    "vector", [DeletionVector("u", "short", 1, 1), DeletionVector("u", "#" * 20, 1, 1), DeletionVector("x", "", 1, 1)]
)
def test_a_descriptor_that_names_no_place_is_refused(vector: DeletionVector) -> None:
    with pytest.raises(CorruptTableError, match="part-7"):
        vector_reference(vector, "part-7.parquet")


UUID_TEXT = "^-aqEH.-t@S}K{vb[*k^"


@pytest.mark.parametrize("prefix", ["../outside", "a/../..", "..", "/etc", "/"])
def test_a_prefix_that_leads_out_of_the_table_is_refused(prefix: str) -> None:
    with pytest.raises(CorruptTableError, match="leads out of the table's folder"):
        vector_reference(DeletionVector("u", prefix + UUID_TEXT, 40, 6), "f")


@pytest.mark.parametrize("prefix", ["s3://evil/x", "file:", "%2e%2e/outside", "a b", "..a", "a:b"])
def test_a_prefix_is_a_folder_whatever_it_looks_like(prefix: str) -> None:
    found = vector_reference(DeletionVector("u", prefix + UUID_TEXT, 40, 6), "f")
    assert found is not None
    assert re.fullmatch(r"[A-Za-z0-9%./_-]+", found)
    assert unquote(found).rpartition("/")[0] == prefix


@pytest.mark.parametrize("where", ["x.bin", "../x.bin", "", "a:b/x.bin", "file:../x.bin", "file:x.bin", "file:/x%00.bin", "/x\0"])
def test_an_absolute_path_is_one(where: str) -> None:
    with pytest.raises(CorruptTableError, match="is no URL"):
        vector_reference(DeletionVector("p", where, 40, 6), "f")


def test_a_row_that_the_file_does_not_have_is_refused() -> None:
    rows = decode(encode(np.array([3, 9])))
    check_rows(rows, 10, "f")
    with pytest.raises(CorruptTableError, match=r"DELTA_DELETION_VECTOR_INVALID_ROW_INDEX.*deletes row 9 of a file with 9 rows"):
        check_rows(rows, 9, "f")


@examples(300)
@given(at=st.integers(0, len(FILE) - 1), byte=st.integers(0, 255), cut=st.integers(0, len(FILE)), number=st.integers(0, 1))
def test_damaged_files_are_refused_or_read_right(at: int, byte: int, cut: int, number: int) -> None:
    data = (FILE[:at] + bytes([byte]) + FILE[at + 1 :])[: cut if cut % 3 == 0 else None]
    try:
        found = deleted_rows(stored(number), reader(data), "f")
    except CorruptTableError:
        return
    assert found.positions().tolist() == [[1, 5, 70_000], list(range(10, 20))][number]


@examples(300)
@given(st.text("0123wi5b=@{}LXg8", max_size=60), st.integers(-5, 60), st.integers(-1, 20))
def test_damaged_inline_vectors_are_refused(text: str, size: int, cardinality: int) -> None:
    try:
        found = deleted_rows(DeletionVector("i", text, size, cardinality), reader(), "f")
    except CorruptTableError:
        return
    assert found.rows == cardinality
