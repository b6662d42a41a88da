"""Files that a log names outside its table: credentials go where the user has sent them, and no request anywhere else."""

from __future__ import annotations

import os
from collections.abc import Mapping

import pytest

from deltamerge.errors import StorageError
from deltamerge.storage import Store, locate, open_store
from deltamerge.storage.elsewhere import Told, options_elsewhere
from deltamerge.storage.location import parse_location
from deltamerge.storage.object_store import ObjectStore

HOST, OTHER = "acct.dfs.core.windows.net", "other.dfs.core.windows.net"
S3, GOOGLE, AZURE = "s3a://lake/t", "gs://lake/t", f"abfss://box@{HOST}/t"
KEYS = {"access_key_id": "k", "secret_access_key": "s"}
OPTIONS = {"aws_access_key_id": "k", "aws_secret_access_key": "s"}
HADOOP = {"fs.s3a.access.key": "k", "fs.s3a.secret.key": "s"}
MINIO = {"endpoint": "https://minio.example:9000", "virtual_hosted_style_request": "true"}
ROBOT = {
    "fs.azure.account.auth.type": "OAuth",
    "fs.azure.account.oauth2.client.id": "i",
    "fs.azure.account.oauth2.client.secret": "s",
    "fs.azure.account.oauth2.client.endpoint": "https://login.microsoftonline.com/the-tenant/oauth2/token",
}
AS_ROBOT = {"client_id": "i", "client_secret": "s", "tenant_id": "the-tenant"}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment, in which nothing tells of stores."""
    found: dict[str, str] = {}
    monkeypatch.setattr(os, "environ", found)
    return found


def options_of(store: Store) -> Mapping[str, str]:
    assert isinstance(store, ObjectStore)
    return store.options


@pytest.mark.parametrize(
    ("table", "options", "settings", "variables", "reference", "expected"),
    [
        # the table's own bucket, with whatever opened the table
        (S3, OPTIONS, {}, {}, "s3://lake/x", KEYS),
        (S3, OPTIONS, {}, {}, "/x", KEYS),
        # another bucket at the same endpoint, with what is for all buckets
        (S3, {}, HADOOP, {}, "s3a://clone/x", KEYS),
        (S3, OPTIONS, HADOOP, {}, "s3a://clone/x", KEYS),
        (S3, {}, {f"spark.hadoop.{name}": value for name, value in HADOOP.items()}, {}, "s3a://clone/x", KEYS),
        (S3, {}, {}, {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}, "s3a://clone/x", KEYS),
        (S3, {}, {}, {}, "s3a://clone/x", {}),
        (S3, {"aws_skip_signature": "true"}, {}, {}, "s3a://clone/x", {"skip_signature": "true"}),
        (S3, {}, {**HADOOP, "fs.s3a.endpoint": "minio.example:9000"}, {}, "s3a://clone/x", {**KEYS, **MINIO}),
        # another bucket with what is for it, wherever that is
        (S3, OPTIONS, {"fs.s3a.bucket.clone.access.key": "c", "fs.s3a.bucket.clone.endpoint": "minio.example:9000"}, {},
         "s3a://clone/x", {"access_key_id": "c", **MINIO}),
        (S3, {**OPTIONS, "fs.s3a.bucket.clone.access.key": "c"}, {}, {}, "s3a://clone/x", {"access_key_id": "c"}),
        (GOOGLE, {}, {}, {"GOOGLE_APPLICATION_CREDENTIALS": "/k"}, "gs://clone/x", {"application_credentials": "/k"}),
        # the table's own account, whichever of its services, containers and spellings
        (AZURE, {}, ROBOT, {}, f"abfss://clone@{HOST}/x", {"account_name": "acct", **AS_ROBOT}),
        (AZURE, {}, ROBOT, {}, "wasbs://clone@Acct.blob.core.windows.net/x", {"account_name": "acct", **AS_ROBOT}),
        (AZURE, {"azure_storage_account_key": "k"}, {}, {}, "az://clone/x", {"account_name": "acct", "account_key": "k"}),
        ("az://box/t", {"azure_storage_account_name": "acct", "azure_storage_account_key": "k"}, {}, {},
         f"abfss://clone@{HOST}/x", {"account_name": "acct", "account_key": "k"}),
        # another account that a setting or a variable names
        (AZURE, {}, {f"fs.azure.account.key.{OTHER}": "o"}, {}, f"abfss://box@{OTHER}/x",
         {"account_name": "other", "account_key": "o"}),
        (AZURE, {}, {**ROBOT, "fs.azure.account.auth.type.other.blob.core.windows.net": "OAuth"}, {}, f"abfss://box@{OTHER}/x",
         {"account_name": "other", **AS_ROBOT}),
        (AZURE, {}, {}, {"AZURE_STORAGE_ACCOUNT_NAME": "other", "AZURE_STORAGE_ACCOUNT_KEY": "o"}, f"abfss://box@{OTHER}/x",
         {"account_name": "other", "account_key": "o"}),
    ],
)  # fmt: skip
def test_what_is_configured_is_opened_with_its_own_credentials(
    environment: dict[str, str],
    table: str,
    options: dict[str, str],
    settings: dict[str, str],
    variables: dict[str, str],
    reference: str,
    expected: dict[str, str],
) -> None:
    environment.update(variables)
    store = open_store(table, options, settings)
    found, name = locate(store, reference)
    assert (options_of(found), name) == (expected, "x")
    assert found.url == (reference[:-2] if reference != "/x" else "s3a://lake")
    assert locate(store, f"{reference}/y%20z") == (found, "x/y z")


EVIL = "acct.dfs.core.windows.net.attacker.example"


@pytest.mark.parametrize(
    ("table", "options", "settings", "variables", "reference"),
    [
        # hosts that look like the table's own, or one that is configured
        (AZURE, {}, ROBOT, {}, f"abfss://box@{EVIL}/x"),
        (AZURE, {}, ROBOT, {}, "abfss://box@acct.blob.attacker.example/x"),
        (AZURE, {"azure_storage_account_key": "SECRET"}, {}, {}, "abfss://box@acct.blob.attacker.example/x"),
        (AZURE, {}, {f"fs.azure.account.key.{OTHER}": "SECRET"}, {}, "abfss://box@other.dfs.attacker.example/x"),
        (AZURE, {}, {}, {"AZURE_STORAGE_ACCOUNT_NAME": "other", "AZURE_STORAGE_ACCOUNT_KEY": "SECRET"},
         "abfss://box@other.blob.attacker.example/x"),
        ("az://box/t", {"azure_storage_account_name": "acct", "azure_storage_account_key": "SECRET"}, {}, {},
         "abfss://box@acct.blob.attacker.example/x"),
        # another account of Azure, with what is for all accounts or comes from the machine
        (AZURE, {}, ROBOT, {}, f"abfss://box@{OTHER}/x"),
        (AZURE, {}, {}, {"AZURE_CLIENT_ID": "i", "AZURE_CLIENT_SECRET": "SECRET", "AZURE_TENANT_ID": "t"}, f"abfss://box@{OTHER}/x"),
        (AZURE, {}, {}, {}, f"abfss://box@{OTHER}/x"),
        # keys that are for one bucket
        (S3, OPTIONS, {}, {}, "s3a://clone/x"),
        (S3, {}, {"fs.s3a.bucket.lake.access.key": "SECRET", "fs.s3a.bucket.lake.secret.key": "SECRET"}, {}, "s3a://clone/x"),
        (GOOGLE, {"google_bearer_token": "SECRET"}, {}, {}, "gs://clone/x"),
        # the endpoint of one bucket, and credentials for another endpoint
        (S3, {**OPTIONS, "aws_endpoint": "https://minio.example"}, HADOOP, {}, "s3a://clone/x"),
        (S3, {}, {**HADOOP, "fs.s3a.bucket.lake.endpoint": "minio.example"}, {}, "s3a://clone/x"),
        # other kinds of stores, and the disk of the reader
        (S3, OPTIONS, HADOOP, {}, "gs://lake/x"),
        (S3, OPTIONS, HADOOP, {}, "file:///etc/passwd"),
        (S3, OPTIONS, HADOOP, {}, "https://attacker.example/x"),
        (AZURE, {}, ROBOT, {}, "file:/etc/passwd"),
        ("/data/t", {}, {}, {"AWS_ACCESS_KEY_ID": "SECRET"}, "s3a://lake/x"),
    ],
)  # fmt: skip
def test_what_nobody_has_named_is_refused(
    environment: dict[str, str],
    table: str,
    options: dict[str, str],
    settings: dict[str, str],
    variables: dict[str, str],
    reference: str,
) -> None:
    environment.update(variables)
    with pytest.raises(StorageError) as caught:
        locate(open_store(table, options, settings), reference)
    assert caught.value.condition == "DELTAMERGE_FILE_IN_OTHER_STORE"
    assert caught.value.parameters == {"path": reference, "table": table}
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    "reference",
    [
        "s3a://evil.example#/x",
        "s3a://evil.example?/x",
        "s3a://evil.example%23/x",
        "s3a://key:SECRET@lake/x",
        f"abfss://box@{HOST}#@evil.example/x",
        "abfss://box@acct.dfs.evil.example:443/x",
        "abfss://box@acct.dfs.evil.example?/x",
    ],
)
def test_an_authority_that_is_none_is_refused(reference: str) -> None:
    table = S3 if reference.startswith("s3a") else AZURE
    with pytest.raises(StorageError) as caught:
        locate(open_store(table, {}, {**HADOOP, **ROBOT}), reference)
    assert caught.value.condition == "DELTAMERGE_UNSUPPORTED_STORE"
    assert "SECRET" not in str(caught.value)


def test_a_path_climbs_no_higher_than_its_root() -> None:
    found, name = locate(open_store("/data/t"), "file:/a/../../..//b%2F..%2Fc")
    assert (found.url, name) == ("/", "c")
    store = open_store(S3, OPTIONS)
    assert locate(store, "s3a://lake/../../clone/x")[1] == "clone/x"
    assert options_of(locate(store, "s3a://lake/../../clone/x")[0]) == KEYS
    assert locate(store, "s3a://lake/../../clone/x")[0].url == "s3a://lake"


def test_names_that_only_look_like_urls_when_they_are_decoded_stay_in_the_table() -> None:
    store = open_store(S3, OPTIONS)
    for reference, name in (("s3a%3A%2F%2Fevil%2Fx", "s3a://evil/x"), ("%2Fetc%2Fx", "/etc/x"), ("file%3A/x", "file:/x")):
        assert locate(store, reference) == (store, name)


def test_no_options_are_found_for_a_store_of_another_kind() -> None:
    told = Told(settings=HADOOP)
    there = parse_location("gs://lake/x")
    assert options_elsewhere(parse_location(S3), KEYS, there, told) is None
    assert options_elsewhere(parse_location(GOOGLE), {}, there, told) == {}
