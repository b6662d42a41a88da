"""Servers of objects on loopback that count requests, and fail some of them as stores and networks do; one of them speaks S3."""

from __future__ import annotations

import io
import logging
import socket
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs

import boto3
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.s3.models import s3_backends
from werkzeug.serving import WSGIRequestHandler, make_server

KEY_ID, SECRET, TOKEN = "AKIALOOPBACKTEST", "s3cr3t/of+the=tests", "t0ken/of+the=tests"

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
Fault = Callable[[Application, dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class Front:
    """What stands before a store: an application that answers requests, unless a fault does.

    `options` are those that open the store, as object stores' clients name them. `requests` counts by kind: LIST, HEAD, GET, PUT,
    CREATE (a conditional put), DELETE, POST. `created` and `taken` are the statuses of a conditional put.
    """

    created, taken = "200", "412"

    def __init__(self, app: Application) -> None:
        self._app = app
        self._lock = threading.Lock()
        self._server = make_server("127.0.0.1", 0, self._serve, threaded=True, request_handler=_Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self.requests: Counter[str] = Counter()
        self.headers: list[dict[str, str]] = []
        self.faults: list[Fault] = []  # of conditional puts
        self.faults_of: defaultdict[str, list[Fault]] = defaultdict(list)  # of other kinds of requests
        self.honours_conditions = True
        self.options: dict[str, str] = {}

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    @contextmanager
    def counting(self) -> Iterator[Counter[str]]:
        """The requests made within."""
        before = self.requests.copy()
        found: Counter[str] = Counter()
        yield found
        found.update(self.requests - before)

    def _serve(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        kind = _kind(environ)
        if "Boto3" not in environ.get("HTTP_USER_AGENT", ""):
            self.requests[kind] += 1
            self.headers.append({name: str(value) for name, value in environ.items() if name.startswith("HTTP_")})
        if faults := self.faults if kind == "CREATE" else self.faults_of[kind]:
            return faults.pop(0)(self._locked, environ, start_response)
        if not self.honours_conditions:
            environ.pop("HTTP_IF_NONE_MATCH", None)
        return self._locked(environ, start_response)

    def _locked(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        # The server's check of a condition and its write are two steps, which real stores make one.
        with self._lock:
            return list(self._app(environ, start_response))


class S3Server(Front):
    """Buckets in memory; whoever has a key may do anything."""

    def __init__(self) -> None:
        super().__init__(DomainDispatcherApplication(create_backend_app))
        self.options = {
            "aws_access_key_id": KEY_ID,
            "aws_secret_access_key": SECRET,
            "aws_session_token": TOKEN,
            "aws_endpoint": self.url,
            "aws_region": "us-east-1",
        }

    @property
    def client(self) -> Any:
        """A client of another make, to look at the buckets from outside."""
        return boto3.client(
            "s3", endpoint_url=self.url, aws_access_key_id="a", aws_secret_access_key="b", region_name="us-east-1"
        )

    @property
    def settings(self) -> dict[str, str]:
        """The same as Spark's settings."""
        return {
            "spark.hadoop.fs.s3a.access.key": KEY_ID,
            "spark.hadoop.fs.s3a.secret.key": SECRET,
            "spark.hadoop.fs.s3a.session.token": TOKEN,
            "spark.hadoop.fs.s3a.endpoint": self.url,
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
        }

    def keys(self, bucket: str, prefix: str = "") -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return [entry["Key"] for page in pages for entry in page.get("Contents", [])]

    def object(self, bucket: str, key: str) -> bytes:
        data: bytes = self.client.get_object(Bucket=bucket, Key=key)["Body"].read()
        return data

    def fill(self, bucket: str, keys: Iterable[str]) -> None:
        """Put empty objects, without the way over the network."""
        for key in keys:
            s3_backends["123456789012"]["aws"].put_object(bucket, key, b"")


def _kind(environ: dict[str, Any]) -> str:
    method = str(environ["REQUEST_METHOD"])
    query = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
    if method == "GET" and ("list-type" in query or query.get("comp") == ["list"]):
        return "LIST"
    if method == "PUT" and "HTTP_IF_NONE_MATCH" in environ:
        return "CREATE"
    if method == "POST" and ("delete" in query or query.get("comp") == ["batch"]):
        return "DELETE"
    return method


class _Handler(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, *args: object) -> None:
        """Say nothing."""


def served_but_answer_is(status: str) -> Fault:
    """The request is served, and its answer replaced."""

    def fault(app: Application, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        list(app(environ, lambda *args: None))
        return _answer(status, start_response)

    return fault


def answered(status: str, code: str = "Refused") -> Fault:
    """The request is not served."""

    def fault(app: Application, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        _body(environ)
        return _answer(status, start_response, code)

    return fault


def served_but_cut_off(app: Application, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """The request is served, and the connection breaks before the answer."""
    list(app(environ, lambda *args: None))
    return cut_off(app, environ, start_response)


def cut_within(app: Application, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """The request is served, and the connection breaks in the middle of the answer."""
    body = b"".join(app(environ, start_response))
    yield body[: len(body) // 2]
    environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)


def cut_off(app: Application, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """The connection breaks before the request is served."""
    environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
    return _answer("500 Internal Server Error", start_response)


class Late:
    """A fault: the connection breaks before a request is served, which `land` does later, as a network may."""

    def __init__(self) -> None:
        self._held: list[tuple[Application, dict[str, Any]]] = []

    def __call__(self, app: Application, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        data = _body(environ)
        self._held.append((app, {**environ, "wsgi.input": io.BytesIO(data), "CONTENT_LENGTH": str(len(data))}))
        return cut_off(app, environ, start_response)

    def land(self) -> list[str]:
        """Serve what is held back; the status of each answer."""
        found: list[str] = []
        for app, environ in self._held:
            list(app(environ, lambda status, *args: found.append(status)))
        self._held.clear()
        return found


def overtaken_by(data: bytes) -> Fault:
    """Another writer's object comes first, and the answer is lost."""

    def fault(app: Application, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        _body(environ)
        other = {**environ, "wsgi.input": io.BytesIO(data), "CONTENT_LENGTH": str(len(data))}
        list(app(other, lambda *args: None))
        return _answer("500 Internal Server Error", start_response)

    return fault


def _body(environ: dict[str, Any]) -> bytes:
    data: bytes = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    return data


def _answer(status: str, start_response: Callable[..., Any], code: str = "InternalError") -> Iterable[bytes]:
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>by test</Message></Error>".encode()
    start_response(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
    return [body]


logging.getLogger("werkzeug").setLevel(logging.ERROR)
