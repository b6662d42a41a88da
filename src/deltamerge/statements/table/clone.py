"""`CREATE [OR REPLACE] TABLE name SHALLOW CLONE table [VERSION | TIMESTAMP AS OF ..] [TBLPROPERTIES (..)] [LOCATION ..]`.

A folder of Parquet files, parquet.`path`, can stand in the place of the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from deltamerge.commands.table.clone import Clone, clone_table
from deltamerge.commands.table.convert import parquet_source
from deltamerge.commands.table.create import Creation
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.spark.read.catalog import is_path, target_named
from deltamerge.spark.read.travel import snapshot_at
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.rows import one_row, rows_frame
from deltamerge.spark.sql.reader import Reader
from deltamerge.statements.clauses import any_name, not_allowed, properties, text
from deltamerge.statements.statement import Statement

_PARQUET = "parquet"
_COUNTERS = {
    "source_table_size": "sourceTableSize",
    "source_num_of_files": "sourceNumOfFiles",
    "num_removed_files": "numRemovedFiles",
    "num_copied_files": "numCopiedFiles",
    "removed_files_size": "removedFilesSize",
    "copied_files_size": "copiedFilesSize",
}


@dataclass(frozen=True, slots=True)
class CloneStatement:
    """A clone as a statement says it."""

    target: tuple[str, ...]
    creation: Creation
    source: tuple[str, ...]
    version: str | None = None
    timestamp: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    location: str | None = None

    def run(self, spark: Session) -> Frame:
        """Make the clone; one row of counters, none where a table is there that is kept."""
        source, name = self._source(spark)
        replaces, keeps = self.creation.replaces, self.creation is Creation.CREATE_IF_NOT_EXISTS
        request = Clone(source, name, self.target, self.location, self.properties, replaces, keeps)
        _, counters = clone_table(spark, request)
        if not counters:
            return rows_frame(spark, pa.table({column: pa.array([], pa.int64()) for column in _COUNTERS}))
        return one_row(spark, {column: counters[name] for column, name in _COUNTERS.items()})

    def _source(self, spark: Session) -> tuple[Snapshot, str]:
        """The table to be cloned, or a folder of Parquet files as one, and how history names it."""
        if len(self.source) == 2 and self.source[0].lower() == _PARQUET and "/" in self.source[1]:
            if self.version is not None or self.timestamp is not None:
                raise not_allowed("CLONE of Parquet files at a version or a time", "Leave VERSION AS OF and TIMESTAMP AS OF out.")
            return parquet_source(spark, self.source[1]), f"{_PARQUET}.`{self.source[1]}`"
        found = target_named(spark, self.source, "CLONE")
        source = snapshot_at(spark, found.location, self.version, self.timestamp)
        return source, f"delta.`{source.store.url}`" if is_path(self.source) else ".".join(found.name)


def parse_clone(reader: Reader, target: tuple[str, ...], creation: Creation) -> Statement:
    """What follows the name of the table to be made. Raises ParseError, AnalysisError."""
    reader.expect("SHALLOW")
    reader.expect("CLONE")
    if creation is Creation.REPLACE:
        raise not_allowed("REPLACE TABLE .. SHALLOW CLONE", "CREATE OR REPLACE TABLE .. SHALLOW CLONE")
    found = CloneStatement(target, creation, any_name(reader))
    for word in ("VERSION", "TIMESTAMP"):
        if reader.take(word):
            reader.expect("AS")
            reader.expect("OF")
            said = reader.string() if word == "VERSION" else None
            said = reader.expression("TBLPROPERTIES", "LOCATION") if said is None else said
            found = replace(found, version=said) if word == "VERSION" else replace(found, timestamp=said)
    if reader.take("TBLPROPERTIES"):
        found = replace(found, properties=properties(reader))
    if reader.take("LOCATION"):
        found = replace(found, location=text(reader))
    reader.end()
    return found
