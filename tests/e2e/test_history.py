"""Histories in one call: versions with the times between which they held."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import deltamerge
from deltamerge.exceptions import (
    DeltaAnalysisException,
    DeltaConcurrentModificationException,
    DeltaIllegalArgumentException,
    DeltaInvariantViolationException,
    DeltaUnsupportedTableFeatureException,
)
from deltamerge.merge import line, settings
from deltamerge.tables import DeltaTable
from tests.e2e.refusals import refused
from tests.e2e.tables import LARGE_SOURCES, conf, content, make, version

SCHEMA = "id int, city string, note string, valid_from int, valid_to int, is_current boolean"
CHANGES = "id int, city string, note string, at int"
ROWS = [
    (1, "Oslo", "a", 10, 20, False),
    (1, "Rome", "b", 20, None, True),
    (2, "Bern", None, 10, None, True),
    (3, None, "c", 10, 30, False),
]
Row = tuple[Any, ...]
_RUN, _EVALUATE = line.run_attempts, line.evaluate


def merge(table: DeltaTable, changes: DataFrame, **options: Any) -> Row:
    (counts,) = table.mergeHistory(changes, ["id"], "at", current="is_current", **options).collect()
    return tuple(counts)


def changes_of(spark: SparkSession, *rows: Row) -> DataFrame:
    return spark.createDataFrame(list(rows), CHANGES)


@pytest.mark.usefixtures("strategy")
@pytest.mark.parametrize("vectors", [False, True], ids=["rewritten", "marked"])
def test_versions_follow_each_other(spark: SparkSession, tmp_path: Path, vectors: bool) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=2, vectors=vectors)
    before = version(tmp_path / "t")
    changes = changes_of(
        spark,
        (1, "Kyiv", "b", 50),
        (1, "Rome", "b", 40),  # as it is
        (1, "Kyiv", "b", 60),  # as the change before
        (1, "Rome", None, 70),
        (2, "Bern", None, 45),
        (3, "Lima", "d", 30),  # closed before
        (4, "Oslo", "e", 5),
        (4, "Oslo", "e", 5),
        (4, None, "e", 6),
    )
    assert merge(table, changes) == (6, 1, 0, 5)
    expected = [
        (1, "Kyiv", "b", 50, 70, False),
        (1, "Oslo", "a", 10, 20, False),
        (1, "Rome", "b", 20, 50, False),
        (1, "Rome", None, 70, None, True),
        (2, "Bern", None, 10, None, True),
        (3, "Lima", "d", 30, None, True),
        (3, None, "c", 10, 30, False),
        (4, "Oslo", "e", 5, 6, False),
        (4, None, "e", 6, None, True),
    ]
    assert content(spark, tmp_path / "t") == expected
    assert version(tmp_path / "t") == before + 1
    unchanged = changes.where("id <> 1 OR at = 70").where("id <> 4 OR at = 6")
    assert merge(table, unchanged) == (0, 0, 0, 0)
    assert version(tmp_path / "t") == before + 1


def test_tracked_columns_decide_and_others_are_written_along(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    changes = changes_of(spark, (1, "Rome", "other", 40), (2, "Kyiv", "new", 40))
    assert merge(table, changes, tracked="city") == (2, 1, 0, 1)
    rows = content(spark, tmp_path / "t")
    assert (1, "Rome", "b", 20, None, True) in rows
    assert (2, "Kyiv", "new", 40, None, True) in rows


def test_other_names_types_and_keys(spark: SparkSession, tmp_path: Path) -> None:
    schema = "`a.b` long, k string, `from` date, `to` date, at timestamp, `key0` int, surrogate int"
    rows = [(1, "x", date(2024, 1, 1), None, datetime(2024, 1, 1), 1, 100), (1, "y", date(2024, 1, 1), None, None, 2, None)]
    table = make(spark, tmp_path / "t", schema, rows)
    changes = spark.sql(
        "SELECT * FROM VALUES (1, 'x', TIMESTAMP'2024-01-01', '7', TIMESTAMP'2024-02-03 04:05:06'), "
        "(1, 'y', NULL, '2', TIMESTAMP'2024-02-03 04:05:06') AS c(`A.B`, k, at, KEY0, moment)"
    )
    table.mergeHistory(changes, ["`a.b`".strip("`"), "k"], "moment", validFrom="from", validTo="to")
    assert content(spark, tmp_path / "t") == [
        (1, "x", date(2024, 1, 1), date(2024, 2, 3), datetime(2024, 1, 1), 1, 100),
        (1, "x", date(2024, 2, 3), None, datetime(2024, 1, 1), 7, None),
        rows[1],
    ]


@pytest.mark.parametrize("vectors", [False, True], ids=["rewritten", "marked"])
def test_values_that_are_equal_in_other_forms(spark: SparkSession, tmp_path: Path, vectors: bool) -> None:
    """Nested values, texts of fixed length, NaN and both zeros; in a table that is partitioned by the flag and has a feed."""
    code = F.col("code").alias("code", metadata={"__CHAR_VARCHAR_TYPE_STRING": "char(3)"})
    values = "id int, code string, s struct<a:int,b:array<string>>, d double"
    rows = [(1, "x", (1, ["p", None]), float("nan")), (2, "y", (None, None), 0.0), (3, "z", None, None)]
    start = spark.createDataFrame(rows, values).select("id", code, "s", "d")
    times = {"valid_from": F.lit(10), "valid_to": F.lit(None).cast("int"), "is_current": F.lit(True)}
    properties = {"delta.enableChangeDataFeed": "true"} | ({"delta.enableDeletionVectors": "true"} if vectors else {})
    path = str(tmp_path / "t")
    deltamerge.write(start.withColumns(times), path, partition_by="is_current", properties=properties)
    table = DeltaTable.forPath(spark, path)
    same = [(1, "x  ", (1, ["p", None]), float("nan")), (2, "y", (None, None), -0.0), (3, "z", None, None)]
    assert merge(table, spark.createDataFrame(same, values).withColumn("at", F.lit(20))) == (0, 0, 0, 0)
    other = [(1, "x", (1, ["p", "q"]), float("nan")), (2, "y", None, 0.0), (3, "zz", None, None)]
    changes = spark.createDataFrame(other, values).withColumn("at", F.lit(30))
    assert merge(table, changes) == (6, 3, 0, 3)
    found = deltamerge.read(spark, path).where("is_current").orderBy("id").select("code", "s", "valid_from").collect()
    assert [tuple(row) for row in found] == [("x  ", (1, ["p", "q"]), 30), ("y  ", None, 30), ("zz ", None, 30)]
    kinds = [row["_change_type"] for row in deltamerge.read_changes(spark, path, 1).collect()]
    assert sorted(kinds) == ["insert"] * 3 + ["update_postimage"] * 3 + ["update_preimage"] * 3


@pytest.mark.usefixtures("strategy")
def test_missing_keys_are_closed_when_that_is_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    changes = changes_of(spark, (2, "Bern", None, 40), (5, "Lima", "n", 40))
    with refused(tmp_path, DeltaInvariantViolationException, "DELTAMERGE_HISTORY_LATE", "closed at 20", "since 20"):
        merge(table, changes, closeMissing="20")
    with refused(tmp_path, DeltaInvariantViolationException, "DELTAMERGE_HISTORY_LATE", "closed at NULL"):
        merge(table, changes, closeMissing="CAST(NULL AS INT)")
    assert merge(table, changes, closeMissing=F.lit(20) + 21) == (2, 1, 0, 1)
    rows = content(spark, tmp_path / "t")
    assert [row for row in rows if row not in ROWS] == [(1, "Rome", "b", 20, 41, False), (5, "Lima", "n", 40, None, True)]
    with refused(tmp_path, DeltaInvariantViolationException, "DELTAMERGE_HISTORY_LATE", '{"id":1}'):
        merge(table, changes_of(spark, (1, "Rome", "b", 40)))
    assert merge(table, changes_of(spark, (1, "Rome", "b", 43))) == (1, 0, 0, 1)


@pytest.mark.parametrize(
    ("rows", "condition", "words"),
    [
        ([(1, "Kyiv", "b", 50), (None, "Kyiv", "b", 50)], "DELTAMERGE_HISTORY_NULL", ['{"id":null}', "50"]),
        ([(1, "Kyiv", "b", None)], "DELTAMERGE_HISTORY_NULL", ['{"id":1}', "NULL"]),
        ([(1, "Kyiv", "b", 20)], "DELTAMERGE_HISTORY_LATE", ['{"id":1}', "at 20", "ignoreLate"]),
        ([(1, "Rome", "b", 19)], "DELTAMERGE_HISTORY_LATE", ['{"id":1}', "at 19"]),
        ([(3, "Lima", "b", 29), (3, "Lima", "c", 40)], "DELTAMERGE_HISTORY_LATE", ['{"id":3}', "at 29"]),
        ([(9, "Kyiv", "b", 50), (9, "Kyiv", None, 50)], "DELTAMERGE_HISTORY_TIE", ['{"id":9}', "at 50"]),
        ([(7, "Kyiv", "b", 50)], "DELTAMERGE_HISTORY_CONTRADICTION", ['{"id":7}']),
        ([(8, "Kyiv", "b", 50)], "DELTAMERGE_HISTORY_CONTRADICTION", ['{"id":8}']),
    ],
)
def test_changes_without_a_place_are_refused(
    spark: SparkSession, tmp_path: Path, rows: list[Row], condition: str, words: list[str]
) -> None:
    broken = [(7, "a", "a", 1, None, True), (7, "b", "b", 2, None, True), (8, "a", "a", 1, 9, True)]
    table = make(spark, tmp_path / "t", SCHEMA, [*ROWS, *broken])
    with refused(tmp_path, DeltaInvariantViolationException, condition, *words):
        merge(table, changes_of(spark, *rows))


def test_late_changes_are_left_out_when_that_is_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    changes = changes_of(
        spark,
        (1, "Bern", "z", 5),
        (1, "Bern", "z", 20),
        (1, "Rome", "b", 20),
        (1, "Rome", "b", 30),
        (1, "Lima", "b", 40),
        (2, "X", "x", 1),
    )
    assert merge(table, changes, ignoreLate=True) == (2, 1, 0, 1)
    assert [row for row in content(spark, tmp_path / "t") if row not in ROWS] == [
        (1, "Lima", "b", 40, None, True),
        (1, "Rome", "b", 20, 40, False),
    ]


def test_wrong_columns_are_refused_before_any_job(spark: SparkSession, tmp_path: Path, untouchable: DataFrame) -> None:
    schema = "id int, name string, n int, valid_from date, valid_to date, flag int, m map<string,int>, r double, s struct<d:date>"
    table = make(spark, tmp_path / "t", schema, [])
    unknown, roles = "DELTA_MERGE_UNRESOLVED_EXPRESSION", "DELTAMERGE_HISTORY_COLUMNS"
    for options, condition, words in [
        ({"keys": "idd"}, unknown, ["idd", "changes.id"]),
        ({"effective": "dd"}, unknown, ["dd"]),
        ({"tracked": ["nme"]}, unknown, ["nme"]),
        ({"validFrom": "since"}, unknown, ["since", "history.valid_from"]),
        ({"validTo": "until"}, unknown, ["until"]),
        ({"current": "is_current"}, unknown, ["is_current"]),
        ({"source": untouchable.withColumn("extra", F.lit(1))}, unknown, ["extra"]),
        ({"current": "flag"}, "DELTAMERGE_HISTORY_TYPE", ["flag", "boolean"]),
        ({"validTo": "flag"}, "DELTAMERGE_HISTORY_TYPE", ["flag", "date"]),
        ({"validFrom": "s", "validTo": "s"}, roles, ["s"]),
        ({"validFrom": "r", "validTo": "flag"}, "DELTAMERGE_HISTORY_TYPE", ["r", "double"]),
        ({"source": untouchable.withColumn("m", F.create_map("name", "n"))}, "DELTAMERGE_HISTORY_TYPE", ["m", "maps"]),
        ({"source": untouchable.withColumn("d", F.lit(True))}, "DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION", ["valid_from"]),
        ({"closeMissing": "nowhere"}, unknown, ["nowhere"]),
        ({"keys": []}, roles, ["keys"]),
        ({"tracked": []}, roles, ["tracked"]),
        ({"tracked": ["id"]}, roles, ["id"]),
        ({"source": untouchable.drop("d"), "effective": "id"}, roles, ["id"]),
    ]:
        arguments = {"source": untouchable, "keys": "id", "effective": "d", **options}
        kind = DeltaIllegalArgumentException if condition == roles else DeltaAnalysisException
        with refused(tmp_path, kind, condition, *words):
            table.mergeHistory(**arguments)
    with pytest.raises(TypeError, match="DataFrame"):
        table.mergeHistory([(1,)], "id", "d")  # type: ignore[arg-type]
    only_appends = make(spark, tmp_path / "a", schema, [], properties={"delta.appendOnly": "true"})
    with refused(tmp_path, DeltaUnsupportedTableFeatureException, "DELTA_CANNOT_MODIFY_APPEND_ONLY"):
        only_appends.mergeHistory(untouchable, "id", "d")
    assert issubclass(DeltaAnalysisException, AnalysisException)


def interrupting(monkeypatch: pytest.MonkeyPatch, name: str, real: Callable[..., Any], other: Callable[[], Any]) -> None:
    """Let another transaction commit, once, right after a step of the line."""
    waiting = [other]

    def step(*arguments: Any) -> Any:
        done = real(*arguments)
        if waiting:
            waiting.pop()()
        return done

    monkeypatch.setattr(line, name, step)


@pytest.mark.parametrize("step", ["evaluate", "run_attempts"])
@pytest.mark.parametrize(
    ("before", "mine", "theirs"),
    [
        ([(1, "Kyiv", "k", 50)], (1, "Lima", "l", 60), (1, "Bern", "m", 55)),
        ([], (9, "Lima", "l", 60), (9, "Bern", "m", 55)),
        ([], (1, "Rome", "b", 60), (1, "Bern", "m", 55)),
    ],
    ids=["changed", "unknown", "unchanged"],
)
def test_a_change_of_the_same_key_meanwhile_is_a_conflict(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, before: list[Row], mine: Row, theirs: Row
) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    if before:
        merge(table, changes_of(spark, *before))
    expected = merged(content(spark, tmp_path / "t"), [theirs])
    changes = changes_of(spark, mine, (20, "Oslo", "o", 60))
    real = _RUN if step == "run_attempts" else _EVALUATE

    def other() -> None:
        merge(DeltaTable.forPath(spark, str(tmp_path / "t")), changes_of(spark, theirs))

    interrupting(monkeypatch, step, real, other)
    with pytest.raises(DeltaConcurrentModificationException):
        merge(table, changes)
    assert content(spark, tmp_path / "t") == ordered(expected)


def test_after_a_conflict_the_versions_are_made_anew_and_the_source_is_not(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    changes = changes_of(spark, (1, "Lima", "l", 60)).withColumn("note", F.expr("uuid()"))

    def other() -> None:
        merge(DeltaTable.forPath(spark, str(tmp_path / "t")), changes_of(spark, (1, "Bern", "m", 55)))

    interrupting(monkeypatch, "run_attempts", _RUN, other)
    with conf(spark, {settings.RETRIES: "1"}):
        assert merge(table, changes, tracked=["city"]) == (2, 1, 0, 1)
    rows = [row for row in content(spark, tmp_path / "t") if row not in ROWS]
    assert [(city, *times) for _, city, _, *times in rows] == [
        ("Bern", 55, 60, False),
        ("Lima", 60, None, True),
        ("Rome", 20, 55, False),
    ]


def ordered(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: tuple((value is None, str(type(value)), value) for value in row))


def merged(rows: list[Row], changes: list[Row]) -> list[Row]:
    """The rows of a history after changes, each later than what is there, one after the other."""
    found = list(rows)
    for id, city, note, at in sorted(changes, key=lambda change: change[3]):
        current = next((row for row in found if row[0] == id and row[4] is None), None)
        if current is not None and current[1:3] == (city, note):
            continue
        if current is not None:
            found[found.index(current)] = (*current[:4], at, False)
        found.append((id, city, note, at, None, True))
    return ordered(found)


@pytest.mark.usefixtures("strategy")
@pytest.mark.parametrize(("vectors", "large"), [(False, True), (True, False)], ids=["rewritten-checkpointed", "marked-collected"])
def test_random_batches_make_the_history_of_their_changes(
    spark: SparkSession, tmp_path: Path, limit: Callable[..., None], vectors: bool, large: bool
) -> None:
    if large:
        limit(**LARGE_SOURCES)
    random_of = random.Random(7 * vectors)
    table = make(spark, tmp_path / "t", SCHEMA, [], vectors=vectors)
    expected: list[Row] = []
    for batch in range(3):
        times = {key: random_of.sample(range(100 * batch, 100 * batch + 100), random_of.randint(0, 4)) for key in range(12)}
        changes = [
            (key, random_of.choice(["a", "b", None]), random_of.choice(["x", None]), at)
            for key, ats in times.items()
            for at in ats
        ]
        random_of.shuffle(changes)
        after = merged(expected, changes)
        closed = sum(row not in after for row in expected)
        assert merge(table, changes_of(spark, *changes)) == (
            len(after) - len(expected) + closed,
            closed,
            0,
            len(after) - len(expected),
        )
        assert content(spark, tmp_path / "t") == after
        expected = after


def test_changes_that_are_lost_are_evaluated_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: Callable[..., None]
) -> None:
    if not hasattr(spark, "_jsc"):
        pytest.skip("a Connect client can't drop the server's blocks")
    limit(**LARGE_SOURCES)
    table = make(spark, tmp_path / "t", SCHEMA, [])
    tries: list[int] = []

    def run_attempts(*arguments: Any) -> Any:
        tries.append(1)
        if len(tries) == 1:
            for rdd in spark._jsc.getPersistentRDDs().values():
                rdd.unpersist(True)
        return _RUN(*arguments)

    monkeypatch.setattr(line, "run_attempts", run_attempts)
    merge(table, changes_of(spark, (1, "a", "x", 5)))
    assert len(tries) == 2
    assert [row[0] for row in content(spark, tmp_path / "t")] == [1]
