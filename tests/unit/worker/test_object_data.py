"""A worker's folder on an object store: names as they are, right sizes, few requests, and nothing left by a failed write."""

from __future__ import annotations

import os
import pickle
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pf
import pyarrow.parquet as pq
import pytest

from deltamerge.storage import open_store
from deltamerge.worker.scan import store as module
from deltamerge.worker.scan.row_errors import Refused
from deltamerge.worker.scan.scan import FileTask, ScanSpec, scan_file
from deltamerge.worker.scan.store import DataStore
from deltamerge.worker.write.rewrite import ChangeSpec
from deltamerge.worker.write.splice.splicer import rewriter as rewriter_of
from deltamerge.worker.write.write import DataFileWriter, PartitionWriters, WriteSpec
from tests.stores.azurite import ACCOUNT, account_sas
from tests.stores.server import SECRET, S3Server

ROWS = pa.schema([("id", pa.int64()), ("noise", pa.binary())])


@pytest.fixture
def store(server: S3Server, bucket: str) -> DataStore:
    spec = open_store(f"s3a://{bucket}/a table", server.options).spec
    return DataStore(spec.scheme, spec.root, spec.options)


def noise(rows: int) -> pa.Table:
    """Rows of a kilobyte that can't be compressed."""
    return pa.table({"id": range(rows), "noise": [os.urandom(1024) for _ in range(rows)]}, schema=ROWS)


def writer(store: DataStore, name: str = "p=a%2Fb ä") -> DataFileWriter:
    return DataFileWriter(WriteSpec(store, ROWS, ROWS, (), ()), {}, name, 0)


@pytest.mark.parametrize("name", ["part", "p=a%2Fb/q=é ü/part", "t=2020-01-01 10:30/a#b?c&d+e"])
def test_a_file_is_made_without_folders_and_read_back(server: S3Server, bucket: str, store: DataStore, name: str) -> None:
    with server.counting() as requests, store.create(name) as sink:
        sink.write(b"abc")
    assert requests == {"PUT": 1}
    assert server.keys(bucket) == [f"a table/{name}"]
    with server.counting() as requests, store.open(name) as source:
        assert source.read() == b"abc"
    assert requests == {"HEAD": 1, "GET": 1}
    assert open_store(f"s3a://{bucket}/a table", server.options).read(name) == b"abc"


@pytest.mark.parametrize("rows", [3, 30_000])
def test_the_written_size_is_the_stored_one(server: S3Server, bucket: str, store: DataStore, rows: int) -> None:
    table = noise(rows)
    writing = writer(store)
    writing.write(table)
    (written,) = writing.close()
    data = server.object(bucket, f"a table/{written.name}")
    assert (written.size, written.rows) == (len(data), rows)
    with store.open(written.name) as source:
        assert pq.read_table(source).equals(table)


def test_a_large_file_is_rewritten_with_a_request_or_two_a_row_group(server: S3Server, store: DataStore) -> None:
    schema = pa.schema([("id", pa.int64()), *((f"c{number}", pa.binary()) for number in range(12))])
    spec = WriteSpec(store, schema, schema, (), ())
    written = DataFileWriter(spec, {}, "", 0)
    columns = {f"c{number}": [os.urandom(1024) for _ in range(800)] for number in range(12)}
    for group in range(2):
        written.write(pa.table({"id": range(group * 800, group * 800 + 800), **columns}, schema=schema))
        written.flush()
    (file,) = written.close()
    assert file.size > 2 * 8_000_000
    task = FileTask(0, file.name, {})
    with server.counting() as scanning:
        rows = pa.Table.from_batches(scan_file(ScanSpec(store, schema), task), ScanSpec(store, schema).output)
    rewriter = rewriter_of(ChangeSpec(spec, (), {0: task}), task, 0, PartitionWriters(spec, 1))
    with server.counting() as requests:
        (rewritten,) = rewriter.finish().written
    assert (rows.num_rows, rewritten.rows) == (1_600, 1_600)
    assert scanning["GET"] <= 6
    assert requests["GET"] <= 6


def test_a_write_that_fails_leaves_nothing(server: S3Server, bucket: str, store: DataStore) -> None:
    writing = writer(store)
    writing.write(noise(100))
    writing.flush()
    writing.discard()
    assert [key for key in server.keys(bucket) if not key.endswith("/")] == []


def test_a_missing_file_is_an_os_error_that_names_it(store: DataStore) -> None:
    with pytest.raises(FileNotFoundError, match="no-such-part"):
        store.open("no-such-part")


def test_files_that_a_user_names_by_their_urls(server: S3Server, bucket: str, store: DataStore, tmp_path: Path) -> None:
    server.client.put_object(Bucket=bucket, Key="elsewhere/part", Body=b"there")
    (tmp_path / "part").write_bytes(b"here")
    for name, data in (
        (f"s3a://{bucket}/elsewhere/part", b"there"),
        (f"s3://{bucket}/elsewhere/part", b"there"),
        (f"file://{tmp_path}/part", b"here"),
        (f"file:{tmp_path}/part", b"here"),
        (f"{tmp_path}/part", b"here"),
    ):
        place, inner = store.of_url(name)
        with place.open(inner) as source:
            assert source.read() == data
    for name in ("abfss://box@acct.dfs.core.windows.net/part", "gs://bucket/part", "s3a://other/part"):
        with pytest.raises(Refused) as caught:
            store.of_url(name)
        assert caught.value.condition == "DELTAMERGE_FILE_IN_OTHER_STORE"


