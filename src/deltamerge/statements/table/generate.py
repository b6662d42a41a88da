"""GENERATE symlink_format_manifest FOR TABLE name.

Source: delta-spark's DeltaSqlBase.g4.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltamerge.commands.layout.manifests import check_mode, generate_manifests
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.rows import no_rows
from deltamerge.spark.sql.reader import Reader
from deltamerge.statements.clauses import any_name, one_name
from deltamerge.statements.target import TableOrPath


@dataclass(frozen=True, slots=True)
class Generate:
    """A GENERATE of what `mode` says, for a table by its name."""

    mode: str
    table: TableOrPath

    def run(self, spark: Session) -> Frame:
        """Generate it and return no rows."""
        check_mode(self.mode)
        log, _ = self.table.opened(spark, "GENERATE")
        generate_manifests(log)
        return no_rows(spark)


def parse_generate(reader: Reader) -> Generate:
    """Read what follows GENERATE. Raises ParseError."""
    mode = one_name(reader)
    reader.expect("FOR")
    reader.expect("TABLE")
    name = any_name(reader)
    reader.end()
    return Generate(mode, TableOrPath(name))
