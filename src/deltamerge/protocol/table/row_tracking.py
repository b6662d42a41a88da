"""Row tracking: in which columns of data files rows keep the ids and commit versions that they had elsewhere.

Source: PROTOCOL.md, "Row Tracking". Pure data; must not know files or Spark.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from deltamerge.errors import CorruptTableError, UnsupportedTableError, restore_action
from deltamerge.protocol.table.actions import Metadata, Protocol
from deltamerge.protocol.table.features import named_features
from deltamerge.protocol.table.properties import Properties

TRACKING, SUSPENDED = "delta.enableRowTracking", "delta.rowTrackingSuspended"
ID_KEY = "delta.rowTracking.materializedRowIdColumnName"
VERSION_KEY = "delta.rowTracking.materializedRowCommitVersionColumnName"
COLUMN_NAMES = (ID_KEY, VERSION_KEY)
# The tag of a commit that changes metadata only so that rows are tracked: what was made of the version before can follow it.
ONLY_TRACKS = "rowTrackingEnablementOnly"
_PREFIXES = {ID_KEY: "_row-id-col-", VERSION_KEY: "_row-commit-version-col-"}


@dataclass(frozen=True, slots=True)
class TrackingColumns:
    """The physical names of the materialized columns."""

    row_id: str
    row_version: str


def tracking_columns(protocol: Protocol, metadata: Metadata) -> TrackingColumns | None:
    """The materialized columns of a table whose rows are tracked; None for any other table.

    Raises CorruptTableError when they have no names, UnsupportedTableError when tracking is suspended at the same time.
    """
    properties = Properties(metadata.configuration)
    if not properties.flag(TRACKING) or "rowTracking" not in named_features(protocol):
        return None
    check_combination(metadata.configuration)
    names = [metadata.configuration.get(key) for key in (ID_KEY, VERSION_KEY)]
    if not names[0] or not names[1]:
        raise CorruptTableError(
            "DELTA_MATERIALIZED_ROW_TRACKING_COLUMN_NAME_MISSING",
            f"The table has {TRACKING}, but {ID_KEY if not names[0] else VERSION_KEY} is not set.",
            parameters={"rowTrackingColumn": ID_KEY if not names[0] else VERSION_KEY},
            hint=restore_action("metaData"),
        )
    return TrackingColumns(names[0], names[1])


def check_combination(configuration: Mapping[str, str]) -> None:
    """Raise UnsupportedTableError for properties by which rows are tracked and get no ids."""
    properties = Properties(configuration)
    if properties.flag(TRACKING) and properties.flag(SUSPENDED):
        raise UnsupportedTableError(
            "DELTA_ROW_TRACKING_ILLEGAL_PROPERTY_COMBINATION",
            f"The table has both {TRACKING} and {SUSPENDED}, which contradict each other.",
            parameters={"property1": TRACKING, "property2": SUSPENDED},
            hint="Unset one of the two.",
        )


def with_column_names(
    protocol: Protocol, configuration: Mapping[str, str], before: Mapping[str, str] | None = None
) -> dict[str, str]:
    """A table's properties; if its protocol has row tracking, with names for the materialized columns: those of `before`."""
    if "rowTracking" not in named_features(protocol):
        return dict(configuration)
    had = before or {}
    return {**configuration, **{key: had.get(key) or f"{prefix}{uuid.uuid4()}" for key, prefix in _PREFIXES.items()}}
