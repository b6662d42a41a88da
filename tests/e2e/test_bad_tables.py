"""What is no table, a damaged one, or one that demands too much is refused by name; its files stay as they were."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.errors import AnalysisException, SparkRuntimeException, UnsupportedOperationException
from pyspark.sql import DataFrame, SparkSession

import deltamerge
from deltamerge.exceptions import DeltaInvariantViolationException, DeltaTableNotFoundException
from deltamerge.tables import DeltaMergeBuilder, DeltaTable
from tests.e2e.refusals import refused
from tests.e2e.tables import make, source

SCHEMA = "id int, name string"
ON = "t.id = s.id"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A table of three rows, of which no snapshot is kept."""
    schema = pa.schema([pa.field("id", pa.int32()), pa.field("name", pa.string(), nullable=False)])
    write_deltalake(str(tmp_path / "t"), pa.table([[1, 2, 3], ["a", "b", "c"]], schema=schema))
    return tmp_path / "t"


def opened(spark: SparkSession, path: Path) -> DeltaTable:
    return DeltaTable.forPath(spark, str(path)).alias("t")


def log_file(path: Path, version: int) -> Path:
    return path / "_delta_log" / f"{version:020d}.json"


def test_a_folder_without_a_log_is_no_table(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("x")
    words = (str(tmp_path), "no _delta_log")
    with refused(tmp_path, DeltaTableNotFoundException, "DELTA_MISSING_DELTA_TABLE", *words, hint="Check the path"):
        DeltaTable.forPath(spark, str(tmp_path))
    assert not DeltaTable.isDeltaTable(spark, str(tmp_path))


def test_a_path_that_is_not_there(spark: SparkSession, tmp_path: Path) -> None:
    missing = tmp_path / "nowhere"
    words = (str(missing), "no such folder")
    with refused(tmp_path, AnalysisException, "DELTA_MISSING_DELTA_TABLE", *words, hint="Check the path"):
        deltamerge.read(spark, str(missing))
    assert not missing.exists()


@pytest.mark.local(reason="object stores have no empty folders")
def test_a_log_without_commits(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "_delta_log").mkdir()
    with refused(tmp_path, AnalysisException, "DELTA_TABLE_NOT_FOUND", str(tmp_path), "no commit", hint="cut off"):
        DeltaTable.forPath(spark, str(tmp_path))


def test_a_corrupt_commit_is_named_with_its_line(spark: SparkSession, path: Path) -> None:
    log_file(path, 1).write_text('{"commitInfo":{}}\n{"add":{"path":')
    with refused(path, SparkRuntimeException, "DELTAMERGE_CORRUPT_COMMIT", log_file(path, 1).name, "line 2", hint="backup"):
        DeltaTable.forPath(spark, str(path))


def test_a_corrupt_commit_stops_a_merge_into_an_open_table(spark: SparkSession, path: Path, untouchable: DataFrame) -> None:
    table = opened(spark, path)
    log_file(path, 1).write_text("no json")
    with refused(path, SparkRuntimeException, "DELTAMERGE_CORRUPT_COMMIT", log_file(path, 1).name, "line 1"):
        table.merge(untouchable, ON).whenMatchedDelete().execute()


@pytest.mark.local(reason="a commit is copied as a file")
def test_a_gap_in_the_versions(spark: SparkSession, path: Path) -> None:
    shutil.copy(log_file(path, 0), log_file(path, 2))
    with refused(path, SparkRuntimeException, "DELTA_VERSIONS_NOT_CONTIGUOUS", "no version 1", hint=log_file(path, 1).name):
        DeltaTable.forPath(spark, str(path))


def test_an_unknown_reader_feature_is_refused_by_name(spark: SparkSession, path: Path, untouchable: DataFrame) -> None:
    table = opened(spark, path)
    _add_protocol(path, '"readerFeatures":["quantumRows"],"writerFeatures":["quantumRows"]')
    with refused(path, UnsupportedOperationException, "DELTA_UNSUPPORTED_FEATURES_FOR_READ", "quantumRows", hint="read"):
        deltamerge.read(spark, str(path))
    with refused(path, UnsupportedOperationException, "DELTA_UNSUPPORTED_FEATURES_FOR_READ", "quantumRows"):
        table.merge(untouchable, ON).whenNotMatchedInsertAll().execute()


def test_an_unknown_writer_feature_forbids_writing_only(spark: SparkSession, path: Path, untouchable: DataFrame) -> None:
    _add_protocol(path, '"readerFeatures":[],"writerFeatures":["appendOnly","quantumRows"]')
    table = opened(spark, path)
    with refused(path, UnsupportedOperationException, "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE", "quantumRows", hint="written"):
        table.merge(untouchable, ON).whenNotMatchedInsertAll().execute()
    with refused(path, UnsupportedOperationException, "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE", "quantumRows"):
        deltamerge.write(untouchable, str(path), mode="append")
    assert table.toDF().count() == 3


def _add_protocol(path: Path, features: str) -> None:
    log_file(path, 1).write_text(f'{{"protocol":{{"minReaderVersion":3,"minWriterVersion":7,{features}}}}}\n')


CHANGING: dict[str, Callable[[DeltaTable, DataFrame], DeltaMergeBuilder]] = {
    "UPDATE": lambda t, s: t.merge(s, ON).whenMatchedUpdateAll(),
    "DELETE": lambda t, s: t.merge(s, ON).whenMatchedDelete("false").whenNotMatchedInsertAll(),
    "BY SOURCE": lambda t, s: t.merge(s, ON).whenNotMatchedBySourceDelete(),
}


def test_an_append_only_table_takes_inserts_only(spark: SparkSession, tmp_path: Path, untouchable: DataFrame) -> None:
    deltamerge.write(source(spark, "id int", [(1,)]), str(tmp_path), properties={"delta.appendOnly": "true"})
    table = opened(spark, tmp_path)
    for build in CHANGING.values():
        with refused(
            tmp_path, UnsupportedOperationException, "DELTA_CANNOT_MODIFY_APPEND_ONLY", str(tmp_path), hint="delta.appendOnly"
        ):
            build(table, untouchable).execute()
    assert table.merge(source(spark, "id int", [(1,), (2,)]), ON).whenNotMatchedInsertAll().run().inserted == 1


@pytest.mark.usefixtures("strategy")
def test_a_null_for_a_column_that_forbids_it(spark: SparkSession, path: Path) -> None:
    table = opened(spark, path)
    condition = "DELTA_NOT_NULL_CONSTRAINT_VIOLATED"
    for changes in (source(spark, SCHEMA, [(2, None)]), source(spark, SCHEMA, [(9, None)])):
        with refused(path, DeltaInvariantViolationException, condition, "column: name", hint="Nothing was committed"):
            table.merge(changes, ON).whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    with refused(path, DeltaInvariantViolationException, condition, "column: name"):
        table.merge(source(spark, SCHEMA, [(9, "x")]), ON).whenNotMatchedInsert(values={"id": "s.id"}).execute()


@pytest.mark.usefixtures("strategy")
def test_a_data_file_that_is_cut_or_gone_is_named(spark: SparkSession, path: Path) -> None:
    table, changes = opened(spark, path), source(spark, SCHEMA, [(2, "x")])
    file = next(path.glob("*.parquet"))
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])
    with refused(path, SparkRuntimeException, "DELTAMERGE_CORRUPT_DATA_FILE", file.name, hint="backup"):
        table.merge(changes, ON).whenMatchedUpdateAll().execute()
    file.unlink()
    with refused(path, SparkRuntimeException, "DELTAMERGE_STORAGE_REFUSED", file.name, hint="file is there"):
        table.merge(changes, ON).whenMatchedUpdateAll().execute()


@pytest.mark.local(reason="the table's log is edited in place")
def test_a_version_that_its_checksum_contradicts_is_read_and_not_written(
    spark: SparkSession, tmp_path: Path, untouchable: DataFrame
) -> None:
    path = tmp_path / "c"
    make(spark, path, SCHEMA, [(1, "a"), (2, "b")], files=2)
    log_file(path, 1).write_text('{"commitInfo":{}}\n')
    table = opened(spark, path)
    words = ("version 1 differs from", "numFiles")
    for write in (
        lambda: table.merge(untouchable, ON).whenMatchedDelete().execute(),
        lambda: table.delete("id = 1"),
        lambda: deltamerge.write(untouchable, str(path), mode="append"),
    ):
        with refused(path, SparkRuntimeException, "DELTA_TXN_LOG_FAILED_INTEGRITY", *words, hint="Restore"):
            write()
    assert table.toDF().count() == 1
