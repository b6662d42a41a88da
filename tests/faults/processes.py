"""Processes of their own for what a test can't do to itself: be killed, be limited, race others."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Self

from pyspark.sql import SparkSession

from tests.java import QUICK_JAVA, SMALL
from tests.older import install

ROOT = Path(__file__).resolve().parents[2]
READY = "ready"


def small_session(**settings: str) -> SparkSession:
    """A session that starts quickly and takes little memory; called in the process that a test starts."""
    install()
    builder = SparkSession.builder.master(os.environ.get("TEST_MASTER", "local[1]"))
    defaults = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": QUICK_JAVA,
        **SMALL,
    }
    for key, value in {**defaults, **settings}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


class Child:
    """A Python module run as a process, in a process group of its own; it is told and tells lines of text."""

    def __init__(self, module: str, *arguments: object, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        given = {
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(folder / "spark"),
            "PYTHONUNBUFFERED": "1",
        }
        self._log = folder / f"{module.rpartition('.')[2]}-{len(list(folder.iterdir()))}.log"
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *map(str, arguments)],
                cwd=ROOT,
                env={**given, **(environment or {})},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    @property
    def _output(self) -> IO[str]:
        assert self._process.stdout is not None
        return self._process.stdout

    def hear(self) -> str:
        """The next line that the process says. Fails with what it logged when it ended instead."""
        line = self._output.readline()
        assert line, self._log.read_text(errors="replace")[-3000:]
        return line.strip()

    def tell(self, line: str) -> None:
        """Give the process a line to read."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def rest(self) -> list[str]:
        """What the process still says until it ends, or has said before it was killed."""
        return self._output.read().splitlines()

    def interrupt(self) -> None:
        """What Ctrl-C does to the interpreter."""
        self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """End the whole group at once: the interpreter and the JVM that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
