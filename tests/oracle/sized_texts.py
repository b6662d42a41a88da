"""Random merges with CHAR and VARCHAR in expressions: `python -m tests.oracle.sized_texts --seeds 0:300 --log FILE`.

delta-spark fails on such merges (docs/differences.md), so the referee is Spark itself: each condition and each value of a merge
is computed by a plain SELECT over the join of both sides, and the table that these lead to is compared.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

import deltamerge
from deltamerge.tables import DeltaTable
from tests.cases.running import condition_of
from tests.e2e.tables import conf
from tests.e2e.test_chars import SETTINGS, sized
from tests.oracle.seeds import run_cases

_TARGET = "id int, c string, d string, v string, w string, n struct<c: string>, a array<string>, r string"
_TARGET_SIZES = {"c": "char(3)", "d": "char(5)", "v": "varchar(4)", "n": "struct<c:char(3)>", "a": "array<char(3)>"}
_SOURCE = "id int, c string, v string, u string, n struct<c: string, v: string>"
_SOURCE_SIZES = {"c": "char(5)", "v": "varchar(3)", "n": "struct<c:char(2),v:varchar(3)>"}
_TEXTS = ("ab", "ab", "ab", "ab", "ab ", "a", "x", "", " ab", "é")
# The columns of a side that hold a text, and those that may stand without their table's name.
_COLUMNS = {
    "t": ("t.c", "t.c", "t.d", "t.d", "t.v", "t.w", "t.n.c", "t.a[0]", "d", "w", "get(t.a, 0)"),
    "s": ("s.c", "s.c", "s.v", "s.u", "s.n.c", "s.n.v", "u"),
}
_WRITTEN = {"c": ("char", 3), "v": ("varchar", 4)}
_TOO_LONG = "DELTA_EXCEED_CHAR_VARCHAR_LIMIT"


@dataclass(frozen=True)
class Clause:
    """A clause of a merge; None as assignments deletes."""

    kind: str
    condition: str | None
    assignments: dict[str, str] | None

    def sql(self) -> str:
        """The clause as SQL."""
        head = f"WHEN {self.kind}" + (f" AND {self.condition}" if self.condition else "") + " THEN "
        if self.assignments is None:
            return head + "DELETE"
        if self.kind == "NOT MATCHED":
            return head + f"INSERT ({', '.join(self.assignments)}) VALUES ({', '.join(self.assignments.values())})"
        return head + "UPDATE SET " + ", ".join(f"{name} = {value}" for name, value in self.assignments.items())


class SizedTexts:
    """The random merge of a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(f"sized texts {seed}")
        self.setting = rng.choice(("padded", "padded", "not padded", "not padded", "strings"))
        self.builder, self.strategy = rng.random() < 0.5, rng.choice(("auto", "auto", "route", "meet", "join"))
        self.vectors, self.feed = rng.random() < 0.4, rng.random() < 0.2
        self.rows = [self.target_row(id) for id in range(rng.choice((1, 4, 9)))]
        self.changes = [self.source_row(id) for id in sorted(rng.sample(range(12), rng.choice((1, 4, 8))))]
        self.on = self.join()
        kinds = [*self.several("MATCHED", "ts"), *self.several("NOT MATCHED", "s"), *self.several("NOT MATCHED BY SOURCE", "t")]
        self.clauses = kinds or [self.clause("MATCHED", "ts", last=True)]

    def text_or_none(self, most: int) -> str | None:
        value = self.rng.choice((*_TEXTS, None))
        return None if value is None else value[:most]

    def target_row(self, id: int) -> tuple[object, ...]:
        text = self.text_or_none
        return (id, text(3), text(5), text(4), text(9), (text(3),), [text(3)], "-")

    def source_row(self, id: int) -> tuple[object, ...]:
        # What a source holds has been padded by whoever wrote it, or not.
        padded = self.rng.random() < 0.8
        c = self.text_or_none(5)
        return (
            id,
            c.ljust(5) if c is not None and padded else c,
            *map(self.text_or_none, (3, 9)),
            tuple(map(self.text_or_none, (2, 3))),
        )

    def join(self) -> str:
        rng = self.rng
        if rng.random() < 0.2:
            return rng.choice(("t.c = s.c", "t.d = s.c", "t.c <=> s.v", "t.n.c = s.c", "t.c = s.u AND t.id = s.id", "t.w = s.c"))
        return "t.id = s.id" + (f" AND {self.test('ts')}" if rng.random() < 0.6 else "")

    def several(self, kind: str, sides: str) -> list[Clause]:
        """None to two clauses of a kind."""
        number = self.rng.choice((0, 1, 1, 2) if kind != "NOT MATCHED BY SOURCE" else (0, 0, 1))
        return [self.clause(kind, sides, place == number - 1) for place in range(number)]

    def clause(self, kind: str, sides: str, last: bool) -> Clause:
        rng = self.rng
        condition = self.test(sides) if not last or rng.random() < 0.7 else None
        if kind != "NOT MATCHED" and rng.random() < 0.2:
            return Clause(kind, condition, None)
        values = {"r": self.shown(sides)}
        if self.setting != "strings" and rng.random() < 0.4:
            name = rng.choice(tuple(_WRITTEN))
            values[name] = self.text(sides, 1) if rng.random() < 0.5 else f"substring({self.text(sides, 1)}, 1, 3)"
        return Clause(kind, condition, ({"id": "s.id"} if kind == "NOT MATCHED" else {}) | values)

    def shown(self, sides: str) -> str:
        """A value that shows what some tests of texts are, and a text."""
        tests = [f"coalesce(CAST({self.test(sides)} AS STRING), 'none')" for _ in range(self.rng.choice((1, 3, 6)))]
        return f"concat('<', coalesce({self.text(sides)}, 'none'), '>', {', '.join(tests)})"

    def text(self, sides: str, depth: int = 2) -> str:
        """An expression of text."""
        rng = self.rng
        if depth <= 0 or rng.random() < 0.45:
            return rng.choice(_COLUMNS[rng.choice(sides)]) if rng.random() < 0.9 else self.literal()
        one, other = self.text(sides, depth - 1), self.text(sides, depth - 1)
        return rng.choice(
            (
                f"coalesce({one}, {other})",
                f"concat({one}, {other})",
                f"upper({one})",
                f"rtrim({one})",
                f"trim({one})",
                f"nullif({one}, {other})",
                f"greatest({one}, {other})",
                f"least({one}, {other})",
                f"CASE WHEN {self.test(sides, depth - 1)} THEN {one} ELSE {other} END",
                f"CASE {one} WHEN {other} THEN 'same' WHEN {self.literal()} THEN 'known' END",
                f"if({self.test(sides, depth - 1)}, {one}, {other})",
                f"nvl({one}, {other})",
                f"CAST({one} AS STRING)",
                f"CAST(length({one}) AS STRING)",
                f"get(array({one}, {other}), 1)",
                f"named_struct('f', {one}).f",
                f"array_join(transform(array({one}, {other}), x -> concat(x, '.')), '')",
                f"rpad({one}, 6, '*')",
            )
        )

    def test(self, sides: str, depth: int = 2) -> str:
        """A condition."""
        rng = self.rng
        if depth > 1 and rng.random() < 0.25:
            joined = f" {rng.choice(('AND', 'OR'))} ".join(self.test(sides, depth - 1) for _ in "ab")
            return rng.choice((f"({joined})", f"NOT ({joined})"))
        # Spark pads where a column itself is compared: half of the comparisons are of columns.
        depth = 1 if rng.random() < 0.5 else depth
        one, other = self.text(sides, depth - 1), self.text(sides, depth - 1)
        op = rng.choice(("=", "=", "=", "<=>", "<>", "<", ">="))
        return rng.choice(
            (
                *[f"{one} {op} {other}"] * 4,
                *[f"{one} {op} {self.literal()}"] * 4,
                *[f"{self.literal()} {op} {one}"] * 2,
                f"{one} IN ({self.literal()}, {self.literal()})",
                f"{one} IN ({other}, {self.literal()})",
                f"{one} NOT IN ({self.literal()}, {self.literal()})",
                f"{one} BETWEEN {self.literal()} AND {other}",
                f"{one} LIKE {self.literal()}",
                f"{one} RLIKE '^ab *$'",
                f"startswith({one}, {other})",
                f"length({one}) > 2",
                f"{one} IS NULL",
                f"{one} IS DISTINCT FROM {other}",
                f"exists(array({one}, 'x'), x -> x = {other})",
                f"array_contains(array({one}), {other})",
                f"named_struct('f', {one}) = named_struct('f', {other})",
                f"coalesce({one} {op} {other}, false)",
            )
        )

    def literal(self) -> str:
        return f"'{self.rng.choice(_TEXTS)}'"

    def statement(self, path: Path) -> str:
        """The merge as SQL, its source a view."""
        return " ".join([f"MERGE INTO delta.`{path}` t USING changes s ON {self.on}", *(clause.sql() for clause in self.clauses)])

    def run(self, spark: SparkSession, path: Path, source: DataFrame) -> None:
        """The merge itself."""
        if not self.builder:
            source.createOrReplaceTempView("changes")
            deltamerge.sql(spark, self.statement(path)).collect()
            return
        merge = DeltaTable.forPath(spark, str(path)).alias("t").merge(source.alias("s"), self.on)
        for clause in self.clauses:
            values = clause.assignments
            if clause.kind == "MATCHED":
                merge = (
                    merge.whenMatchedDelete(clause.condition)
                    if values is None
                    else merge.whenMatchedUpdate(clause.condition, values)
                )
            elif clause.kind == "NOT MATCHED":
                merge = merge.whenNotMatchedInsert(clause.condition, values or {})
            elif values is None:
                merge = merge.whenNotMatchedBySourceDelete(clause.condition)
            else:
                merge = merge.whenNotMatchedBySourceUpdate(clause.condition, values)
        merge.execute()

    def __str__(self) -> str:
        how = f"{'builder' if self.builder else 'SQL'}, {self.strategy}, {self.setting}, vectors {self.vectors}, feed {self.feed}"
        return f"{how}\ntarget {self.rows}\nsource {self.changes}\n{self.statement(Path('t'))}"


