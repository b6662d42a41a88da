"""Object stores, on a real S3 server on loopback: names, listing, credentials, and what an error tells."""

from __future__ import annotations

import logging
import time
import traceback

import pytest

from deltamerge.errors import InvalidArgumentError, StorageError
from deltamerge.storage import NotFound, Store, StoreSpec, locate, open_store
from deltamerge.storage import clients as module
from deltamerge.storage.credentials import options_for
from deltamerge.storage.location import parse_location
from deltamerge.storage.object_store import ObjectStore
from tests.stores.server import KEY_ID, SECRET, TOKEN, S3Server, answered


@pytest.fixture
def store(server: S3Server, bucket: str) -> Store:
    return open_store(f"s3a://{bucket}/some/table", server.options)


def test_url_and_spec_name_the_root_and_no_secret(server: S3Server, bucket: str, store: Store) -> None:
    assert store.url == f"s3a://{bucket}/some/table"
    assert store.spec.scheme == "s3"
    assert store.spec.root == f"{bucket}/some/table"
    assert store.spec.options["endpoint"] == server.url
    assert not any(secret in repr(shown) for secret in (KEY_ID, SECRET, TOKEN) for shown in (store, store.spec))


def test_opening_and_a_second_client_ask_the_store_nothing(server: S3Server, bucket: str) -> None:
    with server.counting() as requests:
        assert open_store(f"s3://{bucket}/t", server.options).spec == StoreSpec(
            "s3", f"{bucket}/t", options_for(parse_location(f"s3://{bucket}/t"), server.options)
        )
    assert not requests


def test_objects_are_written_read_replaced_and_deleted(server: S3Server, bucket: str, store: Store) -> None:
    store.put("a/b", b"first")
    store.put("a/b", b"second!")
    assert store.read("a/b") == b"second!"
    info = store.info("a/b")
    assert info is not None
    assert (info.name, info.size) == ("a/b", 7)
    assert abs(info.modified - time.time() * 1000) < 60_000
    assert server.keys(bucket) == ["some/table/a/b"]
    store.delete("a/b")
    store.delete("a/b")
    assert store.info("a/b") is None
    with pytest.raises(NotFound):
        store.read("a/b")


@pytest.mark.parametrize("name", ["p=a%2Fb/part", "p=é ü/x+y", "t=2020-01-01 10:30/a#b?c&d", "100%/x", "p=a%25b/~'()*!"])
def test_names_are_taken_as_they_are(server: S3Server, bucket: str, store: Store, name: str) -> None:
    store.put_if_absent(name, b"content")
    assert server.keys(bucket) == [f"some/table/{name}"]
    folder = name.rpartition("/")[0]
    assert [info.name for info in store.list(folder)] == [info.name for info in store.list(folder, "!")] == [name]
    assert store.read(name) == b"content"


def test_a_list_is_sorted_one_level_deep_and_begins_with_start(store: Store) -> None:
    for name in ("003", "001", "002", "_sidecars/004", "0015/x", "0021"):
        store.put(f"log/{name}", b"xy")
    store.put("login/009", b"")
    assert [info.name for info in store.list("log")] == ["log/001", "log/002", "log/0021", "log/003"]
    assert [info.name for info in store.list("log", "002")] == ["log/002", "log/0021", "log/003"]
    assert store.list("log", "0022")[0].name == "log/003"
    assert store.list("log", "004") == store.list("nowhere") == store.list("nowhere", "1") == []


def test_a_list_of_more_than_one_page(server: S3Server, bucket: str, store: Store) -> None:
    server.fill(bucket, [f"some/table/log/{number:05d}" for number in range(1_005)])
    assert [info.name for info in store.list("log")] == [f"log/{number:05d}" for number in range(1_005)]
    assert len(store.list("log", "00001")) == 1_004


def test_a_table_at_the_root_of_a_bucket(server: S3Server, bucket: str) -> None:
    store = open_store(f"s3://{bucket}", server.options)
    assert not store.exists_folder("")
    store.put_if_absent("log/1", b"x")
    assert [info.name for info in store.list("log", "1")] == ["log/1"]
    assert store.list("") == []
    assert store.exists_folder("")
    assert store.exists_folder("log")
    assert not store.exists_folder("lo")
    assert (store.url, store.spec.root) == (f"s3://{bucket}", bucket)


def test_one_list_is_one_request(server: S3Server, store: Store) -> None:
    store.put("log/1", b"")
    for start in ("", "1"):
        with server.counting() as requests:
            store.list("log", start)
        assert requests == {"LIST": 1}


def test_tags_are_the_same_in_every_answer(store: Store) -> None:
    written = store.put_if_absent("log/1", b"x")
    assert written.etag
    assert written.etag == store.list("log")[0].etag == store.list("log", "1")[0].etag
    assert store.info("log/1") == store.list("log")[0]
    store.put("log/1", b"y")
    assert store.list("log")[0].etag != written.etag


def test_a_missing_bucket_is_named(server: S3Server) -> None:
    store = open_store("s3://no-such-bucket/t", server.options)
    hint = "Create the bucket no-such-bucket"
    for call in (store.list, store.exists_folder, lambda name: store.list(name, "1"), lambda name: store.put(name, b"")):
        with pytest.raises(StorageError, match=hint):
            call("log")
    with pytest.raises(StorageError, match=hint):
        store.put_if_absent("log/1", b"")


def test_the_environment_never_mixes_with_given_credentials(
    server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of the environment")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token of the environment")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    given = {name: value for name, value in server.options.items() if "token" not in name}
    open_store(f"s3://{bucket}/t", given).put("a", b"")
    sent = server.headers[-1]
    assert f"Credential={KEY_ID}/" in sent["HTTP_AUTHORIZATION"]
    assert "HTTP_X_AMZ_SECURITY_TOKEN" not in sent


