"""Whether a stream that was analyzed with one version of a table can read files of another one.

Source: delta-spark's DeltaSource.checkReadIncompatibleSchemaChanges.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltamerge.errors import AnalysisError, UnsupportedTableError
from deltamerge.log.stream.offset import other_table
from deltamerge.log.stream.options import StreamOptions
from deltamerge.protocol.schema.types import StructType
from deltamerge.protocol.table.actions import Metadata, Protocol
from deltamerge.protocol.table.column_mapping import MappingMode, mapped_schema, mode_of
from deltamerge.protocol.table.compatibility import reads
from deltamerge.protocol.table.features import named_features
from deltamerge.protocol.table.properties import Properties

_WIDENING = ("typeWidening", "typeWidening-preview")


@dataclass(frozen=True, slots=True)
class Analyzed:
    """A version of a table, and what it has: the one with which the stream was made, or another one."""

    version: int
    protocol: Protocol
    metadata: Metadata

    @property
    def schema(self) -> StructType:
        """The columns of the table."""
        return mapped_schema(self.protocol, self.metadata)


def check_metadata(analyzed: Analyzed, other: Analyzed, options: StreamOptions) -> None:
    """Raise DeltaMergeError if the files of the other version can't be read as rows of the stream."""
    metadata, version = other.metadata, other.version
    if metadata.id != analyzed.metadata.id:
        raise other_table(metadata.id, analyzed.metadata.id)
    if options.feed:
        check_feed(metadata, version)
    theirs, ours = other.schema, analyzed.schema
    is_earlier = version < analyzed.version
    if _is_renamed(*((analyzed, other) if is_earlier else (other, analyzed))):
        raise UnsupportedTableError(
            "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG",
            f"Version {version} has other columns: one was renamed or dropped. The stream reads {ours.names}, "
            f"version {version} has {theirs.names}.",
            parameters={"readSchema": analyzed.metadata.schema_string, "incompatibleSchema": metadata.schema_string},
            hint=f"Read the table anew, with another checkpointLocation, from {'a later version' if is_earlier else 'here'} on.",
        )
    widened = is_earlier and not named_features(analyzed.protocol).isdisjoint(_WIDENING)
    if reads(ours, theirs, widened) and metadata.partition_columns == analyzed.metadata.partition_columns:
        return
    is_told = options.start_version is not None or options.start_time is not None
    raise AnalysisError(
        "DELTA_SCHEMA_CHANGED_WITH_STARTING_OPTIONS" if is_told else "DELTA_SCHEMA_CHANGED_WITH_VERSION",
        f"Detected schema change in version {version}: the stream reads {ours.names}, {version} has {theirs.names}, or "
        "other types, or other partition columns.",
        parameters={
            "version": version,
            "readSchema": analyzed.metadata.schema_string,
            "dataSchema": metadata.schema_string,
        },
        hint="Make the stream again (readStream), and start the query from its checkpoint. If that fails, too, the columns do "
        "not fit: begin with a new checkpointLocation, with startingVersion after this version.",
    )


def check_feed(metadata: Metadata, version: int) -> None:
    """Raise AnalysisError if a version of these metadata has no change data feed."""
    if not Properties(metadata.configuration).change_data_feed:
        raise AnalysisError(
            "DELTA_MISSING_CHANGE_DATA",
            f"Change data was not recorded for version {version}.",
            parameters={"version": version},
            hint="Set delta.enableChangeDataFeed, and begin at a version after that: startingVersion.",
        )


def _is_renamed(later: Analyzed, earlier: Analyzed) -> bool:
    """Whether columns were renamed or dropped between two versions: files have them by their physical names."""
    modes = mode_of(later.metadata), mode_of(earlier.metadata)
    if MappingMode.NONE in modes:
        return modes[0] is MappingMode.NONE and modes[1] is not MappingMode.NONE
    return not _keeps(later.schema, earlier.schema)


def _keeps(later: StructType, earlier: StructType) -> bool:
    """Whether each column of `earlier`, also within structs, is in `later` by the same names."""
    known = {(field.name, field.physical_name): field.type for field in later}
    for field in earlier:
        found = known.get((field.name, field.physical_name))
        if found is None:
            return False
        if isinstance(found, StructType) and isinstance(field.type, StructType) and not _keeps(found, field.type):
            return False
    return True
