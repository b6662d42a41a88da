"""Sources whose texts have a collation: Spark compares them, never bytes, and the rows are those of delta-spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import deltamerge
from deltamerge.exceptions import DeltaAnalysisException
from deltamerge.tables import DeltaMergeBuilder
from tests.cases.running import large_sources
from tests.e2e.tables import conf, content, make

pytestmark = pytest.mark.connect
ROWS = [(1, "ab", True), (2, "AB", True), (3, None, True), (5, "zz", True)]
CHANGES = [(1, "AB"), (2, "ab "), (4, "Ab"), (3, None)]
STRATEGIES = ["auto", "join"]
# An older Spark finds no collation in what it evaluates once for several uses, in queries as well.
IS_OLDER = pyspark.__version__ < "4.2"


@pytest.fixture(autouse=True)
def one_analyzer(spark: SparkSession) -> Iterator[None]:
    """Spark's own tests run two analyzers at times; its new one takes these collations for no collation and fails."""
    with conf(spark, {"spark.sql.analyzer.singlePassResolver.dualRunSampleRate": "0"}):
        yield


def changes(spark: SparkSession) -> DataFrame:
    """A source whose texts are the same in small and capital letters, as columns and within a struct and an array."""
    collated = F.expr("s collate UTF8_LCASE")
    frame = spark.createDataFrame(CHANGES, "id int, s string").withColumn("s", collated)
    return frame.select("id", "s", F.struct("s", "id").alias("x"), F.array("s").alias("y")).alias("s")


def rows_after(spark: SparkSession, path: Path, strategy: str, merge: Callable[[Any], DeltaMergeBuilder]) -> list[Any]:
    """The rows after a merge by a strategy."""
    table = make(spark, path, "id int, s string, b boolean", ROWS)
    with conf(spark, {"spark.deltamerge.strategy": strategy}):
        merge(table).execute()
    return content(spark, path)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_values_are_those_of_delta_spark(spark: SparkSession, tmp_path: Path, strategy: str) -> None:
    wanted = {
        "coalesce(s.s, 'q')": ["AB", "ab ", "q", "Ab"],
        "if(s.s = 'AB', 'y', 'n')": ["y", "n", "n", "y"],
        "nullif(s.x.s, 'ab')": [None, "ab ", None, None],
        "CASE WHEN s.y[0] IN ('ab', 'x') THEN s.s END": ["AB", None, None, "Ab"],
    }
    if IS_OLDER:
        del wanted["nullif(s.x.s, 'ab')"]
    for number, (value, (*matched, inserted)) in enumerate(wanted.items()):
        values = {"id": "s.id", "s": value}

        def merge(table: Any, values: dict[str, Any] = values) -> DeltaMergeBuilder:
            merge = table.merge(changes(spark), "t.id = s.id").whenMatchedUpdate(set={"s": values["s"]})
            return merge.whenNotMatchedInsert(values=values)

        rows = [(id, text, True) for id, text in zip((1, 2, 3), matched, strict=True)]
        assert rows_after(spark, tmp_path / str(number), strategy, merge) == [*rows, (4, inserted, None), ROWS[-1]], value


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_conditions_compare_by_the_collation(spark: SparkSession, tmp_path: Path, strategy: str) -> None:
    deleted = {
        "s.s = 'ab'": {1},
        "s.s IN ('ab', 'x')": {1},
        "s.s BETWEEN 'aa' AND 'ac'": {1, 2},
        "coalesce(s.s, 'AB') = 'ab'": {1, 3},
        "s.x.s <=> 'aB'": {1},
        "array_contains(s.y, 'ab')": {1},
        "t.s = s.s collate UTF8_LCASE": {1},
        "t.s collate UTF8_LCASE = 'ab'": {1, 2},
        "t.s = 'ab' collate UTF8_LCASE": {1, 2},
        "t.s = 'ab'": {1},
    }
    if IS_OLDER:
        del deleted["s.s BETWEEN 'aa' AND 'ac'"]
    for number, (condition, ids) in enumerate(deleted.items()):
        left = [row for row in ROWS if row[0] not in ids]
        for place, merge in enumerate(
            (
                lambda table, c=condition: table.merge(changes(spark), "t.id = s.id").whenMatchedDelete(c),
                lambda table, c=condition: table.merge(changes(spark), f"t.id = s.id AND {c}").whenMatchedDelete(),
            )
        ):
            assert rows_after(spark, tmp_path / f"{number}_{place}", strategy, merge) == left, condition


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_keys_are_equal_by_the_collation(spark: SparkSession, tmp_path: Path, strategy: str) -> None:
    one = changes(spark).where("id = 1")

    def merge(table: Any) -> DeltaMergeBuilder:
        merge = table.merge(one.alias("s"), "t.s collate UTF8_LCASE = s.s").whenMatchedUpdate(set={"b": "false"})
        return merge.whenNotMatchedBySourceDelete("t.s collate UTF8_LCASE = 'ZZ'")

    assert rows_after(spark, tmp_path / "t", strategy, merge) == [(1, "ab", False), (2, "AB", False), ROWS[2]]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_text_that_has_lost_its_collation_is_stored(spark: SparkSession, tmp_path: Path, strategy: str) -> None:
    wanted = {
        "coalesce(s.s, t.s)": ["AB", "ab ", None],
        "concat(s.s, t.s)": ["ABab", "ab AB", None],
        "if(s.s = 'ab', s.s, t.s)": ["AB", "AB", None],
    }
    for number, (value, texts) in enumerate(wanted.items()):

        def merge(table: Any, value: str = value) -> DeltaMergeBuilder:
            return table.merge(changes(spark), "t.id = s.id").whenMatchedUpdate(set={"s": value, "b": "s.id = 2"})

        rows = [(id, text, id == 2) for id, text in zip((1, 2, 3), texts, strict=True)]
        assert rows_after(spark, tmp_path / str(number), strategy, merge) == [*rows, ROWS[-1]], value


