"""From locations and the log's file references to stores and names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deltamerge.errors import InvalidArgumentError, StorageError
from deltamerge.storage import StoreSpec, locate, open_store


def test_a_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert open_store("table").url == str(tmp_path / "table")
    assert open_store("./a/../table/").url == str(tmp_path / "table")


def test_home_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert open_store("~/table").url == str(tmp_path / "table")


@pytest.mark.parametrize(
    ("location", "root"),
    [
        ("file:/data/table", "/data/table"),
        ("file:///data/table", "/data/table"),
        ("FILE:///data/table/", "/data/table"),
        ("file://localhost/data/table", "/data/table"),
        ("/data/a b", "/data/a b"),
        ("/data/a:b", "/data/a:b"),
        ("/data/a%20b", "/data/a%20b"),
        ("/data/a#b?c", "/data/a#b?c"),
        ("file:///data/a#b?c", "/data/a#b?c"),
        ("file:///data/ä b", "/data/ä b"),
    ],
)
def test_the_root_of_a_location(location: str, root: str) -> None:
    assert open_store(location).spec == StoreSpec("file", root)


@pytest.mark.parametrize("location", ["x9://bucket/table", "no-such+scheme://bucket/table", "http://host/table", "X9:bucket"])
def test_an_unknown_scheme_is_refused(location: str) -> None:
    with pytest.raises(StorageError) as caught:
        open_store(location)
    assert caught.value.condition == "DELTAMERGE_UNSUPPORTED_STORE"
    assert caught.value.parameters == {"location": location, "scheme": location.partition(":")[0].lower()}
    assert caught.value.hint


def test_a_container_without_its_account_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("AZURE_"):
            monkeypatch.delenv(name)
    with pytest.raises(InvalidArgumentError) as caught:
        open_store("az://container/table")
    assert caught.value.condition == "DELTAMERGE_MISSING_STORE_OPTION"
    assert caught.value.parameters == {"location": "az://container/table", "option": "azure_storage_account_name"}
    assert open_store("az://container/table", {"azure_storage_account_name": "there"}).url == "az://container/table"


def test_options_do_not_show_in_a_spec() -> None:
    assert "secret" not in repr(StoreSpec("file", "/data", {"key": "secret"}))


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        ("part-0.parquet", "part-0.parquet"),
        ("p=a/part-0.parquet", "p=a/part-0.parquet"),
        ("p=a%20b/part-0.parquet", "p=a b/part-0.parquet"),
        ("p=a%253Ab/part-0.parquet", "p=a%3Ab/part-0.parquet"),
        ("p=10:30/part-0.parquet", "p=10:30/part-0.parquet"),
        ("t=2020-01-01%2010:30/part-0.parquet", "t=2020-01-01 10:30/part-0.parquet"),
        ("p=%C3%A4/x+y.parquet", "p=ä/x+y.parquet"),
    ],
)
def test_a_relative_reference_is_within_the_table(tmp_path: Path, reference: str, name: str) -> None:
    store = open_store(str(tmp_path))
    found, decoded = locate(store, reference)
    assert found is store
    assert decoded == name


@pytest.mark.parametrize(
    ("reference", "path"),
    [
        ("file:///other/part-0.parquet", "/other/part-0.parquet"),
        ("file:/other/part-0.parquet", "/other/part-0.parquet"),
        ("/other/part-0.parquet", "/other/part-0.parquet"),
        ("/part-0.parquet", "/part-0.parquet"),
        ("file:///part-0.parquet", "/part-0.parquet"),
        ("file:/part-0.parquet", "/part-0.parquet"),
        ("file:///other/a%20b/x%20y.parquet", "/other/a b/x y.parquet"),
        ("file:///other/a%23b/x%3Fy.parquet", "/other/a#b/x?y.parquet"),
        ("file:///other/a%2523b/x.parquet", "/other/a%23b/x.parquet"),
        ("/other/p=a%253Ab/x.parquet", "/other/p=a%3Ab/x.parquet"),
    ],
)
def test_an_absolute_reference_is_where_it_says(tmp_path: Path, reference: str, path: str) -> None:
    found, name = locate(open_store(str(tmp_path)), reference)
    assert os.path.join(found.url, name) == path


def test_a_reference_to_an_encoded_name_is_readable(tmp_path: Path) -> None:
    folder = tmp_path / "a b#c%20"
    folder.mkdir()
    (folder / "x?y.parquet").write_bytes(b"content")
    reference = f"{folder.as_uri()}/x%3Fy.parquet"
    found, name = locate(open_store("/elsewhere"), reference)
    assert found.read(name) == b"content"


def test_a_reference_with_an_unknown_scheme_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="x9"):
        locate(open_store(str(tmp_path)), "x9://bucket/part-0.parquet")
