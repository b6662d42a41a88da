"""A store that sends a request on to another host: what that host gets of the credentials, and that nothing is written there."""

from __future__ import annotations

import base64
import http.server
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import obstore
import pytest
from obstore.store import AzureStore, S3Store

Asked = list[tuple[str, str, dict[str, str]]]
_OPTIONS: dict[str, Any] = {"client_options": {"allow_http": True}, "retry_config": {"max_retries": 0}}


@contextmanager
def server(status: int, location: str | None = None) -> Iterator[tuple[int, Asked]]:
    """The port of a server of this process that answers each request alike, and the requests."""
    asked: Asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            asked.append((self.command, self.path, {name.lower(): value for name, value in self.headers.items()}))
            self.send_response(status)
            if location is not None:
                self.send_header("location", f"{location}/x")
            self.send_header("content-length", "0")
            self.end_headers()

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer  # noqa: N815

    found = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=found.serve_forever, daemon=True).start()
    try:
        yield found.server_port, asked
    finally:
        found.shutdown()
        found.server_close()


def s3(endpoint: str) -> S3Store:
    keys = {"access_key_id": "AKIASECRET", "secret_access_key": "SECRET"}
    return S3Store("bucket", endpoint=endpoint, region="us-east-1", **keys, **_OPTIONS)


def azure(endpoint: str) -> AzureStore:
    key = base64.b64encode(b"SECRET").decode()
    return AzureStore("container", account_name="account", account_key=key, endpoint=endpoint, **_OPTIONS)


def azure_by_token(endpoint: str) -> AzureStore:
    return AzureStore("container", account_name="account", token="SECRET", endpoint=endpoint, **_OPTIONS)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize("make", [s3, azure, azure_by_token])
def test_another_host_gets_no_signature_and_no_write(make: Callable[[str], Any], status: int) -> None:
    with server(404) as (other, there), server(status, f"http://localhost:{other}") as (port, here):
        store = make(f"http://127.0.0.1:{port}")
        for request in (
            lambda: store.get("x"),
            lambda: obstore.put(store, "x", b"1"),
            lambda: obstore.put(store, "x", b"1", mode="create"),
        ):
            with pytest.raises((OSError, obstore.exceptions.BaseError)):
                request()
    assert all("authorization" in headers for _, _, headers in here)
    assert here
    assert {method for method, _, _ in there} <= {"GET"}
    assert not any("authorization" in headers or "SECRET" in f"{path}{headers}" for _, path, headers in there)
