"""A merge is one statement: the time that its expressions ask for is the same for every row and clause."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import deltamerge
from deltamerge.errors import SourceLostError
from deltamerge.exceptions import DeltaAnalysisException
from deltamerge.merge import line
from deltamerge.merge.execute.attempts import Ran
from deltamerge.spark.source.facts import Source
from tests.e2e.tables import LARGE_SOURCES, content, make, source

OLD = datetime(2020, 1, 1)
ROWS = [(1, OLD, "a"), (2, OLD, "a"), (3, OLD, "b")]
TIMES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "text": ("current_timestamp()", str),
    "a word": ("current_timestamp", str),
    "now": ("now()", str),
    "column": ("current_timestamp()", F.expr),
    "within": ("greatest(now(), timestamp'2020-01-01')", str),
}


def times(spark: SparkSession, path: Path) -> set[Any]:
    return {row[1] for row in content(spark, path)}


@pytest.mark.parametrize("vectors", [False, True], ids=["rewritten", "marked"])
@pytest.mark.parametrize("condition", ["t.id = s.id", "t.id = s.id AND t.w <= s.w"], ids=["keys", "more than keys"])
@pytest.mark.parametrize("form", list(TIMES))
def test_clauses_of_all_kinds_have_the_same_time(
    spark: SparkSession, tmp_path: Path, strategy: str, vectors: bool, condition: str, form: str
) -> None:
    text, given = TIMES[form]
    table = make(spark, tmp_path / "t", "id int, at timestamp, w string", ROWS, files=2, vectors=vectors)
    changes = source(spark, "id int, w string", [(2, "a"), (3, "a"), (4, "a")])
    merge = table.merge(changes, condition).whenMatchedUpdate(set={"at": given(text)})
    merge = merge.whenNotMatchedInsert(values={"id": "s.id", "at": given(text), "w": "s.w"})
    merge = merge.whenNotMatchedBySourceUpdate(set={"at": given(text)})
    assert merge.preview().strategy == ("broadcast" if strategy == "auto" else "spark_join")
    assert merge.run().inserted == (1 if condition == "t.id = s.id" else 2)
    assert len(times(spark, tmp_path / "t") - {OLD}) == 1
    assert OLD not in times(spark, tmp_path / "t")


def test_the_search_condition_has_the_time_of_the_clauses(spark: SparkSession, tmp_path: Path, strategy: str) -> None:
    table = make(spark, tmp_path / "t", "id int, at timestamp, w string", [*ROWS, (5, datetime(2999, 1, 1), "a")])
    merge = table.merge(source(spark, "id int", [(2,), (4,), (5,)]), "t.id = s.id AND t.at < now()")
    merge = merge.whenMatchedUpdate(set={"at": "now()"}).whenNotMatchedInsert(values={"id": "s.id", "at": "now()"})
    merge.execute()
    found = content(spark, tmp_path / "t")
    assert [row[0] for row in found] == [1, 2, 3, 4, 5, 5]
    assert len({at for id, at, _ in found if id in (2, 4)} | {min(at for id, at, _ in found if id == 5)}) == 1


CLOCKS = {
    "a": ("current_timestamp()", F.current_timestamp),
    "b": ("now()", F.now),
    "c": ("current_date()", F.current_date),
    "d": ("localtimestamp()", F.localtimestamp),
    "e": ("unix_timestamp()", F.unix_timestamp),
}
ALL_EQUAL = " AND ".join(f"s.{name} = {text}" for name, (text, _) in CLOCKS.items())
IN_SQL = "SELECT id, " + ", ".join(f"{text} AS {name}" for name, (text, _) in CLOCKS.items()) + " FROM VALUES (2), (4) AS v(id)"


def timed_source(spark: SparkSession) -> DataFrame:
    return source(spark, "id int", [(2,), (4,)]).select("id", *[clock().alias(name) for name, (_, clock) in CLOCKS.items()])


@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
@pytest.mark.parametrize("form", ["text", "columns", "sql", "view"])
def test_the_source_has_the_time_of_the_merge(
    spark: SparkSession, tmp_path: Path, limit: Callable[..., None], strategy: str, form: str, large: bool
) -> None:
    if large:
        limit(**LARGE_SOURCES)
    columns = "id int, at timestamp, w string"
    table = make(spark, tmp_path / "t", columns, ROWS, properties={"delta.constraints.fresh": "at = now() OR w <> 'new'"})
    if form in ("sql", "view"):
        spark.sql(IN_SQL).createOrReplaceTempView("timed")
        given = f"({IN_SQL})" if form == "sql" else "timed"
        text = f"MERGE INTO delta.`{tmp_path / 't'}` AS t USING {given} AS s ON t.id = s.id AND s.a = now() "
        text += f"WHEN MATCHED AND {ALL_EQUAL} THEN UPDATE SET at = s.b, w = CASE WHEN s.b = current_timestamp THEN 'new' END "
        text += f"WHEN NOT MATCHED AND {ALL_EQUAL} THEN INSERT (id, at, w) VALUES (s.id, now(), if(s.a = now(), 'new', 'old')) "
        text += "WHEN NOT MATCHED BY SOURCE AND t.at < now() THEN UPDATE SET at = now(), w = 'new'"
        deltamerge.sql(spark, text)
    else:
        equal = ALL_EQUAL if form == "text" else reduce(and_, [F.col(f"s.{n}") == clock() for n, (_, clock) in CLOCKS.items()])
        new: Any = "if(s.b = current_timestamp, 'new', 'old')"
        new = new if form == "text" else F.when(F.col("s.b") == F.col("current_timestamp"), F.lit("new")).otherwise("old")
        merge = table.merge(timed_source(spark).alias("s"), F.expr("t.id = s.id") & (F.col("s.a") == F.now()))
        merge = merge.whenMatchedUpdate(equal, {"at": "s.b", "w": new})
        merge = merge.whenNotMatchedInsert(equal, {"id": "s.id", "at": F.expr("now()"), "w": new})
        merge = merge.whenNotMatchedBySourceUpdate("t.at < now()", {"at": F.current_timestamp(), "w": "'new'"})
        merge.preview()
        merge.execute()
    found = content(spark, tmp_path / "t")
    assert [(id, w) for id, _, w in found] == [(1, "new"), (2, "new"), (3, "new"), (4, "new")]
    assert len({at for _, at, _ in found}) == 1
    assert found[0][1] > OLD


def test_a_source_that_is_read_again_has_the_new_time_of_the_clauses(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sources: list[Source]
) -> None:
    table = make(spark, tmp_path / "t", "id int, at timestamp, w string", ROWS)
    run_attempts = line.run_attempts

    def lost_once(*given: Any) -> Ran:
        if len(sources) == 1:
            raise SourceLostError("CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND", "Rows are lost.")
        return run_attempts(*given)

    monkeypatch.setattr(line, "run_attempts", lost_once)
    merge = table.merge(timed_source(spark).alias("s"), "t.id = s.id")
    now = "now()" if pyspark.__version__ < "4.2" else "system.builtin.now()"  # which older ones don't know
    merge = merge.whenMatchedUpdate(f"s.a = {now}", {"at": "now()"})
    assert merge.run().updated == 1
    first, second = (source.time for source in sources)
    assert first is not None
    assert second is not None
    assert second > first
    micros = deltamerge.read(spark, str(tmp_path / "t")).where("id = 2").select(F.unix_micros("at")).collect()
    assert micros[0][0] == second


def test_what_asks_for_the_time_out_of_sight_is_refused_where_the_source_asks_too(
    spark: SparkSession, tmp_path: Path, untouchable: DataFrame
) -> None:
    table = make(spark, tmp_path / "t", "id int, at timestamp, w string", ROWS)
    spark.sql("SELECT now() AS at").createOrReplaceTempView("clock")
    hidden = "(SELECT max(at) FROM clock)"
    merge = table.merge(untouchable.select("id", F.now().alias("ts")).alias("s"), "t.id = s.id")
    with pytest.raises(DeltaAnalysisException, match=r"DELTAMERGE_TIME_OUT_OF_SIGHT\b.*max\(at\)"):
        merge.whenMatchedUpdate(set={"at": hidden}).execute()
    plain = table.merge(source(spark, "id int", [(2,)]), "t.id = s.id").whenMatchedUpdate(set={"at": hidden})
    assert plain.run().updated == 1


MOMENTS = [
    "cast('now' AS timestamp)",
    "try_cast(' NOW ' AS timestamp)",
    "to_timestamp('now')",
    "timestamp('now')",
    "cast(to_timestamp_ntz('now') AS timestamp)",
    "date_add(to_date('today'), 1)",
    "cast('tomorrow' AS date)",
    "cast('tomorrow' AS timestamp)",
]
LITERALS = ["timestamp'now'"]


@pytest.mark.parametrize("form", [str, F.expr], ids=["text", "column"])
@pytest.mark.parametrize("moment", [*MOMENTS, *LITERALS])
def test_a_text_that_is_cast_to_a_moment_is_one_after_the_time_of_the_merge(
    spark: SparkSession, tmp_path: Path, strategy: str, moment: str, form: Callable[[str], Any]
) -> None:
    """As in delta-spark, where each such text is the moment at which Spark plans the query that evaluates it."""
    table = make(spark, tmp_path / "t", "id int, at timestamp, w string", ROWS)
    # A literal is the moment at which Spark parses it, which may come before the time of the merge.
    later = f"s.ts {'!=' if moment in LITERALS else '<='} {moment}"
    merge = table.merge(
        source(spark, "id int", [(2,), (4,)]).withColumn("ts", F.now()).alias("s"), form(f"t.id = s.id AND {later}")
    )
    merge = merge.whenMatchedUpdate(form(later), {"at": form(moment), "w": "'new'"})
    merge = merge.whenNotMatchedInsert(form(later), {"id": "s.id", "at": form(moment), "w": "'new'"})
    merge.whenNotMatchedBySourceUpdate(form("t.id = 1 AND t.at < cast('now' AS timestamp)"), {"at": form(moment)}).execute()
    found = {id: (at, w) for id, at, w in content(spark, tmp_path / "t")}
    assert [found[id][1] for id in (1, 2, 3, 4)] == ["a", "new", "b", "new"]
    assert found[3][0] == OLD
    assert all(found[id][0] > OLD for id in (1, 2, 4))


def test_columns_and_functions_of_the_session_come_before_the_time(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", "id int, at timestamp, w string", ROWS)
    changes = timed_source(spark).withColumn("current_date", F.lit("mine")).alias("s")
    merge = table.merge(changes, "t.id = s.id AND s.a = now()")
    merge.whenMatchedUpdate(set={"w": "concat(current_date, s.c = current_date())"}).execute()
    assert content(spark, tmp_path / "t")[1][2] == "minetrue"


def test_a_struct_calls_its_field_by_the_word_without_parentheses(spark: SparkSession, tmp_path: Path, strategy: str) -> None:
    table = make(spark, tmp_path / "t", "id int, at timestamp, w string", ROWS)
    merge = table.merge(timed_source(spark).alias("s"), "t.id = s.id")
    merge.whenMatchedUpdate(set={"w": "CAST(json_object_keys(to_json(struct(CURRENT_DATE, s.id, now()))) AS STRING)"}).execute()
    assert content(spark, tmp_path / "t")[1][2] == "[CURRENT_DATE, id, col3]"
