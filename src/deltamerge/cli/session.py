"""Spark sessions for the command line: a quiet local one, one of a Connect server, and what stands in where none is needed."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from rich.console import Console

from deltamerge.errors import DeltaMergeError
from deltamerge.spark.pyspark.older import IS_OLDER

_JAVAS = "8, 11 or 17" if IS_OLDER else "17 or 21"
_JAVA_HINT = f"Install Java {_JAVAS} (for example Eclipse Temurin) and put it on PATH or set JAVA_HOME."
_NOISE = ("Picked up ", "WARNING: ", "Using Spark's default log4j", "\t", "Setting default log level")  # of Java's first words
_MOST_SAID = 10_000
_PORT = 15002  # of a Connect server whose address has none
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
    "spark.driver.memory": "2g",
}


class NoSpark:
    """What commands that need no Spark ask a session for: its settings and its version."""

    version = pyspark.__version__

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        self.conf = _Settings(settings or {})


class _Settings:
    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def get(self, key: str, default: str | None = None) -> str | None:
        return self._values.get(key, default)

    @property
    def getAll(self) -> Mapping[str, str]:
        return self._values


def find_java() -> str:
    """The `java` program that Spark will start. Raises DeltaMergeError when there is none or it is too old."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None or not Path(java).exists():
        where = f"at {java}, where JAVA_HOME says that it is" if home else "on PATH, and JAVA_HOME is not set"
        raise DeltaMergeError("DELTAMERGE_NO_JAVA", f"Spark needs Java. There is none {where}.", hint=_JAVA_HINT)
    printed = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603 - the path is JAVA_HOME's or PATH's
    major = printed.partition('version "')[2].partition(".")[0].partition('"')[0]
    oldest = 1 if IS_OLDER else 17  # Java 8 calls itself 1.8
    if not major.isdigit() or int(major) < oldest:
        found = printed.splitlines()[0] if printed else "an unknown version"
        raise DeltaMergeError("DELTAMERGE_OLD_JAVA", f"Spark needs Java {_JAVAS}, this is {found}.", hint=_JAVA_HINT)
    return java


@contextlib.contextmanager
def session(remote: str | None = None, conf: Mapping[str, str] | None = None) -> Iterator[Any]:
    """A session for the time of a command, stopped afterwards: of the Connect server `remote`, else a local one."""
    with local_session("deltamerge", conf, says_so=True) if remote is None else _remote_session(remote, conf or {}) as spark:
        yield spark


@contextlib.contextmanager
def local_session(name: str, conf: Mapping[str, str] | None = None, says_so: bool = False) -> Iterator[Any]:
    """A local session for the time of a command, stopped afterwards; a terminal `says_so` while it starts."""
    find_java()
    os.environ.pop("SPARK_REMOTE", None)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[*]").appName(name)
    for key, value in {**_SETTINGS, **(conf or {})}.items():
        builder = builder.config(key, value)
    with _quiet_start(says_so):
        spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


@contextlib.contextmanager
def _remote_session(remote: str, conf: Mapping[str, str]) -> Iterator[Any]:
    """A session of its own on a Connect server."""
    try:
        _reach(remote)  # PySpark asks a server that is not there for minutes
        from pyspark.sql.connect.session import SparkSession as ConnectSession

        spark = ConnectSession.builder.remote(remote).create()
        spark.version  # noqa: B018 - the first request
    except Exception as error:
        message = str(error).strip().splitlines()
        raise DeltaMergeError(
            "DELTAMERGE_NO_SERVER",
            f"There is no Spark Connect session at {remote}: {message[0] if message else type(error).__name__}",
            parameters={"remote": remote},
            hint="Check the address sc://host:port; a whole PySpark needs the extra connect: pip install 'deltamerge[connect]'.",
        ) from error
    try:
        for key, value in conf.items():
            spark.conf.set(key, value)
        yield spark
    finally:
        with contextlib.suppress(Exception):
            spark.stop()


def _reach(remote: str) -> None:
    """Raises OSError if nothing answers at the address of a Connect server, ValueError for a text that has none."""
    place = urlsplit(remote)
    if place.scheme != "sc" or not place.hostname:
        raise ValueError("the address is sc://host:port")
    socket.create_connection((place.hostname, place.port or _PORT), timeout=10).close()


@contextlib.contextmanager
def _quiet_start(says_so: bool) -> Iterator[None]:
    """Spark's launcher and its Java write before any log setting holds: keep that off the screen, and out of results.

    Raises DeltaMergeError with what Java said where it does not start.
    """
    sys.stdout.flush()
    saved = {number: os.dup(number) for number in (1, 2)}
    with tempfile.TemporaryFile() as said, open(saved[2], "w", closefd=False) as screen:
        for number in saved:
            os.dup2(said.fileno(), number)
        try:
            terminal = Console(file=screen)
            with terminal.status("starting Spark") if says_so and terminal.is_terminal else contextlib.nullcontext():
                yield
        except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
            if not error.filename:
                raise
            raise _not_started(f"{error.strerror}: {error.filename}") from error  # where SPARK_HOME says that Spark is
        except PySparkException as error:
            if not str(error).startswith("[JAVA_GATEWAY_EXITED]"):
                raise
            said.seek(0)
            raise _not_started(said.read(_MOST_SAID).decode(errors="replace")) from error
        finally:
            for number, was in saved.items():
                os.dup2(was, number)
                os.close(was)


def _not_started(said: str) -> DeltaMergeError:
    """What keeps Java from starting, in its first words about it."""
    lines = [line.strip() for line in said.splitlines() if not line.startswith(_NOISE)]
    why = "; ".join([line for line in lines if line][:2]) or "it says nothing about why"
    return DeltaMergeError(
        "DELTAMERGE_SPARK_NOT_STARTED",
        f"Spark's Java did not start: {why}",
        hint="Check --conf, and in the environment JAVA_HOME, JAVA_TOOL_OPTIONS, SPARK_HOME and PYSPARK_SUBMIT_ARGS.",
    )
