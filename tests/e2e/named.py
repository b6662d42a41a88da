"""Merges of tables without aliases, whose columns are qualified by the tables' names, and what delta-spark makes of them.

`tests/e2e/test_names.py` runs them here, `tests/oracle/test_names.py` there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import functions as F

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Tables:
    """The tables `target` and `source` of the database `default`: columns, and rows as SQL values."""

    target: str
    target_rows: str
    source: str
    source_rows: str


PLAIN = Tables("id INT, n INT", "(1, 10), (2, 20)", "id INT, n INT", "(2, 21), (3, 30)")
# A column is called like its table, and a field like a column.
ALIKE = Tables(
    "id INT, a INT, target STRUCT<a: INT, b: INT>",
    "(1, 1, named_struct('a', 10, 'b', 11)), (2, 2, named_struct('a', 20, 'b', 21))",
    "id INT, a INT, source STRUCT<a: INT, b: INT>",
    "(2, 5, named_struct('a', 50, 'b', 51))",
)
# The source has columns that are called like the target, and like the database with both tables in it.
CROSSED = Tables(
    "id INT, n INT",
    "(1, 10), (2, 20)",
    "id INT, target STRUCT<a: INT, n: INT>, default STRUCT<target: STRUCT<a: INT>, source: STRUCT<a: INT>>",
    "(2, named_struct('a', 50, 'n', 51), named_struct('target', named_struct('a', 60), 'source', named_struct('a', 61)))",
)


@dataclass(frozen=True)
class NamedMerge:
    """`WHEN MATCHED THEN UPDATE SET key = value`, a DELETE where there is no key: the row with id 2 then, or a condition."""

    tables: Tables
    on: str
    key: str | None
    value: str
    result: Row | str | None
    target_alias: str | None = None
    source_alias: str | None = None
    builder: bool = False

    @property
    def text(self) -> str:
        """The merge as SQL."""
        aliases = [f" AS {alias}" if alias else "" for alias in (self.target_alias, self.source_alias)]
        action = f"AND {self.value} THEN DELETE" if self.key is None else f"THEN UPDATE SET {self.key} = {self.value}"
        return f"MERGE INTO target{aliases[0]} USING source{aliases[1]} ON {self.on} WHEN MATCHED {action}"

    def run(self, table: Any, source: Any) -> None:
        """The merge by a builder: that of either library."""
        table = table.alias(self.target_alias) if self.target_alias else table
        merge = table.merge(source.alias(self.source_alias) if self.source_alias else source, F.expr(self.on))
        if self.key is None:
            merge.whenMatchedDelete(self.value).execute()
        else:
            merge.whenMatchedUpdate(F.lit(True), {self.key: self.value}).execute()


ON = "target.id = source.id"
UNRESOLVED = "DELTA_MERGE_UNRESOLVED_EXPRESSION"


def both(*given: Any, **names: str) -> list[NamedMerge]:
    """A merge as SQL and by the builder."""
    return [NamedMerge(*given, **names, builder=builder) for builder in (False, True)]  # type: ignore[arg-type]


MERGES = [
    *both(PLAIN, ON, "target.n", "source.n + target.n", (2, 41)),
    *both(PLAIN, "default.target.id = Default.SOURCE.id", "DEFAULT.target.n", "default.source.n + default.target.n", (2, 41)),
    *both(
        PLAIN,
        "spark_catalog.default.target.id = spark_catalog.default.source.id",
        "spark_catalog.default.target.n",
        "spark_catalog.default.source.n",
        (2, 21),
    ),
    NamedMerge(PLAIN, "default.target.id = source.id", None, "default.source.n > spark_catalog.default.target.n", None),
    NamedMerge(PLAIN, "target.id = source.id", "n", "source.n", UNRESOLVED, "t"),
    NamedMerge(PLAIN, "t.id = source.id", "target.n", "source.n", UNRESOLVED, "t", builder=True),
    NamedMerge(PLAIN, "t.id = source.id", "default.t.n", "source.n", UNRESOLVED, "t"),
    NamedMerge(PLAIN, "target.id = default.s.id", "n", "s.n", UNRESOLVED, source_alias="s"),
    NamedMerge(PLAIN, "t.id = default.source.id", "t.n", "source.n", (2, 21), "t", builder=True),
    *both(ALIKE, ON, "target.a", "source.a", (2, 5, (20, 21))),
    *both(ALIKE, ON, "target.target.a", "source.source.a", (2, 2, (50, 21))),
    *both(ALIKE, ON, "target.b", "source.b", (2, 2, (20, 51))),
    NamedMerge(ALIKE, ON, "default.target.target.a", "default.source.source.a", (2, 2, (50, 21))),
    *both(ALIKE, "t.id = s.id", "target.a", "source.a", (2, 2, (50, 21)), target_alias="t", source_alias="s"),
    NamedMerge(ALIKE, "t.id = s.id", "t.target.a", "s.source.b", (2, 2, (51, 21)), "t", "s"),
    NamedMerge(ALIKE, "t.id = s.id", "target.target.a", "s.a", "FIELD_NOT_FOUND", "t", "s"),
    NamedMerge(ALIKE, "target.target.a = source.source.a - 30", None, "target.b = 21 AND source.b = 51 AND target.a = 2", None),
    *both(CROSSED, ON, "n", "target.a + target.n", (2, 70)),
    *both(CROSSED, ON, "n", "default.target.a + default.target.n", (2, 80)),
    NamedMerge(CROSSED, ON, "default.target.n", "default.source.a + source.target.n", (2, 112)),
    NamedMerge(CROSSED, "t.id = source.id", "n", "target.n", (2, 51), "t"),
    NamedMerge(CROSSED, ON, "target.a", "1", UNRESOLVED),
]
