"""Tables that are altered: what is refused, and what the log then says."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltamerge.commands.table.columns import AddColumn, add_columns, drop_columns
from deltamerge.commands.table.properties import unset_properties
from deltamerge.errors import AnalysisError
from deltamerge.log.replay.table import DeltaLog
from tests.unit.commands.table.tables import SPARK, added_field, column, legacy, mapped, schema, table
from tests.unit.log.building import Json


def with_mapping(root: Path, *columns: Json, **properties: str) -> DeltaLog:
    """A table that finds columns by ids, whose highest one is what `properties` say."""
    return table(
        root,
        legacy(2, 5),
        schema=schema(*columns),
        properties={"delta.columnMapping.mode": "id", **properties},
    )


IDENTITY = {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.allowExplicitInsert": False}
GENERATED = {"delta.generationExpression": "id + 1"}


@pytest.mark.parametrize("more", [IDENTITY, GENERATED])
def test_no_column_is_added_whose_values_the_table_makes(tmp_path: Path, more: Json) -> None:
    log = table(tmp_path, legacy(1, 6), schema=schema(column("id")))
    with pytest.raises(AnalysisError, match="DELTA_OPERATION_NOT_ALLOWED"):
        add_columns(SPARK, log, [AddColumn((), added_field("n", **more))])
    assert log.snapshot().version == 0


def test_an_id_never_comes_back(tmp_path: Path) -> None:
    log = with_mapping(tmp_path, column("a", **mapped(1, "pa")), column("b", **mapped(2, "pb")))  # the property was lost
    with pytest.raises(AnalysisError, match="DELTA_CANNOT_MODIFY_TABLE_PROPERTY"):
        unset_properties(SPARK, log, ["delta.columnMapping.maxColumnid"])
    drop_columns(SPARK, log, [("b",)])
    add_columns(SPARK, log, [AddColumn((), added_field("c"))])
    (_, added) = log.snapshot().schema
    assert (added.name, added.metadata["delta.columnMapping.id"]) == ("c", 3)
