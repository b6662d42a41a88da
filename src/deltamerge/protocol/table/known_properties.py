"""The properties that a table can be given: their spelling, and which values they take.

Source: delta-spark's DeltaConfig. Pure data; must not know sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from deltamerge.errors import AnalysisError, InvalidArgumentError
from deltamerge.protocol.table.features import FEATURE_PROPERTY, FEATURES, features_of_versions
from deltamerge.protocol.table.properties import Properties, interval_of

MIN_READER, MIN_WRITER = "delta.minReaderVersion", "delta.minWriterVersion"
IGNORE_DEFAULTS = "delta.ignoreProtocolDefaults"
_CONSTRAINT = "delta.constraints."
_UNIFORM = "delta.universalformat.config."
_LOG, _DELETED = "delta.logRetentionDuration", "delta.deletedFileRetentionDuration"

_Takes = Callable[[str], bool]


def _one_of(*values: str) -> _Takes:
    return lambda value: value.lower() in values


def _number(least: int, most: int | None = None) -> _Takes:
    def takes(value: str) -> bool:
        try:
            found = int(value)
        except ValueError:
            return False
        return found >= least and (most is None or found <= most)

    return takes


_FLAG = (_one_of("true", "false"), "true or false")
_ANY: tuple[_Takes, str] = (lambda value: True, "any text")
_TIME = (
    lambda value: interval_of(value) is not None,
    "an interval such as 2 weeks or 365 days, whole numbers without months and years",
)
_LONG = (_number(-(1 << 63)), "a whole number")

_KNOWN: Mapping[str, tuple[_Takes, str]] = {
    MIN_READER: (_number(1, 3), "1, 2 or 3"),
    MIN_WRITER: (_number(1, 7), "a whole number from 1 to 7"),
    IGNORE_DEFAULTS: _FLAG,
    _LOG: _TIME,
    "delta.sampleRetentionDuration": _TIME,
    "delta.checkpointRetentionDuration": _TIME,
    "delta.checkpointInterval": (_number(1), "a positive whole number"),
    "delta.redirectReaderWriter-preview": _ANY,
    "delta.redirectWriterOnly-preview": _ANY,
    "delta.autoOptimize.autoCompact": _FLAG,
    "delta.enableExpiredLogCleanup": _FLAG,
    "delta.enableFullRetentionRollback": _FLAG,
    "delta.dropFeatureTruncateHistory.retentionDuration": _TIME,
    _DELETED: _TIME,
    "delta.randomizeFilePrefixes": _FLAG,
    "delta.randomPrefixLength": (_number(1), "a positive whole number"),
    "delta.appendOnly": _FLAG,
    "delta.enableDeletionVectors": _FLAG,
    "delta.parquet.format.version": _ANY,
    "delta.enableVariantShredding": _FLAG,
    "delta.autoOptimize": _FLAG,
    "delta.dataSkippingNumIndexedCols": (_number(-1), "a whole number from -1"),
    "delta.dataSkippingStatsColumns": _ANY,
    "delta.dataSkippingStringPrefixLength": (_number(0), "a whole number from 0"),
    "delta.compatibility.symlinkFormatManifest.enabled": _FLAG,
    "delta.checkpoint.writeStatsAsJson": _FLAG,
    "delta.checkpoint.writeStatsAsStruct": _FLAG,
    "delta.enableChangeDataCapture": _FLAG,
    "delta.enableChangeDataFeed": _FLAG,
    "delta.columnMapping.mode": (_one_of("none", "name", "id"), "none, name or id"),
    "delta.columnMapping.maxColumnId": _LONG,
    "delta.setTransactionRetentionDuration": _TIME,
    "delta.isolationLevel": (_one_of("serializable", "writeserializable"), "Serializable or WriteSerializable"),
    "delta.checkpointPolicy": (_one_of("classic", "v2"), "classic or v2"),
    "delta.enableRowTracking": _FLAG,
    "delta.rowTrackingSuspended": _FLAG,
    "delta.universalFormat.enabledFormats": (
        lambda value: not value.strip(),
        "no format: this library writes no metadata of Iceberg or Hudi",
    ),
    "delta.enableIcebergCompatV1": _FLAG,
    "delta.enableIcebergCompatV2": _FLAG,
    "delta.enableIcebergCompatV3": _FLAG,
    "delta.universalFormat.iceberg.atomicConversion.supported": _FLAG,
    "delta.castIcebergTimeType": _FLAG,
    "delta.ignoreIcebergBucketPartition": _FLAG,
    "delta.autoOptimize.optimizeWrite": _FLAG,
    "delta.enableTypeWidening": _FLAG,
    "delta.coordinatedCommits.commitCoordinator-preview": _ANY,
    "delta.coordinatedCommits.commitCoordinatorConf-preview": _ANY,
    "delta.coordinatedCommits.tableConf-preview": _ANY,
    "delta.enableInCommitTimestamps": _FLAG,
    "delta.inCommitTimestampEnablementVersion": _LONG,
    "delta.inCommitTimestampEnablementTimestamp": _LONG,
    "delta.requireCheckpointProtectionBeforeVersion": (_number(0), "a whole number from 0"),
    "delta.enableMaterializePartitionColumnsFeature": _FLAG,
    "delta.writePartitionColumnsToParquet": _FLAG,
    # Honoured by this library, and by Databricks; delta-spark knows neither.
    "delta.targetFileSize": _ANY,
    "delta.parquet.compression.codec": _ANY,
}
# What the log notes for itself. From other values, columns and rows would get values that are others'.
_KEPT_BY_THE_LOG = {
    key.lower(): key
    for key in (
        "delta.columnMapping.maxColumnId",
        "delta.inCommitTimestampEnablementVersion",
        "delta.inCommitTimestampEnablementTimestamp",
        "delta.rowTracking.materializedRowIdColumnName",
        "delta.rowTracking.materializedRowCommitVersionColumnName",
    )
}
_SPELLINGS = {key.lower(): key for key in _KNOWN}
_FEATURE_NAMES = {name.lower(): name for name in FEATURES}


def spelled(key: str) -> str:
    """A property's key as the log has it, whatever its case; a key of the user's own stays."""
    folded = key.lower()
    if folded.startswith(FEATURE_PROPERTY):
        name = folded.removeprefix(FEATURE_PROPERTY)
        return FEATURE_PROPERTY + _FEATURE_NAMES.get(name, name)
    return folded if folded.startswith(_UNIFORM) else _SPELLINGS.get(folded, key)


def checked(properties: Mapping[str, str], any_name: bool = False) -> dict[str, str]:
    """The properties under the keys that the log has.

    Raises AnalysisError for a key that Delta does not have, unless `any_name`, for one that is nobody's to set, and for a
    feature that is not known;
    InvalidArgumentError for a value that the property does not take.
    """
    check_settable(properties)
    found = {spelled(key): value for key, value in properties.items()}
    for key, value in found.items():
        folded = key.lower()
        if key.startswith(FEATURE_PROPERTY):
            _check_feature(key, value)
        elif folded.startswith("delta.") and not folded.startswith((_CONSTRAINT, _UNIFORM)):
            _check_known(key, value, any_name)
    _check_retention(found)
    return found


def check_settable(keys: Iterable[str]) -> None:
    """Raise AnalysisError for a property that the log keeps for itself: nobody sets or unsets it."""
    found = next((_KEPT_BY_THE_LOG[key.lower()] for key in keys if key.lower() in _KEPT_BY_THE_LOG), None)
    if found is not None:
        raise AnalysisError(
            "DELTA_CANNOT_MODIFY_TABLE_PROPERTY",
            f"The Delta table configuration {found} cannot be specified by the user.",
            parameters={"prop": found},
            hint="Leave the property out: it is kept with the table's columns, rows and commits.",
        )


def defaults_of(settings: Iterable[tuple[str, str]], prefix: str) -> dict[str, str]:
    """The properties that settings of the session with this prefix ask for, as `spark..defaults.appendOnly` does."""
    begin = f"{prefix}."
    given = {f"delta.{key.removeprefix(begin)}": value for key, value in settings if key.startswith(begin)}
    return checked({k: v for k, v in given.items() if k in _KNOWN or k.startswith(FEATURE_PROPERTY)})


def kept_defaults(given: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, str]:
    """The defaults that a table gets which is given properties: these may say that none of them chooses the protocol."""
    ignores = given.get(IGNORE_DEFAULTS, defaults.get(IGNORE_DEFAULTS, "false")).lower() == "true"
    return {key: value for key, value in defaults.items() if not (ignores and is_of_protocol(key))}


def features_of_properties(properties: Mapping[str, str]) -> frozenset[str]:
    """The features of the versions that properties ask for."""
    return features_of_versions(int(properties.get(MIN_READER, 1)), int(properties.get(MIN_WRITER, 1)))


def is_of_protocol(key: str) -> bool:
    """Whether a property only chooses the protocol, and so is not kept."""
    return key.startswith(FEATURE_PROPERTY) or key in (MIN_READER, MIN_WRITER, IGNORE_DEFAULTS)


def _check_known(key: str, value: str, any_name: bool) -> None:
    known = _KNOWN.get(key)
    if known is None:
        if any_name:
            return
        raise AnalysisError(
            "DELTA_UNKNOWN_CONFIGURATION",
            f"Unknown configuration was specified: {key}.",
            parameters={"config": key},
            hint="Check the spelling. A property of your own must not begin with delta.",
        )
    takes, kind = known
    if not takes(value):
        raise InvalidArgumentError(
            "DELTAMERGE_INVALID_PROPERTY",
            f"The table property {key} can't be {value!r}.",
            parameters={"key": key, "value": value},
            hint=f"It takes {kind}.",
        )


def _check_feature(key: str, value: str) -> None:
    name = key.removeprefix(FEATURE_PROPERTY)
    if name not in FEATURES:
        raise AnalysisError(
            "DELTA_UNSUPPORTED_FEATURES_IN_CONFIG",
            f"Table features configured in the table's properties are not recognized: {name}.",
            parameters={"features": name},
            hint="Check the spelling of the feature.",
        )
    if value.strip().lower() not in ("supported", "enabled"):
        raise AnalysisError(
            "DELTA_UNSUPPORTED_FEATURE_STATUS",
            f'Expecting the status for table feature {name} to be "supported", but got "{value}".',
            parameters={"feature": name, "status": value},
            hint="Write supported. To remove a feature, drop it.",
        )


def _check_retention(found: Mapping[str, str]) -> None:
    properties = Properties(found)
    if (_LOG in found or _DELETED in found) and properties.log_retention < properties.tombstone_retention:
        raise InvalidArgumentError(
            "DELTAMERGE_INVALID_PROPERTY",
            f"The table property {_LOG} is shorter than {_DELETED}.",
            parameters={"key": _LOG, "value": found.get(_LOG)},
            hint="Removed files may only be deleted while the log still names them: set both.",
        )
