"""SET and UNSET TBLPROPERTIES, comments, and what a table's protocol is asked to support.

Source: delta-spark's AlterTableSetPropertiesDeltaCommand and the like.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from deltamerge.commands.table.change import Change, commit_change, mapped, told_json, writable
from deltamerge.commands.table.row_ids import give_row_ids, told_protocol
from deltamerge.errors import AnalysisError, InvalidArgumentError
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.log.replay.table import DeltaLog
from deltamerge.protocol.table.actions import Metadata, Protocol
from deltamerge.protocol.table.column_mapping import MODE, MappingMode, mode_of
from deltamerge.protocol.table.features import (
    FEATURE_PROPERTY,
    FEATURES,
    READER_VERSION,
    WRITER_VERSION,
    upgraded,
)
from deltamerge.protocol.table.known_properties import MIN_READER, MIN_WRITER, check_settable, checked, spelled
from deltamerge.protocol.table.row_tracking import ONLY_TRACKS, SUSPENDED, TRACKING, check_combination
from deltamerge.spark.read.feed import check_feed_columns
from deltamerge.spark.session.delta_check import check_delta
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.settings import setting

ANY_NAME = "spark.databricks.delta.allowArbitraryProperties.enabled"


def all_properties(snapshot: Snapshot) -> dict[str, str]:
    """A table's properties and those of its protocol, as SHOW TBLPROPERTIES tells them."""
    protocol = snapshot.protocol
    features = (protocol.reader_features or frozenset()) | (protocol.writer_features or frozenset())
    return {
        **snapshot.metadata.configuration,
        MIN_READER: str(protocol.min_reader_version),
        MIN_WRITER: str(protocol.min_writer_version),
        **{f"{FEATURE_PROPERTY}{name}": "supported" for name in features},
    }


def set_properties(spark: Session, log: DeltaLog, given: Mapping[str, str]) -> int:
    """Set table properties and return the version made; `comment` is what the table is for.

    Raises AnalysisError, InvalidArgumentError for what no property can be, UnsupportedTableError for what is not supported.
    """
    before = writable(log)
    _check_reserved(given)
    properties = {key: value for key, value in given.items() if key != "comment"}
    asked = checked(properties, setting(spark, ANY_NAME, "false").lower() == "true")
    if TRACKING in asked or SUSPENDED in asked:
        check_combination({**before.metadata.configuration, **asked})
    begins = asked.get(TRACKING, "").lower() == "true"
    if begins:
        check_delta(spark, "ALTER")
        before = give_row_ids(spark, log)
    metadata = replace(
        before.metadata,
        configuration={**before.metadata.configuration, **asked},
        description=given.get("comment", before.metadata.description),
    )
    metadata = _with_mapping(before, metadata)
    if not before.properties.change_data_feed:
        check_feed_columns(before.schema, metadata)
    told = {key.lower() if key.startswith(FEATURE_PROPERTY) else key: value for key, value in asked.items()}
    if "comment" in given:
        told["comment"] = given["comment"]
    tags = {ONLY_TRACKS: "true"} if begins and len(given) == 1 else {}
    return commit_change(spark, log, before, Change("SET TBLPROPERTIES", {"properties": told_json(told)}, metadata, tags=tags))


def unset_properties(spark: Session, log: DeltaLog, keys: Sequence[str]) -> int:
    """Remove table properties, those that are set, and return the version made. Raises AnalysisError for one that must stay."""
    before = writable(log)
    check_settable(keys)
    names = [spelled(key) for key in keys]
    kept = {key: value for key, value in before.metadata.configuration.items() if key not in names}
    description = None if "comment" in names else before.metadata.description
    metadata = _with_mapping(before, replace(before.metadata, configuration=kept, description=description))
    told = {"properties": told_json(names), "ifExists": True}
    return commit_change(spark, log, before, Change("UNSET TBLPROPERTIES", told, metadata))


def upgrade_protocol(spark: Session, log: DeltaLog, reader: int, writer: int) -> int:
    """Have a table's protocol support all features of these versions, and return the version of the table made.

    What it supports besides stays: lower versions change nothing. Raises InvalidArgumentError for versions that there are not.
    """
    if not (1 <= reader <= READER_VERSION and 1 <= writer <= WRITER_VERSION) or (reader == READER_VERSION > 1 and writer < 7):
        raise InvalidArgumentError(
            "DELTA_INVALID_PROTOCOL_VERSION",
            f"There is no protocol of reader version {reader} and writer version {writer} that is supported.",
            parameters={"readerRequired": reader, "writerRequired": writer},
            hint=f"Reader versions go to {READER_VERSION}, writer versions to {WRITER_VERSION}; reader version 3 needs 7.",
        )
    return set_properties(spark, log, {MIN_READER: str(reader), MIN_WRITER: str(writer)})


def add_feature(spark: Session, log: DeltaLog, name: str) -> int | None:
    """Have a table's protocol support a feature; None where it does. Raises AnalysisError for a feature that is not known."""
    before = writable(log)
    found = _feature(name)
    protocol = upgraded(before.protocol, [found])
    return None if protocol == before.protocol else _committed(spark, log, before, protocol)


def _committed(spark: Session, log: DeltaLog, before: Snapshot, protocol: Protocol) -> int:
    told = {"newProtocol": told_json(told_protocol(protocol))}
    return commit_change(spark, log, before, Change("UPGRADE PROTOCOL", told, protocol=protocol))


def _feature(name: str) -> str:
    found = next((known for known in FEATURES if known.lower() == name.lower()), None)
    if found is None:
        raise AnalysisError(
            "DELTA_UNSUPPORTED_FEATURES_IN_CONFIG",
            f"The table feature {name} is not recognized.",
            parameters={"features": name},
            hint="Check the spelling of the feature.",
        )
    return found


def _check_reserved(given: Mapping[str, str]) -> None:
    constraint = next((key for key in given if key.lower().startswith("delta.constraints.")), None)
    if constraint is not None:
        raise AnalysisError(
            "DELTA_ADD_CONSTRAINTS",
            "Please use ALTER TABLE ADD CONSTRAINT to add CHECK constraints.",
            parameters={"property": constraint},
        )
    reserved = next((key for key in given if key.lower() in ("location", "provider", "delta.feature.clustering")), None)
    if reserved is not None:
        raise AnalysisError(
            "DELTA_OPERATION_NOT_ALLOWED",
            f"Operation not allowed: SET TBLPROPERTIES ('{reserved}') is not supported for Delta tables.",
            parameters={"operation": reserved},
            hint="Make the table anew at another place, or CLUSTER BY columns.",
        )


def _with_mapping(before: Snapshot, metadata: Metadata) -> Metadata:
    """The metadata with columns mapped, where that begins. Raises AnalysisError for any other change of the mode."""
    old, new = mode_of(before.metadata), mode_of(metadata)
    if old is new:
        return metadata
    if (old, new) != (MappingMode.NONE, MappingMode.NAME):
        raise AnalysisError(
            "DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE",
            f"Changing column mapping mode from '{old.value}' to '{new.value}' is not supported.",
            parameters={"oldMode": old.value, "newMode": new.value},
            hint=f"Only {MODE} = name can be set, on a table without column mapping. delta-spark can remove it.",
        )
    return mapped(metadata)
