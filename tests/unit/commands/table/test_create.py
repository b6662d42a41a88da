"""What is made where a table lies already."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deltamerge.commands.table.create import CreateTable, Creation, create_table
from deltamerge.commands.table.definition import TableDefinition
from deltamerge.errors import AnalysisError
from tests.unit.commands.table.tables import SPARK, legacy, table
from tests.unit.log.building import add

QUERY: Any = object()


@pytest.mark.parametrize("creation", [Creation.CREATE, Creation.CREATE_IF_NOT_EXISTS])
def test_rows_of_a_query_are_not_left_out_for_a_table_that_lies_there(tmp_path: Path, creation: Creation) -> None:
    log = table(tmp_path, legacy(1, 2), add("old.parquet"))
    with pytest.raises(AnalysisError) as caught:
        create_table(SPARK, log, CreateTable(TableDefinition(), creation, "t", QUERY, adopts=True))
    assert caught.value.condition == "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION"
    assert create_table(SPARK, log, CreateTable(TableDefinition(), creation, "t", adopts=True)) is None
    assert log.snapshot().version == 0
