"""A Spark session for the command line: quiet, local, with the workers on this interpreter."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from deltamerge.errors import DeltaMergeError

_JAVA_HINT = "Install Java 17 or 21 (for example Eclipse Temurin) and put it on PATH or set JAVA_HOME."


def find_java() -> str:
    """The `java` program that Spark will start. Raises DeltaMergeError when there is none or it is too old."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None or not Path(java).exists():
        raise DeltaMergeError("DELTAMERGE_NO_JAVA", "Spark needs Java, and there is none here.", hint=_JAVA_HINT)
    printed = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603 - the path is JAVA_HOME's or PATH's
    major = printed.partition('version "')[2].partition(".")[0].partition('"')[0]
    if not major.isdigit() or int(major) < 17:
        found = printed.splitlines()[0] if printed else "an unknown version"
        raise DeltaMergeError("DELTAMERGE_OLD_JAVA", f"Spark needs Java 17 or newer, this is {found}.", hint=_JAVA_HINT)
    return java


@contextlib.contextmanager
def local_session(name: str) -> Iterator[SparkSession]:
    """A local session for the time of a command, stopped afterwards."""
    find_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[*]").appName(name)
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": "8",
        "spark.driver.memory": "2g",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    with _quiet_start():
        spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


@contextlib.contextmanager
def _quiet_start() -> Iterator[None]:
    """Spark's launcher writes to standard error before any log setting holds; keep that off the screen."""
    saved = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(saved, 2)
            os.close(saved)
