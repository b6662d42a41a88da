"""Azure's emulator on loopback, when this machine has it (`npm install --global azurite`)."""

from __future__ import annotations

import base64
import hmac
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import pyarrow.fs as pf

ACCOUNT = "devstoreaccount1"
# The emulator's one account and key are the same everywhere, and no secret.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
COMMAND = shutil.which("azurite-blob")


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