def expected(case: SizedTexts, target: DataFrame, source: DataFrame) -> list[tuple[object, ...]] | str | None:
    """The rows that Spark's answers to the merge's expressions lead to, or an error's condition; None without a referee.

    A target row with several source rows has none: which of them a clause takes is another test's question.
    """
    pairs, on = target.join(source, F.expr(case.on)), F.expr(case.on)
    matched = _answers(case, "MATCHED", pairs, "t.id")
    ids = [row.key for row in pairs.select(F.col("t.id").alias("key")).collect()]
    if len(ids) != len(set(ids)):
        return None
    alone = _answers(case, "NOT MATCHED BY SOURCE", target.join(source, on, "left_anti"), "t.id")
    new = _answers(case, "NOT MATCHED", source.join(target, on, "left_anti"), "s.id")
    rows: list[tuple[object, ...]] = []
    names = target.columns
    try:
        for row in target.collect():
            answers, clauses = (matched, "MATCHED") if row.id in ids else (alone, "NOT MATCHED BY SOURCE")
            values = _taken(case, clauses, answers.get(row.id))
            if values is not None:
                rows.append(tuple((row.asDict() | values)[name] for name in names))
        for answer in new.values():
            values = _taken(case, "NOT MATCHED", answer)
            rows += [tuple(values.get(name) for name in names)] if values else []
    except ValueError:
        return _TOO_LONG
    return rows


