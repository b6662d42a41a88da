"""What clauses do, as the driver and workers carry it out: for which rows, and for each column where its value comes from.

The schema of changed rows is known here alone: the file and position of a target row (null for inserted rows), the clause, and
one column for each column that some clause sets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from deltamerge.protocol.values.computed import Value, columns_of_value
from deltamerge.protocol.values.condition import Condition, columns_in
from deltamerge.protocol.values.condition import Side as RowSide
from deltamerge.worker.join.computed import computed_values
from deltamerge.worker.join.matching import Indices
from deltamerge.worker.scan.outcomes import AttemptEnded, NotEvaluable
from deltamerge.worker.scan.scan import POSITION_FIELDS
from deltamerge.worker.skipping.holds import Sides, holds
from deltamerge.worker.write.rewrite import CLAUSE, conform_column

Side = Literal["source", "target", "evaluated"]


@dataclass(frozen=True)
class Origin:
    """Where a value comes from: a column of the source row or of the target row, or one that Spark has evaluated."""

    side: Side
    column: str


@dataclass(frozen=True)
class ClauseProgram:
    """What the clause of a `number` writes: for each column that it sets where the value comes from, None for a null.

    Where Arrow carries out the whole clause, `condition` says for which rows it does, None for all, and `computed` has the values
    that are no copies, by the names under which they are evaluated.
    """

    number: int
    values: Mapping[str, Origin | None] = field(default_factory=dict)
    condition: Condition | None = None
    computed: Mapping[str, Value] = field(default_factory=dict)

    def columns(self, side: Side) -> list[str]:
        """The columns of one side that it copies."""
        return sorted({origin.column for origin in self.values.values() if origin is not None and origin.side == side})

    def asked(self, side: RowSide) -> list[str]:
        """The columns of one side that its condition and its computed values need."""
        used = set() if self.condition is None else set(columns_in(self.condition))
        used |= {column for value in self.computed.values() for column in columns_of_value(value)}
        return sorted({column.name for column in used if column.side == side})

    def needed(self, side: RowSide) -> list[str]:
        """The columns of one side that it needs: copied ones, and those that it asks for."""
        return sorted({*self.columns(side), *self.asked(side)})

    @property
    def copies_source(self) -> bool:
        """Whether the values that it sets are columns of the source or nulls."""
        return not self.columns("target") and not self.columns("evaluated")

    @property
    def only_copies(self) -> bool:
        """Whether it changes each row, by columns of the source or nulls alone."""
        return self.condition is None and self.copies_source


def needed_columns(programs: Iterable[ClauseProgram], side: RowSide) -> list[str]:
    """The columns of one side that clauses need."""
    return sorted({name for program in programs for name in program.needed(side)})


def asked_columns(programs: Iterable[ClauseProgram], side: RowSide) -> list[str]:
    """The columns of one side that conditions and computed values of clauses need."""
    return sorted({name for program in programs for name in program.asked(side)})


def condition_columns(programs: Iterable[ClauseProgram], side: RowSide) -> list[str]:
    """The columns of one side that conditions of clauses need."""
    used = {column for program in programs if program.condition is not None for column in columns_in(program.condition)}
    return sorted({column.name for column in used if column.side == side})


def chosen_rows(programs: Sequence[ClauseProgram], rows: Sides) -> list[Indices]:
    """For each of the clauses about one kind of rows those that it changes: the first whose condition is true does."""
    left = np.ones(rows.count, np.bool_)
    found = []
    for program in programs:
        applies = left if program.condition is None else left & holds(program.condition, rows)
        found.append(np.flatnonzero(applies))
        left = left & ~applies
    return found


def change_rows(program: ClauseProgram, schema: pa.Schema, rows: Sides, files: Any = None, positions: Any = None) -> pa.Table:
    """`changed_rows` by a clause of which Arrow carries out all. Raises AttemptEnded (NotEvaluable) where a number exceeds its
    type.
    """
    evaluated = computed_values(program.computed, rows) if program.computed else None
    if program.computed and evaluated is None:
        raise AttemptEnded(NotEvaluable("a number exceeds its type, and Spark's settings say what then is"))
    tables = {"source": rows.source, "target": rows.target, "evaluated": evaluated}
    return changed_rows(program, schema, rows.count, tables, files, positions)


def change_schema(written: pa.Schema) -> pa.Schema:
    """The schema of changed rows where clauses set the columns `written`."""
    nullable = [field.with_nullable(True) for field in (*POSITION_FIELDS, *written)]
    return pa.schema([*nullable[:2], pa.field(CLAUSE, pa.int32()), *nullable[2:]])


def changed_rows(
    program: ClauseProgram,
    schema: pa.Schema,
    count: int,
    sides: Mapping[str, pa.Table | None],
    files: Any = None,
    rows: Any = None,
) -> pa.Table:
    """Some `count` rows as a clause changes them, of `schema`, by the columns that the `sides` have of these rows.

    They are `rows` of one of the `files` each, or of one file for all; inserted ones if there is none.
    """
    files = pa.nulls(count, pa.int32()) if files is None else pa.array(np.broadcast_to(files, count), pa.int32())
    positions = pa.nulls(count, pa.int64()) if rows is None else pa.array(rows, pa.int64())
    columns = [files, positions, pa.array(np.full(count, program.number, np.int32))]
    for written in list(schema)[len(columns) :]:
        origin = program.values.get(written.name)
        if origin is None:
            columns.append(pa.nulls(count, written.type))
        else:
            side = sides[origin.side]
            assert side is not None
            columns.append(conform_column(side.column(origin.column), written.type))
    return pa.table(columns, schema=schema)


def copied_rows(
    program: ClauseProgram, schema: pa.Schema, source: pa.Table, chosen: Indices, files: Any = None, rows: Any = None
) -> pa.Table:
    """`changed_rows` of the `chosen` source rows by a clause that copies the source's columns alone."""
    own = source.select(program.columns("source"))
    is_whole = len(chosen) == source.num_rows and bool((np.diff(chosen, prepend=-1) == 1).all())
    own = own if is_whole or not own.num_columns else own.take(pa.array(chosen))
    return changed_rows(program, schema, len(chosen), {"source": own}, files, rows)
