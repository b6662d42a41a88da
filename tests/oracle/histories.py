"""Histories in which delta-spark and delta-rs write beside deltamerge, against the same serial model.

Merges of delta-spark are held while a task reads their source: they have read the table by then. The other statements of both
engines begin and end while statements of deltamerge, and such merges, are open.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable as RustTable
from deltalake import write_deltalake
from deltalake.exceptions import DeltaError
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from pyspark.sql import SparkSession

from tests.faults import serial
from tests.faults.histories import CHANGES, MERGES, WRITES, Held, Histories, ids, parts, values
from tests.faults.serial import Serial, Step
from tests.oracle.races import CONFLICTS

ENGINES = ("delta-spark", "delta-rs")
_NUMBERS = itertools.count()


class HeldMerge(Held):
    """A merge of delta-spark: the task that reads its source waits for a file."""

    writer = "delta-spark "

    def __init__(self, spark: SparkSession, text: str, step: Step, read: int) -> None:
        self._folder = Path(tempfile.mkdtemp())
        name = f"hold_{next(_NUMBERS)}"
        spark.udf.register(name, _holding(str(self._folder)), "boolean")
        held = text.replace("USING (", "USING (SELECT * FROM (SELECT /*+ COALESCE(1) */ * FROM (").replace(
            ") s ON", f")) WHERE {name}(id)) s ON"
        )
        super().__init__(lambda: spark.sql(held).collect(), step, read)

    def is_held(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if (self._folder / "reached").exists() or super().is_held(0.05):
                return True
        return False

    def finish(self) -> None:
        (self._folder / "goes").touch()
        super().finish()
        shutil.rmtree(self._folder)

    def may_fail(self, table: Serial) -> bool:
        """Whether its error is a conflict: delta-spark sees more of them than there are."""
        return bool(table.steps[self.read + 1 :]) and type(self.error).__name__ in CONFLICTS


def _holding(folder: str) -> Callable[[int], bool]:
    def hold(_: int) -> bool:
        open(f"{folder}/reached", "a").close()
        while os.path.exists(folder) and not os.path.exists(f"{folder}/goes"):
            time.sleep(0.02)
        return True

    return hold


class Alone(Held):
    """A statement that reads and commits at once: what it fails with is no conflict."""

    failures = "refusals"

    def __init__(self, writer: str, run: Callable[[], object], step: Step, read: int) -> None:
        self.writer, self.step, self.read, self._run_it = f"{writer} ", step, read, run
        self.error = None

    def finish(self) -> None:
        try:
            self._run_it()
        except Exception as error:
            self.error = error

    def may_fail(self, table: Serial) -> bool:
        """Whether the engine has said what it cannot do."""
        said = str(self.error)
        return isinstance(self.error, DeltaError) and ("Unsupported table features" in said or "not yet supported" in said)


@dataclass(frozen=True)
class Rust:
    """A statement of delta-rs."""

    step: Step
    run: Callable[[RustTable], Any]


def _source(columns: Mapping[str, Any]) -> pa.Table:
    return pa.table({name: pa.array(list(found), pa.int32()) for name, found in columns.items()})


def rust_merge(source: Mapping[int, int], part: int | None) -> Rust:
    """Upsert by key."""
    on = "t.id = s.id" if part is None else f"t.id = s.id AND t.part = s.part AND t.part = {part}"
    rows = _source({"id": source, "part": [part or 0] * len(source), "n": source.values()})

    def run(table: RustTable) -> None:
        merge = table.merge(rows, on, source_alias="s", target_alias="t").when_matched_update({"n": "t.n + s.n"})
        merge.when_not_matched_insert({"id": "s.id", "part": "s.part", "n": "s.n"}).execute()

    return Rust(serial.merge(source, part), run)


def rust_delete(id: int | None, part: int) -> Rust:
    """Delete the rows of a partition, of all keys or of one."""
    condition = f"part = {part}" + ("" if id is None else f" AND id = {id}")
    return Rust(serial.delete(id, part), lambda table: table.delete(condition))


def rust_update(id: int, n: int) -> Rust:
    """Add to the rows with a key."""
    return Rust(serial.update(id, n), lambda table: table.update(updates={"n": f"n + {n}"}, predicate=f"id = {id}"))


def rust_append(id: int, part: int, n: int) -> Rust:
    """Add a row."""
    rows = _source({"id": [id], "part": [part], "n": [n]})
    return Rust(serial.append(id, part, n), lambda table: write_deltalake(table, rows, mode="append", schema_mode="merge"))


RUST = st.one_of(
    st.builds(rust_merge, st.dictionaries(ids, values, min_size=1, max_size=3), st.none() | parts),
    st.builds(rust_delete, st.none() | ids, parts),
    st.builds(rust_update, ids, values),
    st.builds(rust_append, ids, parts, values),
)


class EveryWriter(Histories):
    """The machine with all three engines."""

    @rule(step=MERGES)
    def delta_spark_merges(self, step: Step) -> None:
        for held in [held for held in self.open if isinstance(held, HeldMerge)]:  # each needs a core for itself
            self.open.remove(held)
            self.finish(held)
        self.make_room()
        self.open.append(HeldMerge(self.spark, self._text(step), step, self.commits))

    @rule(step=CHANGES | WRITES | st.builds(serial.optimize))
    def delta_spark_writes(self, step: Step) -> None:
        self._alone("delta-spark", lambda: self.spark.sql(self._text(step)).collect(), step)

    @precondition(lambda self: self.may_rule)
    @rule(share=st.floats(0, 1), restores=st.booleans())
    def delta_spark_rules(self, share: float, restores: bool) -> None:
        self.rules += 1
        version = self.oldest + round(share * (self.commits - self.oldest))
        step = serial.restore(version, self.serial.versions[version]) if restores else serial.add_column(next(self.columns))
        self._alone("delta-spark", lambda: self.spark.sql(self._text(step)).collect(), step)

    @rule(statement=RUST)
    def delta_rs_writes(self, statement: Rust) -> None:
        self._alone("delta-rs", lambda: statement.run(RustTable(str(self.path))), statement.step)

    def _alone(self, writer: str, run: Callable[[], object], step: Step) -> None:
        self.finish(Alone(writer, run, step, self.commits))

    def _text(self, step: Step) -> str:
        return step.text.format(table=f"delta.`{self.path}`")