def test_the_environment_is_used_where_nothing_is_given(server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in server.options.items():
        monkeypatch.setenv(name.upper(), value)
    open_store(f"s3://{bucket}/t").put("a", b"")
    assert server.headers[-1]["HTTP_X_AMZ_SECURITY_TOKEN"] == TOKEN
    with pytest.raises(StorageError, match="permission"):
        open_store(f"s3://{bucket}/t", {"aws_skip_signature": "true"}).read("a")
    assert "HTTP_AUTHORIZATION" not in server.headers[-1]


def test_secrets_are_in_no_error_and_no_log(
    server: S3Server, bucket: str, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    store.put_if_absent("log/0", b"")
    texts = []
    for status in ("403 Forbidden", "401 Unauthorized"):
        server.faults.append(answered(status, f"{SECRET} {KEY_ID} {TOKEN}"))
        with pytest.raises(StorageError) as caught:
            store.put_if_absent("log/1", b"")
        texts.append("".join(traceback.format_exception(caught.value)) + repr(caught.value.parameters))
    with pytest.raises(InvalidArgumentError) as unknown:
        open_store(f"s3://{bucket}/t", {"aws_acces_key": SECRET})
    texts.append("".join(traceback.format_exception(unknown.value)) + caplog.text)
    assert not [text for text in texts for secret in (SECRET, KEY_ID, TOKEN) if secret in text]
    assert all("*** *** ***" in text for text in texts[:2])


def test_a_reference_to_another_bucket(server: S3Server, bucket: str) -> None:
    store = open_store(f"s3a://{bucket}/some/table", None, server.settings)
    other = f"other-{bucket}"[:63]
    server.client.create_bucket(Bucket=other)
    server.client.put_object(Bucket=other, Key="a b/p=x%2Fy/part", Body=b"content")
    found, name = locate(store, f"s3a://{other}/a%20b/p=x%252Fy/part")
    assert (found.url, name) == (f"s3a://{other}", "a b/p=x%2Fy/part")
    assert found.read(name) == b"content"


def test_an_absolute_path_is_within_the_bucket(bucket: str, store: Store) -> None:
    found, name = locate(store, "/elsewhere/a%20b")
    assert (found.url, name) == (f"s3a://{bucket}", "elsewhere/a b")


def test_the_region_is_asked_for_once_and_only_if_nobody_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def resolve(bucket: str) -> str:
        asked.append(bucket)
        return "eu-north-1"

    monkeypatch.setattr(module.pf, "resolve_s3_region", resolve)
    for variable in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(variable, raising=False)
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b"}
    assert open_store("s3://some-bucket-1/t", keys).spec.options["region"] == "eu-north-1"
    assert open_store("s3://some-bucket-1/u", keys).spec.options["region"] == "eu-north-1"
    assert open_store("s3://some-bucket-1/u", {**keys, "aws_region": "x"}).spec.options["region"] == "x"
    assert open_store("s3://some-bucket-1/u", {**keys, "aws_endpoint": "http://h"}).spec.options["region"] == "us-east-1"
    assert asked == ["some-bucket-1"]


@pytest.mark.parametrize(
    ("location", "options"),
    [
        ("s3://bucket/t", {"skip_signature": "true", "region": "eu-west-1", "conditional_put": "etag"}),
        ("s3://bucket/t", {"endpoint": "https://host:9000", "virtual_hosted_style_request": "true"}),
        ("az://box/t", {"account_name": "acct", "account_key": "a2V5"}),
        ("az://box/t", {"account_name": "acct", "sas_key": "sv=2020-01-01&sig=x"}),
        ("az://box/t", {"account_name": "acct", "client_id": "i", "client_secret": "s", "tenant_id": "t"}),
        ("az://box/t", {"account_name": "acct", "client_id": "i", "endpoint": "https://acct.blob.core.chinacloudapi.cn"}),
        ("gs://bucket/t", {"skip_signature": "true", "endpoint": "http://127.0.0.1:4443"}),
        ("gs://bucket/t", {"bearer_token": "t"}),
    ],
)
def test_a_client_takes_every_option(location: str, options: dict[str, str]) -> None:
    store = open_store(location, options)
    assert isinstance(store, ObjectStore)
    config = dict(store._client.config)
    assert "bucket" in str(config) or "box" in str(config)


def test_a_virtual_host_names_the_bucket() -> None:
    options = {"aws_endpoint": "https://host:9000", "aws_virtual_hosted_style_request": "true"}
    store = open_store("s3://bucket/t", options)
    assert isinstance(store, ObjectStore)
    assert "https://bucket.host:9000" in str(store._client.config)


def test_a_walk_tells_all_objects_but_what_is_hidden(store: Store) -> None:
    for name in ("a", "b/c d%/e", "b/_f", "_g/h"):
        store.put(name, b"x")
    found = list(store.walk(lambda name: name.startswith("_")))
    assert sorted(file.name for listing in found for file in listing.files) == ["a", "b/c d%/e"]
    assert next(iter(store.walk(lambda _: True))).files == []


def test_many_objects_are_deleted_by_few_requests(server: S3Server, bucket: str, store: Store) -> None:
    names = [f"p=a %{n}/x" for n in range(5)]
    for name in (*names, "kept"):
        store.put(name, b"x")
    with server.counting() as requests:
        assert store.delete_all(names) == 5
    assert len(requests) == 1
    assert server.keys(bucket) == ["some/table/kept"]
    assert (store.delete_all([]), store.delete_empty_folders(["p"])) == (0, 0)
