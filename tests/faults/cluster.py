"""A standalone cluster of Spark's own daemons, each a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pyspark


@contextmanager
def cluster(folder: Path, hosts: Sequence[str]) -> Iterator[str]:
    """The master's URL of a cluster with a worker of one core for each of some addresses of this machine."""
    home = spark_home(folder)
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        url = f"spark://127.0.0.1:{free.getsockname()[1]}"
    with ExitStack() as stack:
        _started(stack, folder, home, "master.Master", "--host", "127.0.0.1", "--port", url.rpartition(":")[2])
        for host in hosts:
            _started(stack, folder, home, "worker.Worker", "--host", host, "--cores", "1", "--memory", "1g", url)
        yield url


def spark_home(folder: Path) -> Path:
    """PySpark's own Spark, in a folder where the cluster's workers may leave their files."""
    home = folder / "spark"
    home.mkdir(exist_ok=True)
    for entry in Path(pyspark.__file__).parent.iterdir():
        if not (home / entry.name).is_symlink():
            (home / entry.name).symlink_to(entry)
    return home


def _started(stack: ExitStack, folder: Path, home: Path, name: str, *arguments: str) -> None:
    """Run one of Spark's daemons up to the end of the stack. Workers try until the master is there."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYSPARK", "SPARK"))}
    kept |= {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_WORKER_DIR": str(folder / "work")}
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", "--webui-port", "0"]
    log = stack.enter_context((folder / "daemons.log").open("ab"))
    daemon = stack.enter_context(subprocess.Popen([*command, *arguments], env=kept, stdout=log, stderr=log, cwd=folder))
    stack.callback(daemon.kill)
