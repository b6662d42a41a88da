"""Methods of delta-spark's DeltaTable are all here."""

from __future__ import annotations

import copy

from deltamerge.log.replay.table import DeltaLog
from deltamerge.storage.local import LocalStore
from deltamerge.tables import DeltaTable

# The public methods of `delta.tables.DeltaTable` in delta-spark 4.4.
UPSTREAM = """
    addFeatureSupport alias clone cloneAtTimestamp cloneAtVersion convertToDelta create createIfNotExists createOrReplace delete
    detail dropFeatureSupport forName forPath generate history isDeltaTable merge optimize replace restoreToTimestamp
    restoreToVersion toDF update upgradeTableProtocol vacuum
"""


def test_each_method_is_there() -> None:
    assert set(UPSTREAM.split()) <= set(vars(DeltaTable))


def test_tables_can_be_copied() -> None:
    table = DeltaTable(None, DeltaLog(LocalStore("/nowhere")))  # type: ignore[arg-type]
    assert copy.copy(table)._log is table._log
