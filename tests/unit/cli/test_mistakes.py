"""What a slip of the hand leads to: options given twice or empty, results that nobody can read, a Java that does not start."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import subprocess
from pathlib import Path

import pytest
from pyspark.errors import PySparkRuntimeError
from rich.console import Console
from typer.testing import CliRunner

import deltamerge_command
from deltamerge.cli import demo
from deltamerge.cli.flights import load_flights
from deltamerge.cli.main import app
from deltamerge.cli.render import error_text, rendered
from deltamerge.cli.session import _quiet_start
from deltamerge.display.views import Bar, Bars, Cell, Grid, Node, Page, Pairs, Tree
from deltamerge.errors import DeltaMergeError
from tests.unit.cli.test_commands import ended, shown
from tests.unit.cli.test_program import START
from tests.unit.log.building import add, commit, create, info


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--source", "{0}/b.parquet"], "--source: It is given twice"),
        (["--target", "{0}/other"], "--target: It is given twice"),
        (["--on", "t.id = s.id AND t.day = s.day"], "--on: It is given twice"),
        (["--update-when", "s.n > 1", "--update-when", "s.n > 2"], "--update-when: It is given twice"),
        (["--update-when", ""], "--update-when: Its value is empty"),
        (["--delete-when", " "], "--delete-when: Its value is empty"),
        (["--delete-by-source-when", ""], "--delete-by-source-when: Its value is empty"),
        (["--keep-latest", ""], "--keep-latest: Its value is empty"),
        (["--source-format", ""], "--source-format: Its value is empty"),
    ],
)
def test_what_a_merge_would_pass_over_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, options: list[str], named: str
) -> None:
    """The last of two sources would be the only one, and an update with an empty condition one of all rows."""
    monkeypatch.setattr("deltamerge.cli.merging.session", lambda *_: pytest.fail("Spark starts"))
    create(tmp_path / "t")
    for name in ("a.parquet", "b.parquet"):
        (tmp_path / name).touch()
    given = ["--source", f"{tmp_path}/a.parquet", "--target", f"{tmp_path}/t", "--on", "t.id = s.id", "--update-all"]
    code, text = ended(capsys, monkeypatch, "merge", *given, *(option.format(tmp_path) for option in options))
    assert (code, named in text) == (2, True), text


def test_an_empty_source_is_not_the_folder_that_one_is_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deltamerge.cli.merging.session", lambda *_: pytest.fail("Spark starts"))
    monkeypatch.chdir(tmp_path)
    create(tmp_path / "t")
    for command in ("merge", "preview"):
        code, text = ended(capsys, monkeypatch, command, "--source", "", "--target", "t", "--key", "id", "--update-all")
        assert (code, "--source: Its value is empty" in text) == (2, True)


@pytest.mark.parametrize(("width", "has_writer"), [("80", False), ("117", True)])
def test_a_commit_of_a_history_is_one_line_of_a_terminal(tmp_path: Path, width: str, has_writer: bool) -> None:
    create(tmp_path, add("a"))
    commit(tmp_path, 1, info(operation="CREATE TABLE", engineInfo="Apache-Spark/4.3.0 deltamerge/0.1.0"), add("b"))
    found = CliRunner().invoke(app, ["history", str(tmp_path), "--limit", "1"], env={"COLUMNS": width}).output.splitlines()
    assert len(found) == len(["title", "frame", "heads", "frame", "commit", "frame", "there are older ones"])
    assert ("deltamerge/0.1.0" in found[4]) is has_writer


def test_options_that_can_be_repeated_and_flags_are_as_before(tmp_path: Path) -> None:
    create(tmp_path, add("a"))
    assert json.loads(shown("detail", str(tmp_path), "--json", "--json", "--storage-option", "a=1", "--storage-option", "b=2"))
    assert "Usage" in shown("merge", "--source", "a", "--source", "b", "--help")


@pytest.mark.parametrize(
    ("command", "named"),
    [
        (["read", "--version", "0", "--timestamp", "2026-01-01"], "--version / --timestamp"),
        (["vacuum", "--retain", "nan"], "--retain: It is no number of hours"),
        (["vacuum", "--retain", "inf"], "--retain: It is no number of hours"),
    ],
)
def test_values_that_can_not_be_are_refused_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: list[str], named: str
) -> None:
    monkeypatch.setattr("deltamerge.cli.merging.session", lambda *_: pytest.fail("Spark starts"))
    create(tmp_path)
    code, text = ended(capsys, monkeypatch, command[0], str(tmp_path), *command[1:])
    assert (code, named in text) == (2, True), text


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_result_that_nobody_reads_is_no_failure_of_the_command(tmp_path: Path, options: list[str]) -> None:
    """A script must not run a merge again that is committed: 1 would say that it is not."""
    create(tmp_path, add("a"))
    command = [*START, "restore", str(tmp_path), "--version", "0", *options]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (5, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_result_that_can_not_be_written_is_told(tmp_path: Path, options: list[str]) -> None:
    create(tmp_path, add("a"))
    with open("/dev/full", "w") as full:
        command = [*START, "detail", str(tmp_path), *options]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 5
    assert done.stderr.startswith("DELTAMERGE_NOT_SHOWN: The command is done, but its result can't be written: No space left")
    assert done.stderr.count("\n") == 2


def test_ctrl_c_before_the_command_line_is_there(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Imports take most of a second, in which a hand that has slipped is quick."""

    def stopped(name: str) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(importlib, "import_module", stopped)
    with pytest.raises(SystemExit) as caught:
        deltamerge_command.main()
    assert (caught.value.code, capsys.readouterr().err) == (130, "Stopped.\n")


