"""Azure's emulator on loopback, when this machine has it (`make azure`), and a server before it that fails some requests."""

from __future__ import annotations

import base64
import hmac
import http.client
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pyarrow.fs as pf

from tests.stores.server import Front

ACCOUNT = "devstoreaccount1"
# The emulator's one account and key are the same everywhere, and no secret.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_OWN = Path(__file__).parents[2] / ".venv" / "azurite" / "node_modules" / ".bin"
COMMAND = shutil.which("azurite-blob") or shutil.which("azurite-blob", path=str(_OWN))
# Headers that are about one connection.
_OF_CONNECTIONS = frozenset({"connection", "keep-alive", "transfer-encoding"})


@contextmanager
def azurite(folder: Path) -> Iterator[dict[str, str]]:
    """The emulator for a while; the options that open its account."""
    assert COMMAND is not None
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [COMMAND, "--blobPort", port, "--inMemoryPersistence", "--silent", "--disableTelemetry", "--skipApiVersionCheck"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=folder) as process:
        try:
            _wait_for(int(port))
            yield {
                "azure_storage_account_name": ACCOUNT,
                "azure_storage_account_key": KEY,
                "azure_storage_endpoint": f"http://127.0.0.1:{port}/{ACCOUNT}",
            }
        finally:
            process.terminate()


class AzureFront(Front):
    """A server before the emulator that `options` open; `options` of its own lead to it."""

    created, taken = "201", "409"

    def __init__(self, options: dict[str, str]) -> None:
        emulator = urlsplit(options["azure_storage_endpoint"])
        super().__init__(partial(_forwarded, emulator.netloc))
        self.options = {**options, "azure_storage_endpoint": f"{self.url}{emulator.path}"}


def _forwarded(host: str, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """The answer of the server at `host` to a request."""
    names = {"CONTENT_TYPE", "CONTENT_LENGTH", *(name for name in environ if name.startswith("HTTP_"))} & environ.keys()
    headers = {name.removeprefix("HTTP_").replace("_", "-").lower(): str(environ[name]) for name in names}
    data = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    method, address = environ["REQUEST_METHOD"], environ["REQUEST_URI"]
    if method == "PUT":  # a signature that fits any content, also that of another writer
        headers.pop("authorization", None)
        address += f"{'&' if '?' in address else '?'}{account_sas()}"
    connection = http.client.HTTPConnection(host, timeout=60)
    try:
        connection.request(method, address, data, {**headers, "host": host})
        answer = connection.getresponse()
        kept = [(name, value) for name, value in answer.getheaders() if name.lower() not in _OF_CONNECTIONS]
        body = answer.read()
    finally:
        connection.close()
    length = [] if any(name.lower() == "content-length" for name, _ in kept) else [("Content-Length", str(len(body)))]
    start_response(f"{answer.status} {answer.reason}", kept + length)
    return [body]


def create_container(options: dict[str, str], name: str) -> None:
    """Make a container, by a client of another make."""
    authority = options["azure_storage_endpoint"].split("/")[2]
    system = pf.AzureFileSystem(
        ACCOUNT,
        account_key=KEY,
        blob_storage_authority=authority,
        blob_storage_scheme="http",
        dfs_storage_authority=authority,
        dfs_storage_scheme="http",
    )
    system.create_dir(name)


def account_sas() -> str:
    """A shared access signature that allows everything in the account.

    Source: Microsoft's "Create an account SAS", version 2018-11-09.
    """
    fields = {"sv": "2018-11-09", "ss": "b", "srt": "sco", "sp": "rwdlac", "se": "2099-01-01T00:00:00Z", "spr": "https,http"}
    signed = [ACCOUNT, fields["sp"], fields["ss"], fields["srt"], "", fields["se"], "", fields["spr"], fields["sv"], ""]
    digest = hmac.new(base64.b64decode(KEY), "\n".join(signed).encode(), "sha256").digest()
    return urlencode({**fields, "sig": base64.b64encode(digest).decode()})


def _wait_for(port: int) -> None:
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise TimeoutError("azurite does not answer")
