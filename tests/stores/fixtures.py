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


@pytest.fixture(scope="session")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Options that open Azure's emulator; the test is skipped where there is none."""
    from tests.stores.azurite import COMMAND, azurite

    if COMMAND is None:
        pytest.skip("azurite-blob is not installed")
    with azurite(tmp_path_factory.mktemp("azurite")) as options:
        yield options


@pytest.fixture
def container(emulator: dict[str, str]) -> str:
    """A container of the test's own in the emulator."""
    from tests.stores.azurite import create_container

    name = f"container-{uuid.uuid4()}"
    create_container(emulator, name)
    return name
