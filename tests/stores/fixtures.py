"""Servers of objects on loopback, with a bucket or container for each test."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

import pytest

if TYPE_CHECKING:
    from tests.stores.azurite import AzureFront
    from tests.stores.server import Front, S3Server


AnyFront = TypeVar("AnyFront", bound="Front")


def _served(front: AnyFront) -> Iterator[AnyFront]:
    front.start()
    yield front
    front.stop()


def _clean(front: AnyFront) -> Iterator[AnyFront]:
    yield front
    front.faults.clear()
    front.faults_of.clear()
    front.honours_conditions = True


@pytest.fixture(scope="session")
def running() -> Iterator[S3Server]:
    from tests.stores.server import S3Server  # only where it is needed: it takes a second

    yield from _served(S3Server())


@pytest.fixture
def server(running: S3Server) -> Iterator[S3Server]:
    """The server without what a test before may have left behind."""
    yield from _clean(running)


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


@pytest.fixture(scope="session")
def azure_running(emulator: dict[str, str]) -> Iterator[AzureFront]:
    from tests.stores.azurite import AzureFront

    yield from _served(AzureFront(emulator))


@pytest.fixture
def azure(azure_running: AzureFront) -> Iterator[AzureFront]:
    """A server before Azure's emulator, without what a test before may have left behind."""
    yield from _clean(azure_running)


@pytest.fixture
def container(emulator: dict[str, str]) -> str:
    """A container of the test's own in the emulator."""
    from tests.stores.azurite import create_container

    name = f"container-{uuid.uuid4()}"
    create_container(emulator, name)
    return name


@pytest.fixture(params=["s3", "azure"])
def front(request: pytest.FixtureRequest) -> Front:
    """A server of each make in turn."""
    found: Front = request.getfixturevalue("server" if request.param == "s3" else "azure")
    return found


@pytest.fixture
def front_place(request: pytest.FixtureRequest, front: Front) -> str:
    """The address of a table in a bucket or container of the test's own."""
    if hasattr(front, "client"):
        return f"s3a://{request.getfixturevalue('bucket')}/some/table"
    from tests.stores.azurite import ACCOUNT

    return f"abfss://{request.getfixturevalue('container')}@{ACCOUNT}.dfs.core.windows.net/some/table"
