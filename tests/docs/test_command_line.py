"""The commands of README.md and of the page about the command line run as they stand there, on the tests' own session."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from deltamerge.cli import merging, upkeep
from deltamerge.cli.main import app, main
from tests.docs.examples import PLACE, commands_of, run_page, same_output

if TYPE_CHECKING:
    from tests.stores.server import S3Server

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "command-line.md"


@pytest.fixture
def shared(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands use the tests' session in place of one of their own."""

    @contextlib.contextmanager
    def session(*_: Any) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr(merging, "session", session)
    monkeypatch.setattr(upkeep, "session", session)
    monkeypatch.delenv("COLUMNS", raising=False)


def printed(command: str) -> str:
    """What a command prints that ends well."""
    split = subprocess.run(["sh", "-c", f"printf '%s\\0' {command}"], capture_output=True, text=True, check=True)
    words = split.stdout.split("\0")[:-1]
    found = CliRunner().invoke(app, words[1:])
    assert found.exit_code == 0, (command, found.output, found.exception)
    return found.stdout


def without_sizes(text: str) -> str:
    """A text in which each size of files is the same: a Parquet file names the version of its writer."""
    return re.sub(r"\d+ B", "N B", text)


@pytest.mark.usefixtures("shared")
def test_the_page(tmp_path: Path) -> None:
    for _ in run_page(PAGE, tmp_path):
        pass
    commands = [pair for pair in commands_of(PAGE.read_text(encoding="utf-8")) if "--install" not in pair[0]]
    assert len(commands) == 10
    for command, output in commands:
        found = printed(command.replace(f"{PLACE}/", f"{tmp_path}/"))
        assert output is None or same_output(without_sizes(output), without_sizes(found)), found


@pytest.mark.usefixtures("shared")
def test_a_table_in_a_store(spark: SparkSession, tmp_path: Path, server: S3Server, bucket: str) -> None:
    pq.write_table(pa.table({"id": [1, 2], "name": ["Ada", "Bob"]}), tmp_path / "customers.parquet")
    options = " ".join(f"--storage-option {name}={value}" for name, value in {**server.options, "aws_allow_http": "true"}.items())
    table = f"s3://{bucket}/customers"
    merge = (
        f"deltamerge merge --source {tmp_path}/customers.parquet --target {table} --key id --update-all --insert-all {options}"
    )
    assert "committed version 1: 2 inserted" in printed(f"{merge} --create")
    assert "2 updated" in printed(f"{merge} --preview")
    assert "MERGE" in printed(f"deltamerge history {table} {options}")
    assert "Bob" in printed(f"deltamerge read {table} {options}")
    assert "version" in printed(f"deltamerge detail {table} --json {options}")
    assert "would delete 0 files" in printed(f"deltamerge vacuum {table} --dry-run {options}")
    assert "files replaced" in printed(f"deltamerge optimize {table} {options}")
    spark.range(3).coalesce(1).write.parquet(str(tmp_path / "plain"))
    (file,) = (tmp_path / "plain").glob("*.parquet")
    server.client.upload_file(str(file), bucket, "plain/numbers.parquet")
    assert "Converted" in printed(f"deltamerge convert s3://{bucket}/plain {options}")
    assert "Restored as version" in printed(f"deltamerge restore {table} --version 0 {options}")


@pytest.mark.usefixtures("shared")
def test_a_table_that_was_made_for_a_merge_that_failed_is_told(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "a.parquet")
    options = ["--source", f"{tmp_path}/a.parquet", "--target", f"{tmp_path}/t", "--insert-all", "--create"]
    for told in (True, False):  # only the first time it is made
        found = CliRunner().invoke(app, ["merge", *options, "--key", "idd"])
        assert "Cannot resolve" in str(found.exception)
        assert (f"The table {tmp_path}/t was made, and has no rows" in found.stderr) is told
    assert "2 inserted" in printed(f"deltamerge merge {' '.join(options)} --key id")


@pytest.mark.usefixtures("shared")
def test_a_statement_without_a_result_prints_nothing(tmp_path: Path) -> None:
    assert printed(f"deltamerge sql 'CREATE TABLE delta.`{tmp_path}/t` (id INT)'") == ""


@pytest.mark.usefixtures("shared")
def test_a_path_that_the_shell_took_from_a_query_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark itself refuses a query, by an error of its own."""
    monkeypatch.setattr(sys, "argv", ["deltamerge", "sql", "SELECT count(*) FROM delta."])
    with pytest.raises(SystemExit):
        main()
    assert "single quotes" in capsys.readouterr().err


@pytest.mark.usefixtures("shared")
def test_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"id": [1, 2], "name": ["Ada", "Bob"]}), "customers.parquet")
    commands = list(commands_of((ROOT / "README.md").read_text(encoding="utf-8")))
    assert len(commands) == 4
    created, previewed, *_ = [printed(command) for command, _ in commands]
    assert "committed version 1: 2 inserted, no file changed" in created
    assert "2 updated" in previewed
