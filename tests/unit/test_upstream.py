"""Methods of delta-spark's DeltaTable that are not here: who asks for one is told what to use."""

from __future__ import annotations

import copy

import pytest

from deltamerge.log.replay.table import DeltaLog
from deltamerge.storage.local import LocalStore
from deltamerge.tables import DeltaTable
from deltamerge.upstream import MISSING

# The public methods of `delta.tables.DeltaTable` in delta-spark 4.4.
UPSTREAM = """
    addFeatureSupport alias clone cloneAtTimestamp cloneAtVersion convertToDelta create createIfNotExists createOrReplace delete
    detail dropFeatureSupport forName forPath generate history isDeltaTable merge optimize replace restoreToTimestamp
    restoreToVersion toDF update upgradeTableProtocol vacuum
"""


@pytest.fixture
def table() -> DeltaTable:
    return DeltaTable(None, DeltaLog(LocalStore("/nowhere")))  # type: ignore[arg-type]


def test_each_method_is_there_or_told() -> None:
    there = {name for name in UPSTREAM.split() if name in vars(DeltaTable)}
    assert there | set(MISSING) == set(UPSTREAM.split())
    assert not there & set(MISSING)


@pytest.mark.parametrize("name", MISSING)
def test_a_missing_method_says_what_to_use(table: DeltaTable, name: str) -> None:
    for owner in (DeltaTable, table):
        assert not hasattr(owner, name)
        with pytest.raises(AttributeError, match=rf"^deltamerge has no DeltaTable\.{name} yet\. Use delta-spark for it"):
            getattr(owner, name)


def test_a_misspelt_method_is_as_python_has_it(table: DeltaTable) -> None:
    for owner, name in ((DeltaTable, "forpath"), (table, "histroy")):
        with pytest.raises(AttributeError, match=rf"has no attribute '{name}'$") as caught:
            getattr(owner, name)
        assert (caught.value.name, caught.value.obj) == (name, owner)


def test_tables_can_be_copied(table: DeltaTable) -> None:
    assert copy.copy(table)._log is table._log
