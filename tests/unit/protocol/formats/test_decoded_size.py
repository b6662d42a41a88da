"""How large pages are taken to be once they are decoded."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltamerge.protocol.formats import decoded_size
from deltamerge.protocol.formats.decoded_size import DecodedSize, TooLarge
from deltamerge.protocol.formats.parquet_file import ParquetFile
from deltamerge.protocol.formats.thrift import I32, STRUCT, Struct

DICTIONARY, DATA = 2, 0
# 2,000 paths: the first is plain, behind it is a dictionary of one text of a megabyte, and then the others, which are that text.
LATE_DICTIONARY = bytes.fromhex(
    "504152311500151615282c1502150015061506000028b52ffd200b590000020000000201010000006115041588808001157a4c15021500"
    "000028b52ffd8048040010006c00002800001000780100f8ff39d002020010780200107802001078020010780200107802001078020010"
    "78210000787878781500151615282c159e1f151015061506000028b52ffd200b590000030000009e1f01019e1f001504151015104c1502"
    "1500000005000000000000001500151615162c15a01f151015061506000003000000a01f0101a01f001504194c4806736368656d611502"
    "0035021803616464150400150c250018047061746825000015042500180473697a650016a01f191c192c26001c150c1935000610192803"
    "6164640470617468150c16a01f16b00216b0022608000026001c150419350006101928036164640473697a65150016a01f1664166426e2"
    "0226b8020000160216a01f00008900000050415231"
)


@pytest.mark.parametrize(("kind", "field"), [(DICTIONARY, 7), (DATA, 5)])
@pytest.mark.parametrize(("claimed", "stored", "size"), [(0, 1_000_000, 1_000_000), (90, 20, 90)])
def test_a_page_is_as_large_as_it_claims_or_as_it_is(kind: int, field: int, claimed: int, stored: int, size: int) -> None:
    """Arrow does not look at the claim of a page that is not compressed."""
    inner: Struct = {1: (I32, 3), 2: (I32, 0)}
    header: Struct = {1: (I32, kind), 2: (I32, claimed), 3: (I32, stored), field: (STRUCT, inner)}
    assert decoded_size._page(header).size == size


def test_a_dictionary_behind_plain_values_is_counted() -> None:
    """Its first row does not tell how long the texts of the dictionary are."""
    size, file = DecodedSize(), ParquetFile(pa.BufferReader(LATE_DICTIONARY))
    size.allow(len(LATE_DICTIONARY))
    with pytest.raises(TooLarge):
        size.add_columns(LATE_DICTIONARY, file, ["add.path"], 0)


def spent(values: pa.Array, **options: Any) -> int:
    """The bytes that a file of one column is taken to have, decoded."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": values}), sink, **options)
    data = sink.getvalue().to_pybytes()
    size = DecodedSize()
    size.add_columns(data, ParquetFile(pa.BufferReader(data)), ["a"], 0)
    return size._spent


def test_each_null_of_a_fixed_width_takes_that_width() -> None:
    nulls = pa.nulls(1_000, pa.binary(900))
    assert 1_000 * 900 <= spent(nulls) < 1_000 * 1_000


def test_each_value_of_a_dictionary_is_as_long_as_its_text() -> None:
    texts = pa.array(["x" * 60_000, *["y"] * 9, *["x" * 60_000] * 90])
    long = sum(map(len, texts.to_pylist()))
    assert long <= spent(texts, use_dictionary=True) < 1.2 * long
    few = pa.array(["x" * 60_000, *["y"] * 99_999])
    assert spent(few, use_dictionary=True) < 60_000 * 4 + 100_000 * 17
