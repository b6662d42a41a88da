"""Workers with an interpreter that can't do the work: the error says which, and which setting names another."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.e2e.refusals import files_below
from tests.faults.processes import Child


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_deltalake(tmp_path / "t", pa.table({"id": [1, 2], "name": ["a", "b"]}))
    return tmp_path / "t"


def test_another_minor_version_is_named_with_the_setting(path: Path, tmp_path: Path) -> None:
    other = another_minor_version()
    if other is None:
        pytest.skip("no Python of another minor version on PATH or in a pyenv root")
    found = failed_merge(path, tmp_path, other)
    assert "[PYTHON_VERSION_MISMATCH]" in found["text"]
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in found["text"]
    assert "PYSPARK_PYTHON" in found["text"].partition("Hint:")[2]


def test_an_interpreter_without_pyarrow_leads_to_the_programs_own(path: Path, tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    bare.chmod(0o755)
    found = failed_merge(path, tmp_path, bare)
    assert "[DELTAMERGE_WORKER_WITHOUT_PYARROW]" in found["text"]
    hint = found["text"].partition("Hint:")[2]
    assert "activate the environment" in hint
    assert "PYSPARK_PYTHON" in hint


def failed_merge(path: Path, folder: Path, interpreter: Path) -> dict[str, str]:
    """How a merge by workers with this interpreter failed; the table is as it was."""
    before = files_below(path)
    environment = {"PYSPARK_PYTHON": str(interpreter), "PYSPARK_DRIVER_PYTHON": sys.executable}
    with Child("tests.faults.misfit", path, folder=folder / "child", environment=environment) as child:
        found: dict[str, str] = json.loads(child.hear())
    assert "SparkRuntimeException" in found["classes"]
    assert "Traceback" not in found["text"]
    assert files_below(path) == before
    return found


def another_minor_version() -> Path | None:
    """A Python 3 of another minor version that starts, from PATH or below a pyenv root."""
    minors = [minor for minor in range(9, 21) if minor != sys.version_info.minor]
    candidates = [found for minor in minors if (found := shutil.which(f"python3.{minor}"))]
    roots = {os.environ.get("PYENV_ROOT", ""), str(Path.home() / ".pyenv")} - {""}
    candidates += [str(found) for root in sorted(roots) for found in Path(root).glob("versions/3.*/bin/python3")]
    for candidate in candidates:
        code = "import sys; print(sys.version_info[:2], sys.executable)"
        started = subprocess.run([candidate, "-c", code], capture_output=True, text=True, check=False)
        version, _, executable = started.stdout.strip().rpartition(" ")
        if started.returncode == 0 and version != str(tuple(sys.version_info[:2])):
            return Path(executable)
    return None
