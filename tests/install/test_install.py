"""The wheel in environments that have nothing else: what it declares is enough for README.md's blocks."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path

import pytest

from deltamerge.spark.pyspark.older import IS_OLDER
from tests.docs.examples import commands_of

ROOT = Path(__file__).parents[2]
# Extras of the wheel, and the PySpark beside it.
CLASSIC = {"4.3": ("[pyspark]", "pyspark==4.3.0")}
CONNECT = {"4.0": ("", "pyspark-client==4.0.4")}
if IS_OLDER:
    CLASSIC, CONNECT = {"3.5": ("[pyspark]", "pyspark==3.5.9")}, {}
elif "DELTAMERGE_TEST_ALL" in os.environ:
    CLASSIC["4.0"] = ("[pyspark]", "pyspark==4.0.5")
    CONNECT["4.3"] = ("[connect]", "pyspark==4.3.0")


def pip(python: Path | str, *arguments: str) -> None:
    """Let this environment's pip work for another one, whose own pip need not be made."""
    subprocess.run([sys.executable, "-m", "pip", "--quiet", "--python", str(python), *arguments], cwd=ROOT, check=True)


def ran(*command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """What a command did that finds nothing of this environment or of the repository."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYSPARK", "SPARK"))}
    environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": str(command[0]), **variables}
    return subprocess.run(list(map(str, command)), env=environment, cwd="/", capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip(sys.executable, "wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT))
    (found,) = folder.glob("deltamerge-*.whl")
    return found


def installed(wheel: Path, folder: Path, extras: str, pyspark: str) -> Path:
    """The Python of an environment that has the wheel and a PySpark."""
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    pip(python, "install", "--no-compile", "-c", "constraints.txt", f"{wheel}{extras}", pyspark)
    return python


@contextmanager
def connect_server() -> Iterator[dict[str, str]]:
    """A Spark Connect server of this environment's PySpark, as the variables by which a client finds it."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [sys.executable, "-m", "tests.install.server", port]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            assert server.stdout.readline() == "ready\n"
            yield {"SPARK_REMOTE": f"sc://127.0.0.1:{port}"}
        finally:
            server.stdin.close()


@pytest.mark.parametrize("version", CLASSIC)
def test_classic(wheel: Path, tmp_path: Path, version: str) -> None:
    python = installed(wheel, tmp_path / "env", *CLASSIC[version])
    done = ran(python, ROOT / "tests" / "install" / "readme.py", tmp_path)
    assert done.returncode == 0, done.stderr
    command = ran(python.with_name("deltamerge"), "--version")
    assert command.returncode == 1
    assert "typer, which is not installed.\nHint: pip install 'deltamerge[cli]'" in command.stderr
    assert "Traceback" not in command.stderr
    pip(python, "install", "--no-compile", "-c", "constraints.txt", f"{wheel}[cli]")
    merges_a_file(python, tmp_path)


def merges_a_file(python: Path, folder: Path) -> None:
    """The commands of README.md do what they say with a file of one's own; an error is all that is on the screen."""
    rows = "import sys, pyarrow as p, pyarrow.parquet as q; q.write_table(p.table({'id': [1, 2]}), sys.argv[1])"
    assert ran(python, "-c", rows, folder / "customers.parquet").returncode == 0
    program = python.with_name("deltamerge")
    script = "\n".join(command for command, _ in commands_of((ROOT / "README.md").read_text(encoding="utf-8")))
    wrong = f"{program} sql 'SELECT nothing FROM delta.`customers`'"
    done = ran(
        "sh", "-c", f"cd {folder} && set -e\n{script.replace('deltamerge ', f'{program} ')}\n{wrong}", PYSPARK_PYTHON=str(python)
    )
    assert done.returncode == 1
    assert done.stderr.startswith("UNRESOLVED_COLUMN.WITH_SUGGESTION: "), done.stderr
    assert len(done.stderr.splitlines()) == 1
    for part in ("committed version 1: 2 inserted", "Preview of version 1: 2 updated", "│ CREATE TABLE │"):
        assert part in done.stdout


@pytest.mark.parametrize("version", CONNECT)
def test_connect(wheel: Path, tmp_path: Path, version: str) -> None:
    """`pyspark-client` has no Java and needs a server; a whole PySpark starts one itself."""
    extras, pyspark = CONNECT[version]
    python = installed(wheel, tmp_path / "env", extras, pyspark)
    own = nullcontext({"SPARK_REMOTE": "local[2]"})
    with connect_server() if "client" in pyspark else own as variables:
        done = ran(python, ROOT / "tests" / "install" / "readme.py", tmp_path, **variables)
        assert done.returncode == 0, done.stderr
        if "client" in pyspark:
            pip(python, "install", "--no-compile", "-c", "constraints.txt", f"{wheel}[cli]")
            merges_on_a_server(python, tmp_path, variables["SPARK_REMOTE"])


def merges_on_a_server(python: Path, folder: Path, remote: str) -> None:
    """The command line needs no Spark but that of the server."""
    rows = "import sys, pyarrow as p, pyarrow.parquet as q; q.write_table(p.table({'id': [1, 2]}), sys.argv[1])"
    assert ran(python, "-c", rows, folder / "rows.parquet").returncode == 0
    program, target = python.with_name("deltamerge"), folder / "on a server"
    merged = ("merge", "--source", folder / "rows.parquet", "--target", target, "--key", "id", "--update-all", "--insert-all")
    done = ran(program, *merged, "--create", "--remote", remote)
    assert "committed version 1: 2 inserted" in done.stdout, done.stderr
    assert "2 updated" in ran(program, *merged, "--preview", "--remote", remote).stdout
    wrong = ran(program, "sql", f"SELECT nothing FROM delta.`{target}`", SPARK_REMOTE=remote)
    assert (wrong.returncode, wrong.stderr.count("\n")) == (1, 1), wrong.stderr
    assert wrong.stderr.startswith("UNRESOLVED_COLUMN.WITH_SUGGESTION: ")
