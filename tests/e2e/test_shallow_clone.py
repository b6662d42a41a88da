"""Shallow clones made by the builder and by SQL: they begin with the files of another table, and go their own way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.log.replay.table import open_log
from deltamerge.tables import DeltaTable
from tests.e2e.tables import make

pytestmark = pytest.mark.local(reason="a clone names files by their whole paths")


def rows(spark: SparkSession, path: Path) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in deltamerge.read(spark, str(path)).collect())


@pytest.mark.parametrize("vectors", [True, False])
def test_a_clone_has_the_rows_and_changes_alone(spark: SparkSession, tmp_path: Path, vectors: bool) -> None:
    original, copy, old = tmp_path / "a b%20c", tmp_path / "copy", tmp_path / "old"
    table = make(spark, original, "id INT, p STRING", [(1, "x"), (2, "y"), (3, "y")], partition_by=["p"], vectors=vectors)
    table.delete("id = 3")
    clone = table.clone(str(copy), True, properties={"team": "x"})
    assert rows(spark, copy) == [(1, "x"), (2, "y")]
    clone.update("id = 1", {"id": "10"})
    clone.delete("id = 2")
    assert (rows(spark, copy), rows(spark, original)) == ([(10, "x")], [(1, "x"), (2, "y")])
    (row,) = clone.history().where("version = 0").collect()
    assert row.operation == "CLONE"
    assert row.operationParameters["sourceVersion"] == str(open_log(str(original)).snapshot().version)
    detail = clone.detail().first()
    assert detail is not None
    assert (detail.properties["team"], detail.partitionColumns) == ("x", ["p"])
    result = deltamerge.sql(spark, f"CREATE TABLE delta.`{old}` SHALLOW CLONE delta.`{original}` VERSION AS OF 0")
    assert result.select("source_num_of_files", "num_copied_files").collect() == [(2, 0)]
    assert rows(spark, old) == [(1, "x"), (2, "y"), (3, "y")]
    deltamerge.sql(spark, f"CREATE TABLE IF NOT EXISTS delta.`{old}` SHALLOW CLONE delta.`{copy}`")
    assert len(rows(spark, old)) == 3


def test_what_can_not_be_cloned_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", "id INT", [(1,)])
    make(spark, tmp_path / "full", "id INT", [(2,)])
    for call, condition in [
        (lambda: table.clone(str(tmp_path / "c")), "DELTA_UNSUPPORTED_DEEP_CLONE"),
        (lambda: table.clone(str(tmp_path / "full"), True), "TABLE_OR_VIEW_ALREADY_EXISTS"),
        (lambda: table.clone(str(tmp_path / "full"), True, True), "DELTA_UNSUPPORTED_NON_EMPTY_CLONE"),
        (lambda: table.clone(str(tmp_path / "t"), True, True), "DELTA_UNSUPPORTED_CLONE_REPLACE_SAME_TABLE"),
        (lambda: table.cloneAtVersion(7, str(tmp_path / "c"), True), "DELTA_VERSION_NOT_FOUND"),
        (
            lambda: table.clone(str(tmp_path / "c"), True, properties={"delta.columnMapping.mode": "name"}),
            "DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE",
        ),
        (
            lambda: deltamerge.sql(spark, f"REPLACE TABLE delta.`{tmp_path / 'c'}` SHALLOW CLONE delta.`{tmp_path / 't'}`"),
            "DELTA_OPERATION_NOT_ALLOWED",
        ),
    ]:
        with pytest.raises(PySparkException) as caught:
            call()
        assert caught.value.getCondition() == condition
    assert not (tmp_path / "c").exists()
    wrong: list[tuple[Any, str]] = [
        (lambda: table.clone(1, True), "target needs to be a string"),  # type: ignore[arg-type]
        (lambda: table.clone("/c", 1), "isShallow needs to be a boolean"),  # type: ignore[arg-type]
        (lambda: table.clone("/c", True, 1), "replace needs to be a boolean"),  # type: ignore[arg-type]
        (lambda: table.clone("/c", True, False, 1), "properties needs to be a dict"),  # type: ignore[arg-type]
        (lambda: table.clone("/c", True, False, {"a": 1}), "All property values including 1 needs to be a string"),  # type: ignore[dict-item]
        (lambda: table.cloneAtVersion("0", "/c", True), "version needs to be an int"),  # type: ignore[arg-type]
        (lambda: table.cloneAtTimestamp(0, "/c", True), "timestamp needs to be a string"),  # type: ignore[arg-type]
    ]
    for call, message in wrong:
        with pytest.raises(ValueError, match=message):
            call()


def test_an_empty_target_is_replaced(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", "id INT", [(1,)])
    target = DeltaTable.create(spark).location(str(tmp_path / "c")).addColumn("a", "STRING").execute()
    before = target.detail().first()
    clone = table.cloneAtVersion(0, str(tmp_path / "c"), True, True)
    after = clone.detail().first()
    assert before is not None
    assert after is not None
    assert (after.id, rows(spark, tmp_path / "c")) == (before.id, [(1,)])
    moment = table.history().selectExpr("CAST(timestamp + INTERVAL 1 SECOND AS STRING)").collect()[0][0]
    with pytest.raises(PySparkException, match="DELTA_TIMESTAMP_GREATER_THAN_COMMIT"):
        table.cloneAtTimestamp(moment, str(tmp_path / "later"), True)
