"""The program as a process of its own: what needs no Spark is there at once and starts no Java, and the Tab key completes."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.log.building import add, create

START = [sys.executable, "-c", "import sys; sys.argv[0] = 'deltamerge'; from deltamerge_command import main; main()"]


def ran(*arguments: str, **variables: str) -> tuple[str, float]:
    """What the program prints that ends well, and the seconds that a core took for it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([*START, *arguments], env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


@pytest.mark.parametrize(
    ("command", "said"),
    [(["history"], "version"), (["detail"], "id"), (["vacuum", "--dry-run"], "would delete"), ([], "PySpark")],
)
def test_what_needs_no_spark_starts_in_two_seconds(tmp_path: Path, command: list[str], said: str) -> None:
    """Seconds of a core: the time on the clock depends on what else runs on the machine."""
    create(tmp_path, add("a"))
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    java.chmod(0o755)
    asked = [*command, str(tmp_path)] if command else ["--version"]
    took = []
    for _ in range(3):
        printed, seconds = ran(*asked, PATH=f"{java.parent}:{os.environ['PATH']}", JAVA_HOME=str(tmp_path))
        assert said in printed
        took.append(seconds)
        if seconds < 2:
            break
    assert min(took) < 2, took
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize(
    ("words", "expected"),
    [("deltamerge hi", {"history"}), ("deltamerge merge --delete-by-source", {"--delete-by-source", "--delete-by-source-when"})],
)
def test_a_shell_is_told_how_words_go_on(words: str, expected: set[str]) -> None:
    number = str(len(words.split()) - 1)
    printed, _ = ran(_DELTAMERGE_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=number)
    assert set(printed.split()) == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shells_that_the_guide_names_have_a_script(shell: str) -> None:
    assert "deltamerge" in ran(_DELTAMERGE_COMPLETE=f"source_{shell}")[0]
