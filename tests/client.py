"""Runs tests by the Python that is given, which has `pyspark-client` alone, on a Connect server of this Python's PySpark."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.install.test_install import connect_server

if __name__ == "__main__":
    python, *tests = sys.argv[1:]
    with connect_server() as variables:
        command = [python, "-m", "pytest", "--connect", *tests]
        sys.exit(
            subprocess.run(command, env={**os.environ, **variables, "PYSPARK_PYTHON": sys.executable}, check=False).returncode
        )
