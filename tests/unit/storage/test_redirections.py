"""Where the configured server of a store redirects to another host, no signature goes along, and no commit."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pyarrow as pa
import pytest

from deltamerge.errors import StorageError
from deltamerge.storage import open_store
from deltamerge.worker.scan.store import DataStore

KEY = base64.b64encode(b"the account's key").decode()
S3 = {"access_key_id": "AKIA", "secret_access_key": "SECRET", "session_token": "TOKEN", "region": "us-east-1"}
Request = tuple[str, dict[str, str]]


@contextlib.contextmanager
def server(address: str, location: str | None) -> Iterator[tuple[str, list[Request]]]:
    """A server that redirects every request, or says that there is nothing; its URL, and the requests that it gets."""
    found: list[Request] = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            found.append((self.command, {name.lower(): value for name, value in self.headers.items()}))
            self.send_response(404 if location is None else 307)
            if location is not None:
                self.send_header("Location", location + self.path)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer  # noqa: N815

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer((address, 0), Handler) as running:
        Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://{address}:{running.server_port}", found
        running.shutdown()


@pytest.fixture
def other() -> Iterator[tuple[str, list[Request]]]:
    with server("127.0.0.2", None) as found:
        yield found


@pytest.fixture
def endpoint(other: tuple[str, list[Request]]) -> Iterator[str]:
    with server("127.0.0.1", other[0]) as (url, _):
        yield url


@pytest.mark.parametrize("kind", ["s3", "azure"])
def test_no_signature_goes_to_another_host(other: tuple[str, list[Request]], endpoint: str, kind: str) -> None:
    options = {**S3, "endpoint": endpoint} if kind == "s3" else {"account_name": "acct", "account_key": KEY, "endpoint": endpoint}
    store = open_store("s3://bucket/t" if kind == "s3" else "az://bucket/t", options)
    worker = DataStore(kind, "bucket/t", options)
    for call in (
        lambda: store.info("a"),
        lambda: worker.open("a"),
        lambda: worker.create("a").close(),
        lambda: store.delete("a"),
    ):
        with contextlib.suppress(StorageError, OSError, pa.ArrowException):
            call()
    assert other[1]
    assert not [headers for _, headers in other[1] if "authorization" in headers or "SECRET" in str(headers)]


def test_a_commit_is_not_redirected(other: tuple[str, list[Request]], endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltamerge.storage.object_store._proven", {(endpoint, "bucket")})
    store = open_store("s3://bucket/t", {**S3, "endpoint": endpoint})
    with pytest.raises(StorageError) as caught:
        store.put_if_absent("log/1", b"mine")
    assert caught.value.condition == "DELTAMERGE_STORAGE_REFUSED"
    assert [method for method, _ in other[1]] == ["GET"]
