"""Random merges whose columns repeat names, differ by case or have odd names: `python -m tests.oracle.odd_names --seeds 0:300`.

Each is a merge by SQL or by the builder into a table of a few rows. Each value is a text that says which column it stands in, so
the rows tell which column each engine took a name for.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import deltamerge
from tests.cases.running import condition_of
from tests.oracle.engines import copy_table
from tests.oracle.seeds import run_cases

# Names that Spark, the grammar of SQL or a path could take for something else.
_NAMES = ("n", "v", "s", "t", "a.b", "s.n", "t.v", "select", "date", "x-y", "1a", "ü", "日", "'", '"', "null", "a.b.c",
          "merge", "current_date", "now", "matched", "source", "target", "_metadata", "*", "%", "/", "\\", "$", "::")  # fmt: skip
_CASE = "spark.sql.caseSensitive"


def quoted(name: str) -> str:
    """A name between backquotes."""
    return "`" + name.replace("`", "``") + "`"


class OddNames:
    """The random merge of a seed. Values are text, `<side><column's place>-<row>`; `id` is a number."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(f"odd names {seed}")
        names = rng.sample(_NAMES, rng.choice((2, 3, 4)))
        self.case_sensitive = rng.random() < 0.15
        self.target = ["id", *names]
        self.source = ["id", *self.others(names)]
        self.builder, self.strategy = rng.random() < 0.5, rng.choice(("auto", "auto", "spark_join"))
        # With vectors delta-spark fails for a column of this name, the source's included (docs/differences.md).
        self.vectors = rng.random() < 0.5 and "_metadata" not in map(str.lower, (*self.target, *self.source))
        self.on = "t.id = s.id" + (f" AND {self.test()}" if rng.random() < 0.4 else "")
        self.matched_if = self.test() if rng.random() < 0.3 else None
        self.sets = self.assignments(rng.sample(names, rng.choice((1, 1, 2))))
        stars = ("*",) if self.tells_all() or rng.random() < 0.1 else ()
        self.update = rng.choice((*stars, "set", "set", "set", "delete"))
        self.insert = rng.choice((*stars, "set", "none"))
        self.inserts = {"id": "s.id", **self.assignments(names, of="s")}

    def others(self, names: list[str]) -> list[str]:
        """The source's columns but the first: the target's, some again, some in another case, some of its own."""
        rng = self.rng
        found = [name for name in names if rng.random() < 0.85]
        found += [rng.choice(names).upper() for _ in range(rng.choice((0, 0, 1)))]
        found += [rng.choice(names) for _ in range(rng.choice((0, 0, 0, 1)))]
        found += rng.sample(_NAMES, rng.choice((0, 1)))
        rng.shuffle(found)
        return found

    def tells_all(self) -> bool:
        """Whether the source has each column of the target once."""
        names = [name.lower() for name in self.source]
        return all(names.count(name.lower()) == 1 for name in self.target)

    def reference(self, of: str | None = None) -> str:
        """A column as SQL text, qualified or not, in some case; seldom one that can't be told from another."""
        rng = self.rng
        side = of or rng.choice("ts")
        names, others = (self.target, self.source) if side == "t" else (self.source, self.target)
        lowered, elsewhere = [name.lower() for name in names], {name.lower() for name in others}
        known = [name for name in names if lowered.count(name.lower()) == 1 or rng.random() < 0.05]
        name = rng.choice(known or ["id"])
        free = name.lower() not in elsewhere or rng.random() < 0.05
        name = rng.choice((name, name, name, name.upper(), name.lower()) if not self.case_sensitive else (name,))
        written = name if name in ("id", "n", "v", "x", "matched") and rng.random() < 0.5 else quoted(name)
        return rng.choice(
            (f"{side}.{written}", f"{side}.{written}", f"{side.upper()}.{written}", written if free else f"{side}.{written}")
        )

    def value(self, of: str | None = None) -> str:
        """An expression of text."""
        name = self.reference(of)
        forms = (
            name,
            name,
            f"concat({name}, '!')",
            f"coalesce({name}, 'none')",
            f"CASE WHEN {name} > 's' THEN {name} ELSE 'low' END",
        )
        return self.rng.choice(
            (*forms, f"upper({name}) -- {self.reference(of)}\n", f"element_at(transform(array({name}), s -> s), 1)")
        )

    def test(self) -> str:
        """A condition."""
        one, other = self.reference(), self.reference()
        return self.rng.choice(
            (f"{one} IS NOT NULL", f"{one} <=> {one}", f"{one} <> {other}", f"{one} >= 's1'", f"NOT ({one} IS NULL)")
        )

    def assignments(self, names: list[str], of: str | None = None) -> dict[str, str]:
        """Values by the columns that get them."""
        rng = self.rng
        return {rng.choice((quoted(name), quoted(name), f"t.{quoted(name)}")): self.value(of) for name in names}

    @property
    def source_query(self) -> str:
        """The source's rows."""
        lists = [f"SELECT CAST({n} AS INT) AS id" + self.listed(n) for n in (2, 3, 4)]
        return " UNION ALL ".join(lists)

    def listed(self, row: int) -> str:
        return "".join(f", 's{place}-{row}' AS {quoted(name)}" for place, name in enumerate(self.source[1:], 1))

    def statement(self, path: Path) -> str:
        """The merge as SQL."""
        text = f"MERGE INTO delta.`{path}` t USING ({self.source_query}) s ON {self.on}"
        text += " WHEN MATCHED" + (f" AND {self.matched_if}" if self.matched_if else "") + " THEN "
        pairs = ", ".join(f"{name} = {value}" for name, value in self.sets.items())
        text += {"*": "UPDATE SET *", "set": f"UPDATE SET {pairs}", "delete": "DELETE"}[self.update]
        if self.insert == "none":
            return text
        columns, values = ", ".join(self.inserts), ", ".join(self.inserts.values())
        return text + " WHEN NOT MATCHED THEN INSERT " + ("*" if self.insert == "*" else f"({columns}) VALUES ({values})")

    def run(self, spark: SparkSession, table: Any, sql: Any, path: Path) -> None:
        """The merge by an engine's `DeltaTable` or its SQL."""
        if not self.builder:
            sql(self.statement(path)).collect()
            return
        merge = table.forPath(spark, str(path)).alias("t").merge(spark.sql(self.source_query).alias("s"), self.on)
        if self.update == "*":
            merge = merge.whenMatchedUpdateAll(self.matched_if)
        elif self.update == "set":
            merge = merge.whenMatchedUpdate(self.matched_if, {name: F.expr(value) for name, value in self.sets.items()})
        else:
            merge = merge.whenMatchedDelete(self.matched_if)
        if self.insert != "none":
            inserts: dict[str, str | Column] = {name: self.given(value) for name, value in self.inserts.items()}
            merge = merge.whenNotMatchedInsertAll() if self.insert == "*" else merge.whenNotMatchedInsert(values=inserts)
        merge.execute()

    def given(self, value: str) -> str | Column:
        return F.col(value).cast("string") if value.startswith("s.`") and value.endswith("`") else value

    def __str__(self) -> str:
        how = f"{'builder' if self.builder else 'SQL'}, {self.strategy}, {_CASE} {self.case_sensitive}, vectors {self.vectors}"
        return f"{how}, target {self.target}\n{self.statement(Path('t'))}"


