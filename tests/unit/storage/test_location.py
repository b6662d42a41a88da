"""Paths and URLs taken apart, and those that are refused, without showing what is secret in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltamerge.errors import InvalidArgumentError, StorageError
from deltamerge.storage.location import Location, parse_location, without_secrets


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("s3://bucket/a/b", Location("s3", "s3", "bucket", "a/b")),
        ("S3A://bucket/a/b/", Location("s3a", "s3", "bucket", "a/b")),
        ("s3n://bucket", Location("s3n", "s3", "bucket", "")),
        ("s3a://bucket//a///b/./c/../d", Location("s3a", "s3", "bucket", "a/b/d")),
        ("s3a://bucket/a b/p=%20#x?y@z:1", Location("s3a", "s3", "bucket", "a b/p=%20#x?y@z:1")),
        ("gs://bucket/a", Location("gs", "gs", "bucket", "a")),
        ("az://box/a", Location("az", "azure", "box", "a")),
        (
            "abfss://box@acct.dfs.core.windows.net/a",
            Location("abfss", "azure", "box", "a", "acct.dfs.core.windows.net"),
        ),
        (
            "wasbs://box@acct.blob.core.windows.net/a",
            Location("wasbs", "azure", "box", "a", "acct.blob.core.windows.net"),
        ),
        ("/a/b:c", Location("", "file", "", "/a/b:c")),
        ("file:///a", Location("file", "file", "", "file:///a")),
    ],
)
def test_a_location_is_taken_apart(location: str, expected: Location) -> None:
    assert parse_location(location) == expected


@pytest.mark.parametrize(
    ("location", "url"),
    [
        ("s3a://bucket/a b/", "s3a://bucket/a b"),
        ("s3a://bucket/", "s3a://bucket"),
        ("abfss://box@acct.dfs.core.windows.net/a/", "abfss://box@acct.dfs.core.windows.net/a"),
    ],
)
def test_the_url_of_a_location(location: str, url: str) -> None:
    assert parse_location(location).url == url


@pytest.mark.parametrize(
    ("location", "hint"),
    [
        ("hdfs://name/a", "JVM"),
        ("viewfs://name/a", "JVM"),
        ("dbfs:/mnt/a", "abfss://"),
        ("adl://account/a", "Gen2"),
        ("https://host/a", "endpoint"),
        ("oss://bucket/a", "If-None-Match"),
        ("s3:bucket/a", "s3://bucket/folder"),
        ("s3:///a", "s3://bucket/folder"),
        ("abfss://box@localhost/a", "dfs.core.windows.net"),
    ],
)
def test_what_is_refused_says_what_to_do(location: str, hint: str) -> None:
    with pytest.raises(StorageError) as caught:
        parse_location(location)
    assert caught.value.condition == "DELTAMERGE_UNSUPPORTED_STORE"
    assert hint in str(caught.value.hint)


@pytest.mark.parametrize(
    "location",
    [
        "s3a://AKIA:SECRET@bucket/a",
        "s3a://AKIA@bucket/a",
        "abfss://box:SECRET@acct.dfs.core.windows.net/a",
        "az://box/a?sv=1&sig=SECRET",
        "https://acct.blob.core.windows.net/box/a?sv=1&sig=SECRET",
        "https://user:SECRET@host/a",
    ],
)
def test_secrets_in_a_url_are_refused_and_not_shown(location: str) -> None:
    with pytest.raises(StorageError) as caught:
        parse_location(location)
    assert "SECRET" not in str(caught.value) + repr(caught.value.parameters)


@pytest.mark.parametrize("location", ["/a?sig=1", "s3://bucket/a?b", "hdfs://host:8020/a@b:c"])
def test_what_is_no_secret_is_shown(location: str) -> None:
    assert without_secrets(location) == location


@pytest.mark.parametrize(
    ("location", "shown", "hint"),
    [
        (None, "None", "For example"),
        ("", "''", "For example"),
        (5, "5", "For example"),
        (Path("s3://bucket/a"), "PosixPath('s3:/bucket/a')", "str(path)"),
    ],
)
def test_what_is_no_path_is_refused(location: object, shown: str, hint: str) -> None:
    with pytest.raises(InvalidArgumentError, match="DELTAMERGE_INVALID_PATH") as caught:
        parse_location(location)  # type: ignore[arg-type]
    assert f"found {shown}." in caught.value.detail
    assert hint in str(caught.value.hint)
