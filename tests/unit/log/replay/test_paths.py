"""One spelling for each data file, whatever the log writes."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamerge.log.replay.paths import PathEscapes, canonical_path, canonical_paths
from deltamerge.protocol.values.partitions import encode_path

SAME = [
    ("a.parquet", "a.parquet"),
    ("p=1/part-0001.c000.snappy.parquet", "p=1/part-0001.c000.snappy.parquet"),
    ("a%20b", "a%20b"),
    ("a b", "a%20b"),
    ("a%2fb", "a/b"),
    ("%61", "a"),
    ("ä", "%C3%A4"),
    ("%c3%a4", "%C3%A4"),
    ("./a//b/./c", "a/b/c"),
    ("a/../b", "b"),
    ("/x/y", "/x/y"),
    ("file:/x/y", "/x/y"),
    ("file:///x/y", "/x/y"),
    ("FILE://localhost/x//y", "/x/y"),
    ("/x/with%20space/p@%23h", "/x/with%20space/p%40%23h"),
    ("file:///x/with%20space/p@%23h", "/x/with%20space/p%40%23h"),
    ("s3a://Bucket/x%20y", "s3://Bucket/x%20y"),
    ("s3://Bucket/x y", "s3://Bucket/x%20y"),
    ("a:b", "a:b"),
    ("%FF", "%FF"),
]


@pytest.mark.parametrize(("path", "expected"), SAME)
def test_each_file_has_one_spelling(path: str, expected: str) -> None:
    assert canonical_path(path) == expected
    assert canonical_paths(pa.array([path, "plain"])).to_pylist() == [expected, "plain"]


@pytest.mark.parametrize("path", ["../a", "a/../../b", "%2e%2e/a", "..", "", "./../x", "a:b/../../c", "a:%2e%2e/c"])
def test_a_path_that_leads_out_of_the_table_is_refused(path: str) -> None:
    with pytest.raises(PathEscapes, match="leads out"):
        canonical_path(path)


@pytest.mark.parametrize("path", ["a%00b", "a\0b", "file:///a%00", "a:%00"])
def test_a_path_with_a_zero_byte_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="zero byte"):
        canonical_paths(pa.array([path]))


def test_no_path_is_refused() -> None:
    with pytest.raises(PathEscapes):
        canonical_paths(pa.array(["a", ""]))


@given(st.text(min_size=1).filter(lambda text: not {"/", ":", "\0"} & set(text) and text not in (".", "..")))
def test_encoding_a_name_and_spelling_it_canonically_keeps_names_apart(name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        return
    assert canonical_path(encode_path(name)) == canonical_path(encode_path(name.replace("x", "%78").replace("%78", "x")))
    assert canonical_path(encode_path(name)) != canonical_path(encode_path(name + "1"))


@given(st.lists(st.sampled_from([path for path, _ in SAME] + ["b", "c=1/d"])))
def test_the_column_form_agrees_with_the_single_one(paths: list[str]) -> None:
    assert canonical_paths(pa.array(paths, pa.string())).to_pylist() == [canonical_path(path) for path in paths]
