"""Which files of a table's folder whole paths in its log mean, in all their spellings."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deltamerge.commands.layout.kept import Kept


def kept(url: str, *references: str) -> Kept:
    store: Any = SimpleNamespace(url=url)
    found = Kept(store)
    found.add(references)
    return found


ACCOUNT = "acct.dfs.core.windows.net"


@pytest.mark.parametrize(
    ("url", "reference"),
    [
        ("s3://b/t", "s/p"),
        ("s3a://b/t", "s3://b/t/s/p"),
        ("s3://b/t", "S3N://b/t//x/../s/p"),
        ("s3://b", "s3://b/s/p"),
        ("s3://b/t", "/t/s/p"),
        ("s3://b/a%20b", "s3a://b/a%2520b/s/p"),
        ("s3://b/a b", "s3a://b/a%20b/s%2Fp"),
        ("gs://b/t", "gs://b//t/s/p"),
        ("az://c/t", f"abfss://c@{ACCOUNT}/t/s/p"),
        (f"abfss://c@{ACCOUNT}/t", "az://c/t/s/p"),
        ("wasbs://c@acct.blob.core.windows.net/t", f"abfss://c@{ACCOUNT.upper()}/t/s/p"),
        ("s3://b/t", "dbfs:/mnt/b/t/s/p"),
        ("s3://b/t", "https://host/b/t/s/p"),
        ("s3://b/t", "gs://b/t/s/p"),
        ("s3://b/t", "s3://key:secret@b/t/s/p"),
        ("/mnt/b/t", "s3://b/t/s/p"),
        ("/data/t", "/data/t/s/p"),
        ("/data/t", "file://localhost/data/t/s/p"),
        ("/data/a%20b", "file:/data/a%2520b/s/p"),
        ("/", "file:/s/p"),
        ("/data/t", "/mounted/t/s/p"),
    ],
)
def test_what_may_be_a_file_of_the_table_is_kept(url: str, reference: str) -> None:
    found = kept(url, reference)
    assert "s/p" in found
    assert not any(name in found for name in ("q", "s/q", "r/p", "s", "x/s/p"))


@pytest.mark.parametrize(
    ("url", "reference"),
    [
        ("s3://b/t", "s3://other/t/p"),
        ("s3://b/t", "s3://b/tt/p"),
        (f"abfss://c@{ACCOUNT}/t", "abfss://c@other.dfs.core.windows.net/t/p"),
        (f"abfss://c@{ACCOUNT}/t", f"abfss://d@{ACCOUNT}/t/p"),
        ("/data/t", "/elsewhere/q"),
    ],
)
def test_what_surely_lies_elsewhere_keeps_nothing(url: str, reference: str) -> None:
    assert "p" not in kept(url, reference)


def test_links_are_followed_to_the_table_and_not_out_of_it(tmp_path: Path) -> None:
    table = tmp_path / "t"
    table.mkdir()
    (tmp_path / "target").write_bytes(b"")
    (tmp_path / "link").symlink_to(table)
    (table / "p").symlink_to(tmp_path / "target")
    (tmp_path / "alias").symlink_to(table / "f")
    found = kept(str(table), f"file:{tmp_path}/link/p", f"{tmp_path}/alias")
    assert all(name in found for name in ("p", "f"))
    assert "f" in kept(str(tmp_path / "link"), f"{table}/f")
