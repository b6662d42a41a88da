"""What is made where a table lies already."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import types as T

from deltamerge.commands.table import create
from deltamerge.commands.table.create import CreateTable, Creation, create_table, existing
from deltamerge.commands.table.create_named import CreateNamed, create_named
from deltamerge.commands.table.definition import TableDefinition
from deltamerge.errors import AnalysisError, ConcurrentAppendError
from tests.unit.commands.table.tables import SPARK, legacy, table
from tests.unit.log.building import add, commit, info

QUERY: Any = object()


@pytest.mark.parametrize("creation", [Creation.CREATE, Creation.CREATE_IF_NOT_EXISTS])
def test_rows_of_a_query_are_not_left_out_for_a_table_that_lies_there(tmp_path: Path, creation: Creation) -> None:
    log = table(tmp_path, legacy(1, 2), add("old.parquet"))
    with pytest.raises(AnalysisError) as caught:
        create_table(SPARK, log, CreateTable(TableDefinition(), creation, "t", QUERY, adopts=True), existing(log))
    assert caught.value.condition == "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION"
    assert create_table(SPARK, log, CreateTable(TableDefinition(), creation, "t", adopts=True), existing(log)) is None
    assert log.snapshot().version == 0


class Rows:
    """The rows of a query: their schema is all that is asked for."""

    schema = T.StructType([T.StructField("id", T.LongType())])


@pytest.mark.parametrize("creation", [Creation.REPLACE, Creation.CREATE_OR_REPLACE])
def test_rows_that_come_before_the_query_reads_the_table_are_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, creation: Creation
) -> None:
    log = table(tmp_path, legacy(1, 2), add("old.parquet"))
    monkeypatch.setattr(create, "_written", lambda frame, snapshot, files: [])

    def query() -> Any:
        commit(tmp_path, 1, info(isBlindAppend=True), add("late.parquet"))
        return Rows()

    request = CreateNamed(("delta", str(tmp_path)), creation, TableDefinition(), query=query)
    with pytest.raises(ConcurrentAppendError):
        create_named(SPARK, request)
    assert log.snapshot().version == 1
