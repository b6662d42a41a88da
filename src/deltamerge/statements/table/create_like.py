"""`CREATE TABLE [IF NOT EXISTS] name LIKE table [USING delta] [TBLPROPERTIES (..)] [LOCATION ..]`: a table without rows.

Source: delta-spark's DeltaAnalysis of CreateTableLikeCommand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from deltamerge.commands.table.create import Creation
from deltamerge.commands.table.create_named import CreateNamed, create_named
from deltamerge.commands.table.definition import TableDefinition
from deltamerge.errors import AnalysisError
from deltamerge.log.replay.commit_times import ENABLEMENT_TIMESTAMP, ENABLEMENT_VERSION
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.protocol.schema.types import parse_schema
from deltamerge.protocol.table.column_mapping import MAX_ID
from deltamerge.protocol.table.features import FEATURE_PROPERTY
from deltamerge.protocol.table.row_tracking import COLUMN_NAMES
from deltamerge.spark.read.catalog import NamedTable, NotDelta, delta_named, is_path, sql_name
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.rows import no_rows
from deltamerge.spark.session.settings import setting
from deltamerge.spark.session.storage import open_table
from deltamerge.spark.sql.reader import Reader
from deltamerge.statements.clauses import any_name, not_allowed, properties, text
from deltamerge.statements.statement import Statement

_CATALOG = "spark.sql.catalog.spark_catalog"
# What a table has for itself alone, and a table like it gets anew.
_OWN = (MAX_ID, *COLUMN_NAMES, ENABLEMENT_VERSION, ENABLEMENT_TIMESTAMP)
# The new table is not clustered, as in delta-spark.
_LEFT = frozenset(("clustering",))


@dataclass(frozen=True, slots=True)
class CreateLike:
    """A table like another one, as a statement says it; `format` is '' for that of the other one.

    `foreign` is the first word of a clause that Delta tables do not have.
    """

    name: tuple[str, ...]
    creation: Creation
    source: tuple[str, ...]
    format: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    location: str | None = None
    foreign: str = ""

    def run(self, spark: Session) -> Frame | None:
        """Make the table; None where neither is a Delta table. Raises AnalysisError."""
        if left_to_delta(spark, self.name):
            return None
        is_delta = self.format == "DELTA" or is_path(self.name)
        try:
            found = delta_named(spark, self.source)
        except AnalysisError:
            if is_delta:
                raise
            return None
        if isinstance(found, NotDelta) and not is_delta:
            return None
        if isinstance(found, NotDelta) or self.format not in ("", "DELTA") or self.foreign:
            over = f"a Delta table {self.foreign or f'USING {self.format.lower()}'}"
            raise not_allowed(
                f"CREATE TABLE .. LIKE {over if isinstance(found, NamedTable) else f'{sql_name(self.source)}, no Delta table,'}",
                "Make it by a query without rows: CREATE TABLE .. USING .. AS SELECT * FROM .. LIMIT 0.",
            )
        return self._made(spark, found)

    def _made(self, spark: Session, found: NamedTable) -> Frame:
        definition = _like(open_table(spark, found.location).snapshot())
        definition = replace(definition, properties={**definition.properties, **self.properties})
        create_named(spark, CreateNamed(self.name, self.creation, definition, self.location))
        return no_rows(spark)


def parse_like(reader: Reader, name: tuple[str, ...], creation: Creation) -> Statement:
    """What follows the name of the table to be made. Raises ParseError, AnalysisError."""
    reader.expect("LIKE")
    found = CreateLike(name, creation, any_name(reader))
    while not reader.done and not reader.sees(";"):
        if reader.take("USING"):
            found = replace(found, format=reader.name_text().upper())
        elif reader.take("TBLPROPERTIES"):
            found = replace(found, properties=properties(reader))
        elif reader.take("LOCATION"):
            found = replace(found, location=text(reader))
        else:
            return replace(found, foreign=reader.rest())
    reader.end()
    return found


def left_to_delta(spark: Session, name: tuple[str, ...]) -> bool:
    """Whether a table of this name is made by delta-spark, which is the session's catalog."""
    return not is_path(name) and "DeltaCatalog" in setting(spark, _CATALOG, "")


def _like(source: Snapshot) -> TableDefinition:
    """Columns with all that the log notes of them, partition columns, properties, features and comment of a table."""
    metadata, protocol = source.metadata, source.protocol
    named = (protocol.reader_features or frozenset()) | (protocol.writer_features or frozenset())
    asked = {key: value for key, value in metadata.configuration.items() if key not in _OWN}
    if not named:
        asked["delta.minReaderVersion"] = str(protocol.min_reader_version)
        asked["delta.minWriterVersion"] = str(protocol.min_writer_version)
    asked |= {f"{FEATURE_PROPERTY}{name}": "supported" for name in sorted(named - _LEFT)}
    return TableDefinition(parse_schema(metadata.schema_string), metadata.partition_columns, None, asked, metadata.description)
