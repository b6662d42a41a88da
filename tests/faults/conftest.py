"""What several fault tests need: a Spark Connect server that outlives its clients."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.faults.processes import READY, Child


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with Child("tests.faults.serving", port, folder=tmp_path_factory.mktemp("server")) as process:
        assert process.hear() == READY
        yield f"sc://127.0.0.1:{port}"