def difference(spark: SparkSession, case: OddNames, folder: Path, seen: Counter[str]) -> str | None:
    """What is different between the two engines on a case; None when nothing is. `seen` counts merges: run, refused."""
    from delta.tables import DeltaTable

    place = Path(tempfile.mkdtemp(dir=folder))
    theirs, ours = place / "theirs", place / "ours"
    spark.conf.set(_CASE, "false")
    rows = [(n, *(f"t{column}-{n}" for column in range(1, len(case.target)))) for n in (1, 2, 3)]
    made = spark.createDataFrame(rows, ", ".join(["id int", *(f"{quoted(name)} string" for name in case.target[1:])])).coalesce(1)
    deltamerge.write(made, str(theirs), properties={"delta.enableDeletionVectors": str(case.vectors).lower()})
    copy_table(theirs, ours)
    spark.conf.set(_CASE, str(case.case_sensitive).lower())
    spark.conf.set("spark.deltamerge.strategy", case.strategy)
    try:
        expected = _outcome(lambda: case.run(spark, DeltaTable, spark.sql, theirs))
        found = _outcome(lambda: case.run(spark, deltamerge.DeltaTable, lambda text: deltamerge.sql(spark, text), ours))
        seen["refused" if expected else "run"] += 1
        if bool(found) != bool(expected):
            return f"{case}\nours: {found}, theirs: {expected}"
        wanted, got = rows_of(spark, theirs), rows_of(spark, ours)
        return None if wanted == got else f"{case}\nonly ours {got - wanted}, only theirs {wanted - got}"
    finally:
        spark.conf.set(_CASE, "false")
        spark.conf.unset("spark.deltamerge.strategy")
        shutil.rmtree(place, ignore_errors=True)


def _outcome(run: Any) -> str | None:
    try:
        run()
    except Exception as error:
        return condition_of(error) or repr(error)[:200]
    return None


def rows_of(spark: SparkSession, path: Path) -> Counter[tuple[Any, ...]]:
    """The rows of a table, each as often as it is there."""
    frame: DataFrame = deltamerge.read(spark, str(path))
    return Counter(tuple(row) for row in frame.collect())


if __name__ == "__main__":
    run_cases(__doc__, OddNames, difference)
