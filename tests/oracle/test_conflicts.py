"""Which commits a transaction may follow: pairs of operations raced in both engines, and the outcomes compared.

The winner's commit is made once, on a copy of the table, and put into the raced table's log after the other transaction
has read and before it commits. What is expected is the matrix of docs/decisions/0007-conflicts.md, with its reasons.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import deltamerge
import deltamerge.commands.rows.write
import deltamerge.merge.commit
import deltamerge.tables
from deltamerge.log.commit.transaction import commit
from tests.oracle.races import BASE, CONFLICTS, SECONDS, SOURCE, WINNERS, Engine, Rows, copy_at, injector, make_base, outcome

LEVELS = ("Serializable", "WriteSerializable")
MATRIX = Path(__file__).parents[2] / "docs/decisions/0007-conflicts.md"


@dataclass(frozen=True)
class Race:
    """A filled cell of the matrix: what becomes of `second` after `winner`, in delta-spark and here."""

    level: str
    second: str
    winner: str
    theirs: str
    ours: str


def matrix() -> list[Race]:
    """The filled cells of the document's tables."""
    races = []
    level, seconds = "", []
    for line in MATRIX.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("## "):
            level = line[3:]
        elif line.startswith("| winner"):
            seconds = cells[1:]
        elif line.startswith("| "):
            for second, cell in zip(seconds, cells[1:], strict=True):
                theirs, _, ours = cell.partition(" → ")
                if cell:
                    races.append(Race(level, second, cells[0], theirs, ours or theirs))
    return races


RACES = matrix()


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Path]:
    """The table before the race (winner ""), and with each winner's commit, at both isolation levels."""
    root = tmp_path_factory.mktemp("races")
    make_base(spark, root / "base")
    found = {}
    for number, winner in enumerate(["", *WINNERS]):
        path = root / str(number)
        shutil.copytree(root / "base", path)
        if winner:
            spark.sql(WINNERS[winner].sql.replace("TABLE_", f"delta.`{path}`"))
        for level in LEVELS:
            copy_at(path, root / f"{number} {level}", level)
            found[winner, level] = root / f"{number} {level}"
    return found


def source(spark: SparkSession) -> DataFrame:
    """The rows that the second transaction brings."""
    return spark.createDataFrame(list(SOURCE), "id BIGINT, p BIGINT, v BIGINT").coalesce(1)


def in_delta_spark(spark: SparkSession, second: str, path: Path, made: Path) -> str:
    """The winner comes while Spark computes the source, or the search condition."""
    from delta.tables import DeltaTable

    inject = injector(made, path)

    def holding(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        inject()
        yield from batches

    def hold(_: int) -> bool:
        inject()
        return True

    spark.udf.register("hold", hold, "boolean")

    def write(frame: DataFrame, mode: str) -> None:
        frame.write.format("delta").mode(mode).save(str(path))

    held = source(spark).mapInArrow(holding, "id BIGINT, p BIGINT, v BIGINT")
    engine = Engine(DeltaTable.forPath(spark, str(path)), write)
    return outcome(lambda: SECONDS[second].run(engine, held, " AND hold(id)"))


def in_deltamerge(monkeypatch: pytest.MonkeyPatch, spark: SparkSession, second: str, path: Path, made: Path) -> str:
    """The winner comes when all is ready to be committed."""
    inject = injector(made, path)

    def late(*arguments: Any) -> Any:
        inject()
        return commit(*arguments)

    engine = Engine(
        deltamerge.tables.DeltaTable.forPath(spark, str(path)),
        lambda frame, mode: deltamerge.write(frame, str(path), mode=mode),
    )
    with monkeypatch.context() as patch:
        patch.setattr(deltamerge.merge.commit, "commit", late)
        patch.setattr(deltamerge.commands.rows.write, "commit", late)
        return outcome(lambda: SECONDS[second].run(engine, source(spark), ""))


def rows_of(spark: SparkSession, path: Path) -> Rows:
    """What is in a table."""
    return Counter((row["id"], row["p"], row["v"]) for row in deltamerge.read(spark, str(path)).collect())


def test_the_matrix_is_whole() -> None:
    for level in LEVELS:
        assert {race.second for race in RACES if race.level == level} == set(SECONDS)
    assert {race.winner for race in RACES} == set(WINNERS)
    assert {race.theirs for race in RACES} | {race.ours for race in RACES} <= {"ok", *CONFLICTS.values()}


@pytest.mark.parametrize(
    "race",
    RACES if os.environ.get("DELTAMERGE_TEST_ALL") else RACES[::4],
    ids=lambda race: f"{race.level}: {race.second} after {race.winner}",
)
def test_the_outcome_of_a_race(
    spark: SparkSession,
    tables: dict[tuple[str, str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    race: Race,
) -> None:
    before, made = tables["", race.level], tables[race.winner, race.level]
    one, other = tmp_path / "delta-spark", tmp_path / "deltamerge"
    for path in (one, other):
        shutil.copytree(before, path, copy_function=os.link)
    theirs = in_delta_spark(spark, race.second, one, made)
    ours = in_deltamerge(monkeypatch, spark, race.second, other, made)
    assert (theirs, ours) == (race.theirs, race.ours)
    for path, result in ((one, theirs), (other, ours)):
        versions = len(list((path / "_delta_log").glob("*.json")))
        assert versions == len(list((made / "_delta_log").glob("*.json"))) + (result == "ok")
    if ours == "ok":
        won, lost = WINNERS[race.winner].change, SECONDS[race.second].change
        serial = [lost(won(BASE))] if race.level == "Serializable" else [lost(won(BASE)), won(lost(BASE))]
        assert rows_of(spark, other) in serial
