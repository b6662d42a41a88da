"""A random merge as data, and as a case in the notation of `tests/cases`, so that a failing one can be kept as it is printed."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.cases.format import Call, Case, Table
from tests.cases.values import quoted_name

SIDES = ("MATCHED", "NOT MATCHED", "NOT MATCHED BY SOURCE")
_PLAINEST = re.compile(r"[a-z]\d*")
_METHODS = {"MATCHED": "whenMatched", "NOT MATCHED": "whenNotMatched", "NOT MATCHED BY SOURCE": "whenNotMatchedBySource"}


@dataclass(frozen=True)
class Column:
    """A column by name and SQL type; `more` is what a header says of it beyond that."""

    name: str
    type: str
    more: str = ""

    @property
    def quoted(self) -> str:
        """The name as SQL has it; words of SQL must be in backquotes, so that all but the plainest names are."""
        return self.name if _PLAINEST.fullmatch(self.name) else "`" + self.name.replace("`", "``") + "`"

    @property
    def cell(self) -> str:
        """The column in a header."""
        return f"{quoted_name(self.name)} {self.type}{self.more}"


@dataclass(frozen=True)
class Clause:
    """A clause in SQL text: `values` are (column, expression) pairs, None for `*` and for DELETE."""

    side: str
    action: str
    condition: str | None = None
    values: tuple[tuple[str, str], ...] | None = None

    @property
    def call(self) -> Call:
        """The clause as a call of the builder."""
        star = self.values is None and self.action != "DELETE"
        return Call(f"{_METHODS[self.side]}{self.action.capitalize()}{'All' if star else ''}", self.condition, self.values)

    @property
    def text(self) -> str:
        """The clause in SQL."""
        condition = "" if self.condition is None else f" AND {self.condition}"
        return f"WHEN {self.side}{condition} THEN {self.action}{self._values}"

    @property
    def _values(self) -> str:
        if self.action == "DELETE":
            return ""
        if self.values is None:
            return " SET *" if self.action == "UPDATE" else " *"
        if self.action == "UPDATE":
            return " SET " + ", ".join(f"{name} = {value}" for name, value in self.values)
        names, values = zip(*self.values, strict=True)
        return f" ({', '.join(names)}) VALUES ({', '.join(values)})"


@dataclass(frozen=True)
class Merge:
    """One random merge; rows are cells in the order of the columns.

    `vectors` is None for a table without deletion vectors, "on" for one that writes them, "off" for one that stopped to do
    so; the rows for which `deleted` is true were deleted before. `on` are conditions that are joined by AND.
    """

    seed: int
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    files: int
    source_columns: tuple[Column, ...]
    source_rows: tuple[tuple[str, ...], ...]
    on: tuple[str, ...]
    clauses: tuple[Clause, ...]
    partition_by: tuple[str, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    vectors: str | None = None
    deleted: str | None = None
    evolves: bool = False

    @property
    def case(self) -> Case:
        """The merge as a case: in SQL where SQL can say it, by the builder else, and now and then nevertheless."""
        step = max(1, -(-len(self.rows) // self.files))
        files = [self.rows[start : start + step] for start in range(0, len(self.rows), step)] or [()]
        properties = (*self.properties, *([("delta.enableDeletionVectors", "true")] if self.vectors else []))
        target = Table(
            tuple(column.cell for column in self.columns),
            tuple(tuple(map(" | ".join, rows)) for rows in files),
            self.partition_by,
            properties,
            self.deleted,
        )
        source = Table(tuple(c.cell for c in self.source_columns), (tuple(map(" | ".join, self.source_rows)),))
        in_sql = self.seed % 3 and self._sql_can_say_it
        statement = self.statement if in_sql else None
        return Case(f"seed {self.seed}", 0, "random", target, source, (), statement, () if in_sql else self.calls)

    @property
    def condition(self) -> str:
        """The search condition."""
        return " AND ".join(self.on)

    @property
    def calls(self) -> tuple[Call, ...]:
        """The merge by the builder."""
        evolution = (Call("withSchemaEvolution", None, None),) if self.evolves else ()
        return (Call("on", self.condition, None), *evolution, *(clause.call for clause in self.clauses))

    @property
    def statement(self) -> str:
        """The merge in SQL."""
        evolution = "WITH SCHEMA EVOLUTION " if self.evolves else ""
        lines = [f"MERGE {evolution}INTO t USING s ON {self.condition}", *(clause.text for clause in self.clauses)]
        return "\n".join(lines)

    @property
    def _sql_can_say_it(self) -> bool:
        sides = [SIDES.index(clause.side) for clause in self.clauses]
        return sides == sorted(sides) and all(clause.values != () for clause in self.clauses)

    def __str__(self) -> str:
        """The merge as the text of a case."""
        case = self.case
        assert case.source is not None
        lines = ["target", *_table_lines(case.target)]
        lines += [f"partitioned by {', '.join(self.partition_by)}"] if self.partition_by else []
        lines += [f"property {name} = {value}" for name, value in case.target.properties]
        lines += [f"deleted {self.deleted}"] if self.deleted else []
        lines += ["-- the table has stopped to write deletion vectors"] if self.vectors == "off" else []
        lines += ["source", *_table_lines(case.source)]
        if case.statement is not None:
            lines += ["merge", *("    " + line for line in case.statement.splitlines())]
        else:
            lines += ["builder", *(f"    {_call_text(call)}" for call in case.builder)]
        return f"## seed {self.seed}\n" + "\n".join(lines)


def _table_lines(table: Table) -> list[str]:
    lines = ["    " + " | ".join(table.header)]
    for number, file in enumerate(table.files):
        lines += ["    ~~~"] if number else []
        lines += [f"    {row}" for row in file]
    return lines


def _call_text(call: Call) -> str:
    values = "" if call.assignments is None else ": " + (", ".join(f"{k} = {v}" for k, v in call.assignments) or "nothing")
    return f"{call.method}({call.condition or ''}){values}"
