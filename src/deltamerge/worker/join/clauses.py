"""What clauses write, as the driver and workers carry it out: for each column where its value comes from.

The schema of changed rows is known here alone: the file and position of a target row (null for inserted rows), the clause, and
one column for each column that some clause sets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from deltamerge.worker.join.buffers import pieces
from deltamerge.worker.join.matching import Indices
from deltamerge.worker.scan.scan import POSITION_FIELDS
from deltamerge.worker.write.rewrite import CLAUSE, conform_column

Side = Literal["source", "target", "evaluated"]


@dataclass(frozen=True)
class Origin:
    """Where a value comes from: a column of the source row or of the target row, or one that Spark has evaluated."""

    side: Side
    column: str


@dataclass(frozen=True)
class ClauseProgram:
    """What the clause of a `number` writes: for each column that it sets where the value comes from, None for a null."""

    number: int
    values: Mapping[str, Origin | None] = field(default_factory=dict)

    def columns(self, side: Side) -> list[str]:
        """The columns of one side that it writes."""
        return sorted({origin.column for origin in self.values.values() if origin is not None and origin.side == side})


def change_schema(written: pa.Schema) -> pa.Schema:
    """The schema of changed rows where clauses set the columns `written`."""
    nullable = [field.with_nullable(True) for field in (*POSITION_FIELDS, *written)]
    return pa.schema([*nullable[:2], pa.field(CLAUSE, pa.int32()), *nullable[2:]])


def changed_rows(
    program: ClauseProgram, schema: pa.Schema, count: int, sides: Mapping[str, pa.Table], files: Any = None, rows: Any = None
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
            columns.append(conform_column(sides[origin.side].column(origin.column), written.type))
    return pa.table(columns, schema=schema)


def copied_rows(
    program: ClauseProgram, schema: pa.Schema, source: pa.Table, chosen: Indices, files: Any = None, rows: Any = None
) -> pa.Table:
    """`changed_rows` of the `chosen` source rows by a clause that copies the source's columns alone."""
    own = source.select(program.columns("source"))
    is_whole = len(chosen) == source.num_rows and bool((np.diff(chosen, prepend=-1) == 1).all())
    own = own if is_whole or not own.num_columns else own.take(pa.array(chosen))
    return changed_rows(program, schema, len(chosen), {"source": own}, files, rows)


def copied_pieces(
    program: ClauseProgram, schema: pa.Schema, source: pa.Table, chosen: Indices, files: Any, rows: Indices, size: int
) -> Iterator[pa.Table]:
    """`copied_rows` in pieces of about `size` bytes: one long source row may match many target rows."""
    for piece in pieces(source.select(program.columns("source")), chosen, size):
        place = files if isinstance(files, int) else files[piece]
        yield copied_rows(program, schema, source, chosen[piece], place, rows[piece])
