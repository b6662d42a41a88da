"""Which tables track their rows, and in which columns."""

from __future__ import annotations

from typing import Any

import pytest

from deltamerge.errors import DeltaMergeError
from deltamerge.protocol.table.actions import Metadata, Protocol
from deltamerge.protocol.table.row_tracking import ID_KEY, VERSION_KEY, TrackingColumns, tracking_columns, with_column_names

TRACKING = Protocol(1, 7, None, frozenset({"rowTracking", "domainMetadata"}))
NAMES = {ID_KEY: "i", VERSION_KEY: "v"}
ENABLED = {"delta.enableRowTracking": "true"}


def columns(protocol: Protocol, **configuration: Any) -> TrackingColumns | None:
    return tracking_columns(protocol, Metadata("id", "{}", configuration=configuration))


def test_rows_are_tracked_where_feature_and_property_say_so() -> None:
    assert columns(TRACKING, **ENABLED, **NAMES) == TrackingColumns("i", "v")
    assert columns(TRACKING, **NAMES) is None
    assert columns(Protocol(1, 2), **ENABLED, **NAMES) is None


@pytest.mark.parametrize(
    ("configuration", "condition"),
    [
        ({ID_KEY: "i"}, "DELTA_MATERIALIZED_ROW_TRACKING_COLUMN_NAME_MISSING"),
        ({VERSION_KEY: "v"}, "DELTA_MATERIALIZED_ROW_TRACKING_COLUMN_NAME_MISSING"),
        ({**NAMES, "delta.rowTrackingSuspended": "true"}, "DELTA_ROW_TRACKING_ILLEGAL_PROPERTY_COMBINATION"),
    ],
)
def test_tables_that_contradict_themselves_are_refused(configuration: dict[str, str], condition: str) -> None:
    with pytest.raises(DeltaMergeError) as caught:
        columns(TRACKING, **ENABLED, **configuration)
    assert caught.value.condition == condition


def test_a_new_table_has_names_that_no_other_has() -> None:
    first, second = (with_column_names(TRACKING, {"a": "b"}) for _ in range(2))
    assert first.keys() == {"a", ID_KEY, VERSION_KEY}
    assert len({first[ID_KEY], first[VERSION_KEY], second[ID_KEY], second[VERSION_KEY]}) == 4
    assert with_column_names(Protocol(1, 2), {"a": "b"}) == {"a": "b"}
