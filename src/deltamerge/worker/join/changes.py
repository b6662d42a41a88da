"""Rows as the clauses of a merge change them, at the tasks of an exchange: which clause applies, and the values that it sets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from deltamerge.worker.join.buffers import pieces
from deltamerge.worker.join.clauses import (
    ClauseProgram,
    change_rows,
    chosen_rows,
    condition_columns,
    copied_rows,
    needed_columns,
)
from deltamerge.worker.join.matching import Flags, Indices, MatchCounts, Matches
from deltamerge.worker.scan.scan import FILE, ROW
from deltamerge.worker.skipping.holds import Sides

_FEW_TABLES = 32  # each further one costs time when the file is written


class ChangedPairs:
    """What MATCHED clauses change of some target rows, as matches are found: of each row two changes at most, an error."""

    def __init__(self, programs: Sequence[ClauseProgram], schema: pa.Schema) -> None:
        self._programs, self._schema = programs, schema
        self._copies = len(programs) <= 1 and all(program.only_copies for program in programs)
        self._of_source = needed_columns(programs, "source")
        self._seen = MatchCounts()
        self._counts = MatchCounts()

    def add(self, numbers: Indices) -> Flags:
        """Count matches. Which of them are the first or the second of their target row, of which these are the numbers; they
        ascend.
        """
        return self._seen.add(numbers)

    def changes(
        self, source: pa.Table, target: pa.Table, matches: Matches, numbers: Indices, first: Flags, size: int
    ) -> Iterator[tuple[pa.Table, Indices]]:
        """Changed rows in pieces of about `size` bytes, and which source rows these come from, by matches that were counted:
        `first` is what `add` gave for them.
        """
        files, positions = target.column(FILE).to_numpy(), target.column(ROW).to_numpy()
        if not self._programs:
            return
        if self._copies:
            at, chosen = matches.target[first], matches.source[first]
            program = self._programs[0]
            for piece in pieces(source.select(program.columns("source")), chosen, size):
                rows, places = chosen[piece], at[piece]
                yield copied_rows(program, self._schema, source, rows, files[places], positions[places]), rows
            return
        target = target.combine_chunks()
        asked_source = source.select(condition_columns(self._programs, "source"))
        asked_target = target.select(condition_columns(self._programs, "target"))
        for piece in pieces(source.select(self._of_source), matches.source, size):
            at, chosen = matches.target[piece], matches.source[piece]
            found = chosen_rows(self._programs, _pairs(asked_target, asked_source, at, chosen))
            applies = np.zeros(len(at), np.bool_)
            applies[np.concatenate(found)] = True
            applies[applies] = self._counts.add(numbers[piece][applies])
            for program, changed in zip(self._programs, found, strict=True):
                own = changed[applies[changed]]
                if len(own):
                    needed = target.select(program.needed("target")), source.select(program.needed("source"))
                    pairs = _pairs(*needed, at[own], chosen[own])
                    yield change_rows(program, self._schema, pairs, files[at[own]], positions[at[own]]), chosen[own]

    def without_match(self, numbers: Indices) -> Indices:
        """The target rows that have had no match, of those of these numbers."""
        return self._seen.without_match(numbers)


def _pairs(target: pa.Table, source: pa.Table, at: Indices, chosen: Indices) -> Sides:
    """Pairs of a target row and a source row each."""
    return Sides(len(at), target.take(pa.array(at)), source.take(pa.array(chosen)))


def inserted(
    programs: Sequence[ClauseProgram], schema: pa.Schema, source: pa.Table, alone: Indices
) -> Iterator[tuple[pa.Table, Indices]]:
    """What NOT MATCHED clauses insert of the source rows `alone`, and which rows these come from."""
    if len(programs) == 1 and programs[0].only_copies:
        yield copied_rows(programs[0], schema, source, alone), alone
        return
    asked = Sides(len(alone), None, source.select(condition_columns(programs, "source")).take(pa.array(alone)))
    for program, own in zip(programs, chosen_rows(programs, asked), strict=True):
        if len(own):
            needed = source.select(program.needed("source")).take(pa.array(alone[own]))
            yield change_rows(program, schema, Sides(len(own), None, needed)), alone[own]


def by_position(changed: Sequence[pa.Table]) -> pa.Table:
    """Changed rows of one file in the order of their positions. A few tables that are in order are not copied."""
    rows = pa.concat_tables(changed)
    positions = rows.column(ROW).to_numpy()
    return rows if len(changed) <= _FEW_TABLES and (positions[1:] >= positions[:-1]).all() else rows.sort_by(ROW)


def changed_alone(programs: Sequence[ClauseProgram], schema: pa.Schema, target: pa.Table) -> Iterator[pa.Table]:
    """What NOT MATCHED BY SOURCE clauses change of target rows without a match."""
    rows = Sides(target.num_rows, target)
    files, positions = target.column(FILE).to_numpy(), target.column(ROW).to_numpy()
    for program, own in zip(programs, chosen_rows(programs, rows), strict=True):
        if len(own):
            yield change_rows(program, schema, rows.take(own), files[own], positions[own])