def test_the_name_of_a_file_is_never_taken_for_a_url(server: S3Server, bucket: str, store: DataStore, tmp_path: Path) -> None:
    server.client.put_object(Bucket=bucket, Key="elsewhere", Body=b"there")
    (tmp_path / "part").write_bytes(b"here")
    for name in (f"s3a://{bucket}/elsewhere", f"file:{tmp_path}/part", f"{tmp_path}/part", "/elsewhere"):
        for place in (store, DataStore("file", str(tmp_path / "t"))):
            with pytest.raises((FileNotFoundError, pa.ArrowInvalid), match=r"a table/|/t/"):
                place.open(name)


@pytest.mark.parametrize("scheme", ["s3", "azure", "gs"])
def test_a_pyarrow_without_the_file_system_is_refused_by_name(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(options: Mapping[str, str]) -> Any:
        raise ImportError("built without it")

    monkeypatch.setitem(module._SYSTEMS, scheme, missing)
    with pytest.raises(Refused) as caught:
        DataStore(scheme, "bucket/t", {"secret_access_key": SECRET}).open("part")
    assert caught.value.condition == "DELTAMERGE_WORKER_WITHOUT_STORE"
    assert pa.__version__ in caught.value.message
    assert SECRET not in str(caught.value)


def test_a_store_is_shipped_without_its_connections(store: DataStore) -> None:
    store.create("part").close()
    data = pickle.dumps(store)
    assert b"pyarrow" not in data
    assert pickle.loads(data) == store
    assert pickle.loads(data).open("part").read() == b""
    assert SECRET not in repr(store)


def test_how_an_azure_account_is_opened() -> None:
    made = module._azure({"account_name": "acct", "account_key": "a2V5", "endpoint": "http://127.0.0.1:10000/acct"})
    assert made == pf.AzureFileSystem(
        "acct",
        account_key="a2V5",
        blob_storage_authority="127.0.0.1:10000",
        blob_storage_scheme="http",
        dfs_storage_authority="127.0.0.1:10000",
        dfs_storage_scheme="http",
    )
    china = {"account_name": "acct", "sas_key": "sv=1&sig=x", "endpoint": "https://acct.blob.core.chinacloudapi.cn"}
    assert module._azure(china) == pf.AzureFileSystem(
        "acct",
        sas_token="?sv=1&sig=x",
        blob_storage_authority=".blob.core.chinacloudapi.cn",
        blob_storage_scheme="https",
        dfs_storage_authority=".dfs.core.chinacloudapi.cn",
        dfs_storage_scheme="https",
    )
    robot = {"client_id": "i", "client_secret": "s", "tenant_id": "t"}
    assert module._azure({"account_name": "acct", **robot}) == pf.AzureFileSystem("acct", **robot)
    assert module._azure({"account_name": "acct", "client_id": "i"}) == pf.AzureFileSystem("acct", client_id="i")


def test_an_older_pyarrow_that_takes_no_sas_token_is_named_without_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    def older(account_name: str, account_key: str | None = None) -> None: ...

    monkeypatch.setattr(pf, "AzureFileSystem", older)
    assert module._azure({"account_name": "acct", "account_key": "a2V5"}) is None
    with pytest.raises(Refused, match=f"pyarrow {pa.__version__} can't open .* these options: sas_key") as caught:
        module._azure({"account_name": "acct", "sas_key": "sv=1&sig=SECRET"})
    assert caught.value.condition == "DELTAMERGE_OLD_PYARROW"
    assert "SECRET" not in str(caught.value)


def test_a_sas_token_opens_files_and_is_not_shown(emulator: dict[str, str], container: str) -> None:
    options = {"account_name": ACCOUNT, "sas_key": account_sas(), "endpoint": emulator["azure_storage_endpoint"]}
    store = DataStore("azure", f"{container}/t", options)
    with store.create("part") as sink:
        sink.write(b"abc")
    assert store.open("part").read() == b"abc"
    assert open_store(f"az://{container}/t", options).read("part") == b"abc"
    wrong = DataStore("azure", f"{container}/t", {**options, "sas_key": account_sas()[:-8] + "SECRET%3D"})
    for call in (wrong.open, wrong.create):
        with pytest.raises(OSError, match="Azure Error") as caught:
            call("part")
        assert "SECRET" not in "".join(traceback.format_exception(caught.value))
    with pytest.raises(OSError, match=r"x\?\*\*\*&more") as caught, wrong.naming("part"):
        raise OSError(f"at https://host/x?{wrong.options['sas_key']}&more")
    assert "SECRET" not in "".join(traceback.format_exception(caught.value))


def test_how_google_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/before.json")
    seen: list[str | None] = []

    def make(**arguments: Any) -> dict[str, Any]:
        seen.append(os.environ.get("GOOGLE_APPLICATION_CREDENTIALS"))
        return arguments

    monkeypatch.setattr(module.pf, "GcsFileSystem", make)
    anonymous = module._google({"skip_signature": "true", "endpoint": "http://127.0.0.1:4443"})
    assert anonymous == {"anonymous": True, "scheme": "http", "endpoint_override": "127.0.0.1:4443"}
    assert module._google({"application_credentials": "/own.json"}) == {"anonymous": False}
    assert module._google({"bearer_token": "t"})["access_token"] == "t"
    assert seen == ["/before.json", "/own.json", "/before.json"]
    assert os.environ["GOOGLE_APPLICATION_CREDENTIALS"] == "/before.json"
