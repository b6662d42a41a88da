"""delta-spark's settings, which a session may have: what each does here. This is the one place that decides.

Source: the settings that delta-spark 4.4 knows, DeltaSQLConf. A name is without `spark.databricks.delta.`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase

DELTA = "spark.databricks.delta."


class Effect(Enum):
    """What a setting does here."""

    SAME = "as in delta-spark"
    REFUSED = "refused where it would change what comes out"
    WARNED = "no effect, and the log says so"
    NONE = "no effect on what comes out"
    UNKNOWN = "neither delta-spark nor deltamerge has it"


ROWS = frozenset(("MERGE", "DELETE", "UPDATE", "WRITE"))
_MERGES, _WRITES, _MADE = frozenset(("MERGE", "UPDATE")), frozenset(("WRITE",)), frozenset(("CREATE", "WRITE"))

# Those with the same effect; docs/settings.md tells of each.
SAME = frozenset(
    (
        "allowArbitraryProperties.enabled",
        "autoCompact.enabled",
        "autoCompact.maxFileSize",
        "autoCompact.minFileSize",
        "autoCompact.minNumFiles",
        "backfill.maxNumFiles",
        "changeDataFeed.timestampOutOfRange.enabled",
        "commitInfo.userMetadata",
        "constraints.assumesDropIfExists.enabled",
        "convert.useMetadataLog",
        "delete.deletionVectors.persistent",
        "merge.deletionVectors.persistent",
        "optimize.maxDeletedRowsRatio",
        "optimize.maxFileSize",
        "optimize.minFileSize",
        "optimize.zorder.checkStatsCollection.enabled",
        "optimizeWrite.binSize",
        "optimizeWrite.enabled",
        "properties.defaults",
        "replaceWhere.constraintCheck.enabled",
        "replaceWhere.dataColumns.enabled",
        "retentionDurationCheck.enabled",
        "rowTracking.backfill.enabled",
        "rowTracking.backfill.maxNumFiles",
        "schema.autoMerge.enabled",
        "stats.collect",
        "tableFeatures.fastDropFeature.enabled",
        "update.deletionVectors.persistent",
        "vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration",
        "vacuum.lite.enabled",
        "vacuum.logging.enabled",
        "write.txnAppId",
        "write.txnVersion",
        "write.txnVersion.autoReset.enabled",
    )
)


@dataclass(frozen=True, slots=True)
class Fixed:
    """A setting that would change rows, schema, protocol or feed: `value` is what is done here, by these statements."""

    value: str
    statements: frozenset[str]


# What comes out would be another table: statements that a value would change are refused.
REFUSED: Mapping[str, Fixed] = {
    "changeDataFeed.defaultSchemaModeForColumnMappingTable": Fixed("endVersion", frozenset(("CHANGES",))),
    "deltaTableBuilder.forceTablePropertyLowerCase.enabled": Fixed("false", frozenset(("CREATE",))),
    "dynamicPartitionOverwrite.enabled": Fixed("true", _WRITES),
    "insert.preserveNullSourceStructs": Fixed("true", _WRITES),
    "legacy.storeOptionsAsProperties": Fixed("false", _MADE),
    "merge.preserveNullSourceStructs": Fixed("true", _MERGES),
    "replace.protocolDowngradeAllowed": Fixed("false", _MADE),
    "replaceWhere.dataColumnsWithCDF.enabled": Fixed("true", _WRITES),
    "resolveMergeUpdateStructsByName.enabled": Fixed("true", _MERGES),
    "restore.protocolDowngradeAllowed": Fixed("false", frozenset(("CLONE", "RESTORE"))),
    "typeWidening.allowAutomaticWidening": Fixed("always", ROWS),
    "updateAndMergeCastingFollowsAnsiEnabledFlag": Fixed("false", _MERGES),
    "variant.forceUsePreviewTableFeature": Fixed("false", _MADE | {"ALTER"}),
    "write.utcTimestampPartitionValues": Fixed("true", ROWS | {"CLONE", "CREATE", "OPTIMIZE", "RESTORE"}),
}

# They change which statements are refused, how files are laid out, or what history tells. The value is what is done here.
WARNED: Mapping[str, str] = {
    "alter.replaceColumns.safe.enabled": "true",
    "alterLocation.bypassSchemaCheck": "false",
    "alterTable.bypassCharVarcharToStringFix": "false",
    "alterTable.changeColumn.checkExpressions": "true",
    "alterTable.dropColumn.enabled": "true",
    "autoCompact.maxNumModifiedPartitions": "128",
    "autoCompact.modifiedPartitionsOnly.enabled": "true",
    "autoCompact.nonBlindAppend.enabled": "false",
    "catalog.update.enabled": "false",
    "changeColumn.checkDependentExpressionsUseV2": "true",
    "changeDataFeed.allowTimeTravelOptionsForSchema": "false",
    "changeDataFeed.unsafeBatchReadOnIncompatibleSchemaChanges.enabled": "false",
    "checkConstraints.validation.enabled": "assert",
    "checkLatestSchemaOnRead": "true",
    "clone.replaceEnabled": "true",
    "clusteredTable.numClusteringColumnsLimit": "4",
    "columnMapping.allowRemoval": "true",
    "columnMapping.reuseColumnMetadataDuringOverwrite": "true",
    "columnMapping.reuseColumnMetadataDuringReplace": "true",
    "constraints.allowUnenforcedNotNull.enabled": "false",
    "convert.metadataCheck.enabled": "true",
    "convert.partitionValues.ignoreCastFailure": "false",
    "convert.useCatalogPartitions": "true",
    "convert.useCatalogSchema": "true",
    "convertEmptyToNullForStringPartitionCol": "true",
    "createEmptySchemaTable.enabled": "true",
    "delete.allowExistsSubquery": "false",
    "dml.insert.dfByName.allowImplicitCasts": "true",
    "generatedColumn.allowNullableIngest.enabled": "true",
    "generatedColumn.validateOnWrite.enabled": "assert",
    "geo.preview.enabled": "false",
    "history.metricsEnabled": "true",
    "identityColumn.allowSyncIdentityToLowerHighWaterMark.enabled": "false",
    "identityColumn.enabled": "true",
    "insert.byName.schemaEvolution.enabled": "true",
    "insertOverwrite.removeMetrics.enabled": "true",
    "isDeltaTable.strictCheck": "true",
    "legacy.allowAmbiguousPathsInCreateTable": "false",
    "merge.insert.fixCaseSensitiveDuplicateColumns": "true",
    "merge.preserveNullSourceStructs.updateStar": "true",
    "optimize.batchSize": "",
    "optimize.clustering.mergeStrategy.minCubeSize.targetCubeSize": "161061273600",
    "optimize.clustering.mergeStrategy.minCubeSize.threshold": "107374182400",
    "partitionColumnValidity.enabled": "true",
    "replaceWhere.dataColumns.metrics.enabled": "true",
    "schema.removeExistsDefault": "true",
    "schema.typeCheck.enabled": "true",
    "schemaEvolution.merge.fixNestedStructAlignment": "true",
    "skipRecordingEmptyCommits": "true",
    "streaming.unsafeReadOnIncompatibleColumnMappingSchemaChanges.enabled": "false",
    "streaming.unsafeReadOnIncompatibleSchemaChangesDuringStreamStart.enabled": "false",
    "streaming.unsafeReadOnNullabilityChange.enabled": "false",
    "streaming.unsafeReadOnPartitionColumnChanges.enabled": "false",
    "tablePropertyConstraintsCheck.enabled": "true",
    "timeTravel.parsing.strict": "true",
    "timeTravel.resolveOnIdentifier.enabled": "true",
    "typeWidening.allowIntegralDecimalCoercion": "true",
    "typeWidening.allowTypeChangeStreamingDeltaSource": "true",
    "typeWidening.bypassStreamingTypeChangeCheck": "false",
    "typeWidening.bypassUnsupportedTypeChangeCheck": "false",
    "vacuum.enforceDeletedFileAndLogRetentionDurationCompatibility": "false",
    "vacuum.relativize.ignoreError": "false",
    "vacuum.retentionWindowIgnore.enabled": "false",
    "withEventTimeOrder.enabled": "false",
    "write.dataFilesToSubdir": "false",
}

# Speed, memory, caches, the form of checkpoints and checksums, what is logged, checks of delta-spark's own work, and connectors.
NONE = (
    "adaptiveMetadataTree.*",
    "allFilesInCrc.*",
    "alwaysCollectStats.*",
    "amt.*",
    "autoCompact.earlySkip*",
    "autoCompact.maxTablePartitionStats",
    "autoCompact.partitionStatsSize",
    "autoCompact.recordPartitionStats.*",
    "autoCompact.reservePartitions.*",
    "backfill.maxNumFilesFactor",
    "catalog.enableServerSidePlanning",
    "catalog.update.longFieldTruncationThreshold",
    "catalog.update.threadPoolSize",
    "changelogV2.*",
    "changeColumn.renameColumnEscapeName",
    "checkpoint*",
    "checksum*",
    "clone.iceberg.*",
    "clusteredTable.enableClusteringTablePreview",
    "collectStats.*",
    "columnMapping.checkMaxColumnId",
    "columnMapping.disallowEnablingWhenColumnMappingMetadataAlreadyExists",
    "columnMapping.stripMetadata",
    "command*",
    "commit.*",
    "commitLock.*",
    "commitMetrics.*",
    "commitStats.*",
    "commitValidation.*",
    "conflictChecker.*",
    "conflictDetection.*",
    "convert.iceberg.*",
    "coordinatedCommits.*",
    "createDataFrame.*",
    "deletionVectors.*",
    "delta.log.*",
    "deltaLog.*",
    "dmlMetricsFromMetadata.*",
    "domainMetadatasInCrc.*",
    "dummyFileManager.*",
    "duplicateActionCheck.*",
    "dynamicPartitionOverwrite.parsePartitionValues",
    "emptyFileCheck.*",
    "enableTableRedirectFeature",
    "failOnPartitionValueParsingError",
    "featureEnablement.*",
    "fileSizeHistogramMetrics.*",
    "generatedColumn.partitionFilterOptimization.*",
    "history.maxKeysPerList",
    "history.threadPoolSize",
    "hms.*",
    "hudi.*",
    "iceberg.*",
    "import.*",
    "inCommitTimestamp.*",
    "includeTableIdInFileIndexComparison",
    "incremental.*",
    "insertReplaceOnOrUsing.*",
    "internalUdfOptimization.*",
    "isDeltaTable.throwOnError",
    "lastCheckpoint.*",
    "lastCommitVersionInSession",
    "liquid.*",
    "loadFileSystemConfigsFromDataFrameOptions",
    "maxCommitAttempts",
    "maxNonConflictCommitAttempts",
    "maxSnapshotLineageLength",
    "merge.analysis.*",
    "merge.emptySchemaTargetCheck.*",
    "merge.fail*",
    "merge.forceSourceMaterialization*",
    "merge.materialize*",
    "merge.optimize*",
    "merge.repartitionBeforeWrite.*",
    "merge.skipOssResolutionWithStar",
    "metrics.*",
    "normalizePartitionValuesOnRead",
    "nullPartitionCheck.*",
    "numRecordsValidation.*",
    "optimize.conditionalIncrementMetric.*",
    "optimize.maxThreads",
    "optimize.repartition.*",
    "optimize.zorder.fastInterleaveBits.*",
    "optimizeMetadataQuery.*",
    "optimizeWrite.maxShufflePartitions",
    "optimizeWrite.numShuffleBlocks",
    "partitionColumnChangeCheck",
    "postCommitHook.*",
    "readProtocolAndMetadataFromChecksum.*",
    "replaceOn.*",
    "replaceUsing.*",
    "requiredSparkConfsCheck.*",
    "rowTracking.ignoreSuspension",
    "schema.removeSparkInternalMetadata",
    "setTransactionsInCrc.*",
    "skipRedirectFeature",
    "skipping.*",
    "snapshot*",
    "spark.sql.delta.sharing.*",
    "stalenessLimit",
    "stats.collect.using.tableSchema",
    "stats.limit*",
    "stats.skipping",
    "statsAsStructInCheckpoint.*",
    "streaming.*",
    "table.parquetV2.*",
    "tableFeatures.*",
    "testOnly.*",
    "typeWidening.*",
    "uniform.*",
    "v2.*",
    "vacuum.parallelDelete.*",
    "variant.disableVariantTableFeatureForSpark40",
    "variantShredding.*",
    "versionChecksum.*",
    "workAroundColonsInHadoopPaths.*",
    "writeChecksumFile.*",
)


def effect_of(name: str) -> Effect:
    """What a setting does here, by its name without `spark.databricks.delta.`."""
    if name in SAME or name.startswith("properties.defaults."):
        return Effect.SAME
    if name in REFUSED:
        return Effect.REFUSED
    if name in WARNED:
        return Effect.WARNED
    return Effect.NONE if any(fnmatchcase(name, pattern) for pattern in NONE) else Effect.UNKNOWN