def _answers(case: SizedTexts, kind: str, rows: DataFrame, key: str) -> dict[int, Row]:
    """By key, whether each clause of a kind wants the row, and its values."""
    columns = [F.col(key).alias("key")]
    for place, clause in enumerate(case.clauses):
        if clause.kind == kind:
            columns.append(F.expr(clause.condition or "true").alias(f"if{place}"))
            columns += [F.expr(value).alias(f"{name}{place}") for name, value in (clause.assignments or {}).items()]
    return {row.key: row for row in rows.select(*columns).collect()}


def _taken(case: SizedTexts, kind: str, answer: Row | None) -> dict[str, object] | None:
    """What the first clause that wants a row assigns; None where it is deleted or, of a source, not inserted."""
    for place, clause in enumerate(case.clauses):
        if clause.kind == kind and answer is not None and answer[f"if{place}"]:
            assigned = clause.assignments
            return None if assigned is None else {name: _stored(case, name, answer[f"{name}{place}"]) for name in assigned}
    return {}


def _stored(case: SizedTexts, name: str, value: object) -> object:
    """A value as a column shows it; a ValueError where it is too long. A merge of delta-spark cuts and pads nothing either."""
    if name not in _WRITTEN or not isinstance(value, str):
        return value
    kind, length = _WRITTEN[name]
    if len(value) > length:
        raise ValueError(value)
    return value.ljust(length) if kind == "char" and case.setting == "padded" else value


def difference(spark: SparkSession, case: SizedTexts, folder: Path, seen: Counter[str]) -> str | None:
    """What is different between a merge and Spark's answers; None when nothing is. `seen` counts merges by how they ended."""
    path = Path(tempfile.mkdtemp(dir=folder)) / "t"
    flags = {"delta.enableDeletionVectors": case.vectors, "delta.enableChangeDataFeed": case.feed}
    made = sized(spark.createDataFrame(case.rows, _TARGET).coalesce(2), _TARGET_SIZES)
    deltamerge.write(made, str(path), properties={name: str(flag).lower() for name, flag in flags.items()})
    source = sized(spark.createDataFrame(case.changes, _SOURCE), _SOURCE_SIZES)
    try:
        with ExitStack() as stack:
            stack.enter_context(conf(spark, SETTINGS[case.setting] | {"spark.deltamerge.strategy": case.strategy}))
            wanted = expected(case, deltamerge.read(spark, str(path)).alias("t"), source.alias("s"))
            if wanted is None:
                seen["several"] += 1
                return None
            try:
                case.run(spark, path, source)
            except Exception as error:
                condition = condition_of(error) or repr(error)[:300]
                seen[condition] += 1
                return (
                    None
                    if condition.startswith(_TOO_LONG) and wanted == _TOO_LONG
                    else f"{case}\nours: {error!r:.600}\nwanted {wanted}"
                )
            seen["run"] += 1
            if wanted == _TOO_LONG:
                return f"{case}\nran, but a value is too long"
            found = [tuple(row) for row in deltamerge.read(spark, str(path)).collect()]
        only, missing = (
            Counter(map(repr, found)) - Counter(map(repr, wanted)),
            Counter(map(repr, wanted)) - Counter(map(repr, found)),
        )
        return f"{case}\nonly found {dict(only)}\nmissing {dict(missing)}" if only or missing else None
    finally:
        shutil.rmtree(path.parent, ignore_errors=True)


if __name__ == "__main__":
    run_cases(__doc__, SizedTexts, difference)
