"""An S3 server on loopback, with a bucket for each test."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.stores.server import S3Server


@pytest.fixture(scope="session")
def running() -> Iterator[S3Server]:
    from tests.stores.server import S3Server  # only where it is needed: it takes a second

    server = S3Server()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def server(running: S3Server) -> Iterator[S3Server]:
    """The server without what a test before may have left behind."""
    yield running
    running.faults.clear()
    running.honours_conditions = True


@pytest.fixture
def bucket(server: S3Server) -> str:
    """A bucket of the test's own."""
    name = f"bucket-{uuid.uuid4()}"
    server.client.create_bucket(Bucket=name)
    return name