def test_what_java_says_while_spark_starts_is_on_no_screen_and_in_no_result(capfd: pytest.CaptureFixture[str]) -> None:
    with _quiet_start(says_so=False):
        subprocess.run(["sh", "-c", "echo a warning of Java; echo and another >&2"], check=True)
    subprocess.run(["sh", "-c", "echo a result"], check=True)
    assert capfd.readouterr() == ("a result\n", "")


def test_a_java_that_does_not_start_is_heard(capfd: pytest.CaptureFixture[str]) -> None:
    said = "Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nInvalid maximum heap size: -Xmx8x\nError: Could not create it.\n"

    def started() -> None:
        with _quiet_start(says_so=False):
            os.write(2, said.encode())
            raise PySparkRuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited.")

    with pytest.raises(
        DeltaMergeError, match=r"DELTAMERGE_SPARK_NOT_STARTED\] Spark.s Java did not start: Invalid maximum heap size"
    ):
        started()
    assert capfd.readouterr() == ("", "")


def test_a_spark_home_without_spark_is_named(tmp_path: Path) -> None:
    environment = {**os.environ, "SPARK_HOME": str(tmp_path)}
    done = subprocess.run([*START, "sql", "SELECT 1"], env=environment, capture_output=True, text=True, check=False)
    first, *rest = done.stderr.splitlines()
    assert first.startswith(f"DELTAMERGE_SPARK_NOT_STARTED: Spark's Java did not start: No such file or directory: {tmp_path}")
    assert (done.returncode, done.stdout, len(rest), "SPARK_HOME" in rest[0]) == (1, "", 1, True)


def test_other_errors_of_a_start_are_not_about_spark_home() -> None:
    with pytest.raises(ConnectionRefusedError), _quiet_start(says_so=False):
        raise ConnectionRefusedError(111, "Connection refused")


@pytest.mark.parametrize("reader", ["deltalake", "duckdb"])
def test_the_demo_s_missing_reader_is_told_at_its_start(reader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == reader else found(name))
    with pytest.raises(DeltaMergeError, match=rf"DELTAMERGE_NO_DEMO_DATA\] {reader}, by which .*(?s:.*)deltamerge\[demo\]"):
        load_flights()


def test_a_history_that_is_cut_says_so(tmp_path: Path) -> None:
    create(tmp_path)
    for version in range(1, 23):
        commit(tmp_path, version, info(operation="MERGE"), add(str(version)))
    assert "There are older commits: --limit 40 shows more." in shown("history", str(tmp_path))
    assert "older" not in shown("history", str(tmp_path), "--limit", "23")
    assert "--limit 20 shows more" in shown("history", str(tmp_path), "--limit", "0")
    assert len(json.loads(shown("history", str(tmp_path), "--json"))) == 20


def test_names_and_errors_do_not_steer_a_terminal() -> None:
    """A table's columns and properties are named by whoever made it."""
    bad = "\x1b[2J\u202e"
    page = Page(
        bad,
        bad,
        (
            Grid(bad, (bad,), ((Cell(bad),),), note=bad),
            Pairs(bad, ((bad, bad),)),
            Bars(bad, ("n",), (Bar(bad, 1.0, (bad,)),)),
            Tree(bad, (Node(bad, bad, (Node(bad, chosen=False),)),)),
        ),
    )
    printed = io.StringIO()
    screen = Console(file=printed, width=200)
    screen.print(rendered(page))
    screen.print(error_text(DeltaMergeError("A_NAME", f"No column {bad}.\n== SQL ==", hint=bad)))
    assert "\x1b" not in printed.getvalue()
    assert "\u202e" not in printed.getvalue()
    assert "\n== SQL ==\n" in printed.getvalue()


@pytest.mark.parametrize(
    ("detail", "said"),
    [
        ('No FileSystem for scheme "s3"', "spark.jars.packages"),
        ("java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found", "spark.jars.packages"),
        ("Unable to infer schema for Parquet. It must be specified manually.", "In --source there is no file"),
    ],
)
def test_a_source_that_spark_can_not_read_is_told(detail: str, said: str) -> None:
    assert said in error_text(DeltaMergeError("DELTAMERGE_JOB_FAILED", detail)).plain


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES", "deltamerge sql 'CREATE TABLE delta.`/data/t`"),
        ("DELTA_EMPTY_DIRECTORY", "`deltamerge merge --create`"),
    ],
)
def test_hints_are_about_the_command_that_failed(condition: str, said: str) -> None:
    assert said in error_text(DeltaMergeError(condition, "It is wrong.", hint="CREATE TABLE, or DeltaTable.create.")).plain


def test_the_demo_s_missing_data_is_told_before_spark_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise DeltaMergeError("DELTAMERGE_NO_DEMO_DATA", "Not installed.")

    monkeypatch.setattr(demo, "load_flights", missing)
    monkeypatch.setattr(demo, "_session", lambda: contextlib.nullcontext(pytest.fail("Spark starts")))
    found = CliRunner().invoke(app, ["demo", str(tmp_path)])
    assert "DELTAMERGE_NO_DEMO_DATA" in str(found.exception)
