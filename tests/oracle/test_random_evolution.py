"""Random merges with schema evolution of nested types: same rows, schema and counters as delta-spark's, or the same error."""

from __future__ import annotations

import os
import random
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import deltamerge
from tests.effort import ALL
from tests.oracle.engines import copy_table
from tests.oracle.readers import by_delta_rs, by_delta_spark, by_deltamerge
from tests.oracle.test_evolution import described, failure

FIRST = int(os.environ.get("DELTAMERGE_SEED", "0"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("DELTAMERGE_EVOLUTIONS", "12" if ALL else "6")))
FLAT = ("smallint", "int", "bigint", "string", "boolean", "float", "double", "date", "decimal(6,2)", "decimal(12,4)")


class Evolving:
    """The random merge of a seed: schemas as lists of (name, type), a struct's type being such a list again."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.target = [("id", "int"), *self.fields("uvw", 3)]
        self.source = [("id", "int"), *self.changed(self.target[1:])]
        self.rows = [(n, *(self.value(type) for _, type in self.target[1:])) for n in range(6)]
        self.source_rows = [(n, *(self.value(type) for _, type in self.source[1:])) for n in range(3, 9)]
        self.clauses = " ".join(self.clause_list())
        self.properties = {"delta.enableDeletionVectors": str(rng.random() < 0.5).lower()}
        if rng.random() < 0.5:
            self.properties["delta.enableTypeWidening"] = "true"
        if rng.random() < 0.3:
            self.properties["delta.columnMapping.mode"] = rng.choice(("name", "id"))
        self.strategy = rng.choice(("auto", "join"))

    def fields(self, names: str, most: int, depth: int = 2) -> list[tuple[str, Any]]:
        chosen = self.rng.sample(names, self.rng.randint(1, most))
        return [(name, self.type(depth)) for name in chosen]

    def type(self, depth: int) -> Any:
        kind = self.rng.random()
        if depth and kind < 0.45:
            return self.fields("abc", 3, depth - 1)
        if depth and kind < 0.6:
            return (self.rng.choice(("array", "map")), self.type(depth - 1))
        return self.rng.choice(FLAT)

    def changed(self, fields: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
        """The fields with some left out, some new, some of another type, in another order."""
        kept = [(name, self.changed_type(type)) for name, type in fields if self.rng.random() < 0.75]
        kept += [(f"n{len(fields)}", self.type(1))] if self.rng.random() < 0.6 or not kept else []
        self.rng.shuffle(kept)
        return kept

    def changed_type(self, type: Any) -> Any:
        if isinstance(type, list):
            return self.changed(type)
        if isinstance(type, tuple):
            return (type[0], self.changed_type(type[1]))
        wider = {"smallint": "int", "int": "bigint", "float": "double", "decimal(6,2)": "decimal(12,4)", "bigint": "int"}
        kind = self.rng.random()
        return wider.get(type, type) if kind < 0.3 else self.rng.choice(FLAT) if kind < 0.33 else type

    def value(self, type: Any) -> Any:
        if self.rng.random() < 0.25:
            return None
        if isinstance(type, list):
            return tuple(self.value(inner) for _, inner in type)
        if isinstance(type, tuple):
            items = [self.value(type[1]) for _ in range(self.rng.randint(0, 2))]
            return items if type[0] == "array" else {f"k{n}": item for n, item in enumerate(items)}
        return self.literal(type)

    def literal(self, type: str) -> Any:
        number = self.rng.randint(0, 99)
        if type in ("float", "double"):
            return number / 2
        if type.startswith("decimal"):
            return Decimal(number)
        return {"string": str(number), "boolean": number % 2 == 0, "date": date(2020, 1, 1 + number % 28)}.get(type, number)

    def clause_list(self) -> list[str]:
        rng, shape = self.rng, self.rng.random()
        matched, inserted = "WHEN MATCHED THEN UPDATE SET *", "WHEN NOT MATCHED THEN INSERT *"
        name, type = rng.choice(self.source[1:])
        if rng.random() < 0.4:
            path = f"{name}.{rng.choice(type)[0]}" if isinstance(type, list) and rng.random() < 0.5 else name
            matched = f"WHEN MATCHED THEN UPDATE SET {path} = s.{path}"
        if rng.random() < 0.3:
            inserted = f"WHEN NOT MATCHED THEN INSERT (id, {name}) VALUES (s.id, s.{name})"
        found = [matched] if shape < 0.25 else [inserted] if shape < 0.4 else [matched, inserted]
        if rng.random() < 0.3:
            found.insert(0, "WHEN MATCHED AND s.id = 4 THEN DELETE")
        if rng.random() < 0.25:
            found.append(
                rng.choice(
                    (
                        "WHEN NOT MATCHED BY SOURCE AND t.id = 0 THEN DELETE",
                        f"WHEN NOT MATCHED BY SOURCE THEN UPDATE SET {self.target[1][0]} = NULL",
                    )
                )
            )
        return found

    def __str__(self) -> str:
        """The case as one screen of SQL."""
        tables = f"t ({ddl(self.target)}) {self.properties} {self.rows}\ns ({ddl(self.source)}) {self.source_rows}"
        return f"{tables}\n{self.strategy}: {self.clauses}"


def ddl(fields: list[tuple[str, Any]]) -> str:
    return ", ".join(f"{name} {sql(type)}" for name, type in fields)


def sql(type: Any) -> str:
    if isinstance(type, list):
        return f"struct<{', '.join(f'{name}: {sql(inner)}' for name, inner in type)}>"
    if isinstance(type, tuple):
        return f"array<{sql(type[1])}>" if type[0] == "array" else f"map<string, {sql(type[1])}>"
    return str(type)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_evolution_ends_as_delta_sparks(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    problem = difference(spark, Evolving(seed), tmp_path)
    assert problem is None, problem


def difference(spark: SparkSession, case: Evolving, folder: Path) -> str | None:
    """What is different between the two engines on a case, with the case; None when nothing is."""
    theirs, ours = folder / "theirs", folder / "ours"
    writer = spark.createDataFrame(case.rows, ddl(case.target)).coalesce(1).write.format("delta")
    for key, value in case.properties.items():
        writer = writer.option(key, value)
    writer.save(str(theirs))
    copy_table(theirs, ours)
    spark.createDataFrame(case.source_rows, ddl(case.source)).createOrReplaceTempView("evolving_source")
    spark.conf.set("spark.deltamerge.strategy", case.strategy)
    text = f"MERGE WITH SCHEMA EVOLUTION INTO delta.`{{}}` t USING evolving_source s ON t.id = s.id {case.clauses}"
    expected = failure(lambda: spark.sql(text.format(theirs)).collect())
    found = failure(lambda: deltamerge.sql(spark, text.format(ours)).collect())
    if found != expected:
        return f"{case}\nours: {found}\ntheirs: {expected}"
    if described(ours) != described(theirs):
        return f"{case}\nours: {described(ours)}\ntheirs: {described(theirs)}"
    rows, wanted = by_delta_spark(spark, ours), by_delta_spark(spark, theirs)
    if not rows == wanted == by_deltamerge(spark, ours):
        return f"{case}\nonly ours: {rows - wanted}\nonly theirs: {wanted - rows}"
    plain = not {"delta.columnMapping.mode", "delta.enableTypeWidening"} & case.properties.keys()
    return f"{case}\nread by delta-rs: {by_delta_rs(ours)}" if plain and by_delta_rs(ours) != wanted else None
