"""Properties that a table is given: spelled as the log has them, with values that they take."""

from __future__ import annotations

import pytest

from deltamerge.errors import AnalysisError, DeltaMergeError
from deltamerge.protocol.table.known_properties import checked, defaults_of, is_of_protocol


def test_keys_are_spelled_as_the_log_has_them() -> None:
    given = {"delta.APPENDONLY": "TRUE", "Team": "a", "delta.Feature.ROWTRACKING": "supported", "delta.constraints.C": "a > 0"}
    assert checked(given) == {
        "delta.appendOnly": "TRUE",
        "Team": "a",
        "delta.feature.rowTracking": "supported",
        "delta.constraints.C": "a > 0",
    }
    assert checked({"delta.new": "1"}, any_name=True) == {"delta.new": "1"}


@pytest.mark.parametrize(
    "key",
    [
        "delta.columnMapping.MAXCOLUMNID",
        "delta.inCommitTimestampEnablementVersion",
        "delta.inCommitTimestampEnablementTimestamp",
        "delta.rowTracking.materializedRowIdColumnName",
        "delta.rowTracking.materializedRowCommitVersionColumnName",
    ],
)
@pytest.mark.parametrize("any_name", [False, True])
def test_what_the_log_keeps_for_itself_is_nobodys_to_set(key: str, any_name: bool) -> None:
    with pytest.raises(AnalysisError, match="DELTA_CANNOT_MODIFY_TABLE_PROPERTY"):
        checked({key: "1"}, any_name)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("delta.appendOnly", "yes"),
        ("delta.checkpointInterval", "0"),
        ("delta.checkpointInterval", "x"),
        ("delta.dataSkippingNumIndexedCols", "-2"),
        ("delta.logRetentionDuration", "2 months"),
        ("delta.logRetentionDuration", "interval -3 weeks"),
        ("delta.logRetentionDuration", "interval 6 days"),
        ("delta.deletedFileRetentionDuration", "31 days"),
        ("delta.columnMapping.mode", "position"),
        ("delta.minReaderVersion", "4"),
        ("delta.universalFormat.enabledFormats", "iceberg"),
    ],
)
def test_values_that_a_property_does_not_take_are_refused(key: str, value: str) -> None:
    with pytest.raises(DeltaMergeError, match="DELTAMERGE_INVALID_PROPERTY"):
        checked({key: value})


def test_intervals_may_have_several_parts() -> None:
    assert checked({"delta.logRetentionDuration": "interval 3 weeks 2 days"})


def test_defaults_are_those_that_are_known() -> None:
    settings = [("p.appendOnly", "true"), ("p.feature.rowTracking", "supported"), ("p.unheard", "1"), ("other", "2")]
    assert defaults_of(settings, "p") == {"delta.appendOnly": "true", "delta.feature.rowTracking": "supported"}
    assert [is_of_protocol(f"delta.{key}") for key in ("feature.x", "minReaderVersion", "appendOnly")] == [True, True, False]