def test_a_comparison_without_a_collation_is_refused_by_name(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", "id int, s string, b boolean", ROWS)
    for merge in (
        lambda: table.merge(changes(spark), "t.s = s.s").whenMatchedDelete(),
        lambda: table.merge(changes(spark), "t.id = s.id").whenMatchedUpdate(set={"b": "array(s.s, t.s)[0] = 'ab'"}),
        lambda: table.merge(changes(spark), "t.id = s.id").whenMatchedUpdate(set={"s": "struct(coalesce(s.s, t.s))"}),
    ):
        with pytest.raises(DeltaAnalysisException, match="INDETERMINATE_COLLATION_IN_EXPRESSION"):
            merge().execute()


@pytest.mark.parametrize("query", ["SELECT * FROM collated", "SELECT id, coalesce(s, x.s) AS s FROM collated", "TABLE collated"])
def test_a_source_may_be_a_query(spark: SparkSession, tmp_path: Path, query: str) -> None:
    changes(spark).createOrReplaceTempView("collated")
    for strategy in STRATEGIES:
        path = tmp_path / strategy
        make(spark, path, "id int, s string, b boolean", ROWS)
        with conf(spark, {"spark.deltamerge.strategy": strategy}):
            deltamerge.sql(
                spark,
                f"MERGE INTO delta.`{path}` t USING ({query}) s ON t.id = s.id WHEN MATCHED AND s.s = 'ab' THEN DELETE "
                "WHEN NOT MATCHED AND s.s = 'AB' THEN INSERT (id, s) VALUES (s.id, s.s)",
            )
        assert content(spark, path) == [ROWS[1], ROWS[2], (4, "Ab", None), ROWS[3]]


def test_a_source_too_large_for_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    def merge(table: Any) -> DeltaMergeBuilder:
        merge = table.merge(changes(spark), "t.id = s.id").whenMatchedDelete("s.s = 'ab'")
        return merge.whenNotMatchedInsert("s.s = 'AB'", {"id": "s.id", "s": "coalesce(s.s, 'q')"})

    with large_sources():
        assert rows_after(spark, tmp_path / "t", "auto", merge) == [ROWS[1], ROWS[2], (4, "Ab", None), ROWS[3]]
