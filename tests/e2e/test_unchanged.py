"""`skipUnchanged()`: rows that an UPDATE would leave as they are stay where they are, and are seen by nobody."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.exceptions import DeltaMultipleMatchException
from deltamerge.log.replay.table import open_log
from deltamerge.tables import DeltaTable
from tests.e2e.tables import LARGE_SOURCES, content, make, source, version

pytestmark = pytest.mark.usefixtures("strategy")

SCHEMA = "id int, v string, x double"
NAN = float("nan")


def paths(path: Path) -> set[str]:
    return set(open_log(str(path)).snapshot().files.column("path").to_pylist())


@pytest.mark.parametrize("vectors", [False, True])
def test_rows_that_stay_equal_are_neither_written_nor_counted(spark: SparkSession, tmp_path: Path, vectors: bool) -> None:
    rows = [(1, "a", 1.0), (2, None, NAN), (3, "c", None), (4, "d", 0.0)]
    properties = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": str(vectors).lower()}
    table = make(spark, tmp_path / "t", SCHEMA, rows, files=2, properties=properties)
    before = paths(tmp_path / "t")
    changes = source(spark, SCHEMA, [(1, "a", 1.0), (2, None, NAN), (3, "C", None), (4, "d", 0.0), (5, "e", 5.0)])
    merge = table.merge(changes, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().skipUnchanged()
    report = merge.run()
    assert (report.updated, report.inserted) == (1, 1)
    assert [repr(row) for row in content(spark, tmp_path / "t")] == [
        repr(r) for r in [*rows[:2], (3, "C", None), rows[3], (5, "e", 5.0)]
    ]
    assert len(before & paths(tmp_path / "t")) == (2 if vectors else 1)
    feed = deltamerge.read_changes(spark, str(tmp_path / "t"), starting_version=report.version)
    kinds = sorted((row["id"], row["_change_type"]) for row in feed.collect())
    assert kinds == [(3, "update_postimage"), (3, "update_preimage"), (5, "insert")]
    newest = version(tmp_path / "t")
    assert merge.run().updated == 0
    assert version(tmp_path / "t") == newest


def test_a_row_that_is_left_alone_is_not_passed_on(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, [(1, "a", 1.0), (2, "b", 2.0), (3, "c", 3.0), (4, "d", 4.0)])
    changes = source(spark, SCHEMA, [(1, "a", 9.0), (2, "B", 9.0), (3, "c", None)])
    merge = table.merge(changes, "t.id = s.id").whenMatchedUpdate("s.x > 5", {"v": "s.v"}).whenMatchedDelete()
    merge = merge.whenNotMatchedBySourceUpdate("t.x < 9", {"v": "'d'"}).whenNotMatchedBySourceDelete()
    report = merge.skipUnchanged().run()
    assert (report.updated, report.deleted) == (1, 1)
    assert content(spark, tmp_path / "t") == [(1, "a", 1.0), (2, "B", 2.0), (4, "d", 4.0)]


def test_values_are_compared_as_they_would_be_stored(spark: SparkSession, tmp_path: Path) -> None:
    rows: list[tuple[Any, ...]] = [(1, (1, "x"), {"k": 1}, 7), (2, (2, "y"), {"k": 2}, 8)]
    table = make(spark, tmp_path / "t", "id int, st struct<a:int,b:string>, m map<string,int>, n smallint", rows)
    changes = spark.sql(
        "SELECT i AS id, named_struct('b', b, 'a', i * 1L) AS st, n FROM VALUES (1, 'x', '7'), (2, 'y', '9') AS x(i, b, n)"
    )
    merge = table.merge(changes.alias("s"), "t.id = s.id").whenMatchedUpdate(set={"st": "s.st", "n": "s.n"})
    assert merge.skipUnchanged().run().updated == 1
    assert content(spark, tmp_path / "t") == [(1, (1, "x"), {"k": 1}, 7), (2, (2, "y"), {"k": 2}, 9)]
    maps = table.merge(changes.alias("s"), "t.id = s.id")
    assert maps.whenMatchedUpdate(set={"m": "t.m"}).skipUnchanged().run().updated == 0
    assert maps.whenMatchedUpdate(set={"m": "map_concat(t.m, map())"}).skipUnchanged().run().updated == 2


def test_a_new_column_changes_rows(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", "id int", [(1,), (2,)])
    changes = source(spark, "id int, w int", [(1, 5), (2, None)])
    merge = table.merge(changes, "t.id = s.id").whenMatchedUpdateAll().withSchemaEvolution().skipUnchanged()
    assert merge.run().updated == 2
    assert content(spark, tmp_path / "t") == [(1, 5), (2, None)]


@pytest.mark.parametrize("seed", range(4))
def test_the_rows_are_those_of_the_merge_without_it(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    values = [None, "a", "b"]
    rows = [(n, draw.choice(values), draw.choice([None, 0.0, 1.0])) for n in range(30)]
    batch = [(n, draw.choice(values), draw.choice([None, 0.0, 1.0])) for n in draw.sample(range(40), 20)]
    found = []
    for name in ("plain", "skipped"):
        table = make(spark, tmp_path / name, SCHEMA, rows, files=3)
        merge = table.merge(source(spark, SCHEMA, batch), "t.id = s.id").whenMatchedUpdate("s.x = 0", {"v": "s.v"})
        merge = merge.whenMatchedDelete("s.x = 1 AND t.v = 'a'").whenMatchedUpdateAll().whenNotMatchedInsertAll()
        found.append((merge.skipUnchanged() if name == "skipped" else merge).run())
    assert content(spark, tmp_path / "skipped") == content(spark, tmp_path / "plain")
    before, given = {row[0]: row for row in rows}, {row[0]: row for row in batch}
    updated = [k for k, row in given.items() if k in before and (row[2] == 0 or not (row[2] == 1 and before[k][1] == "a"))]
    changed = [k for k in updated if (given[k][1] != before[k][1] if given[k][2] == 0 else given[k] != before[k])]
    assert (found[0].updated, found[1].updated) == (len(updated), len(changed))


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize(
    "batch",
    [[(1, "a", 1.0), (1, "b", 1.0)], [(1, "a", 1.0), (1, "a", 5.0)], [(1, "a", 1.0), (1, "a", 1.0)]],
    ids=["change", "delete", "alike"],
)
def test_an_ambiguous_match_is_refused_though_a_row_would_stay(
    spark: SparkSession, tmp_path: Path, limit: Callable[..., None], batch: list[tuple[Any, ...]], large: bool
) -> None:
    if large:
        limit(**LARGE_SOURCES)
    table = make(spark, tmp_path / "t", SCHEMA, [(1, "a", 1.0), (2, "b", 2.0)])
    merge = table.merge(source(spark, SCHEMA, batch), "t.id = s.id").whenMatchedDelete("s.x = 5").whenMatchedUpdateAll()
    for attempt in (merge.skipUnchanged().preview, merge.skipUnchanged().execute, merge.execute):
        with pytest.raises(DeltaMultipleMatchException, match="1 target row:"):
            attempt()
    assert content(spark, tmp_path / "t") == [(1, "a", 1.0), (2, "b", 2.0)]
    unlike = table.merge(source(spark, SCHEMA, batch), "t.id = s.id").whenMatchedUpdate("s.x = 7", {"v": "s.v"})
    assert unlike.skipUnchanged().run().updated == 0


@pytest.mark.local(reason="the schema is changed by a commit written with files")
def test_what_is_computed_padded_or_set_to_itself_does_not_change(spark: SparkSession, tmp_path: Path) -> None:
    make(spark, tmp_path / "t", "id int, c string, g int, m map<string,int>", [(1, "ab   ", 10, {"k": 1})])
    log = tmp_path / "t" / "_delta_log"
    actions = [json.loads(line) for line in (log / f"{0:020d}.json").read_text().splitlines()]
    (metadata,) = [action for action in actions if "metaData" in action]
    schema = json.loads(metadata["metaData"]["schemaString"])
    schema["fields"][1]["metadata"] = {"__CHAR_VARCHAR_TYPE_STRING": "char(5)"}
    schema["fields"][2]["metadata"] = {"delta.generationExpression": "id * 10"}
    metadata["metaData"]["schemaString"] = json.dumps(schema)
    protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 4}}
    lines = [json.dumps(line) for line in ({"commitInfo": {"operation": "ALTER"}}, protocol, metadata)]
    (log / f"{1:020d}.json").write_text("\n".join(lines))
    table = DeltaTable.forPath(spark, str(tmp_path / "t")).alias("t")
    merge = table.merge(source(spark, "id int, c string", [(1, "ab")]), "t.id = s.id")
    merge = merge.whenMatchedUpdate(set={"id": "s.id", "c": "s.c"})
    assert merge.run().updated == 1
    assert merge.skipUnchanged().run().updated == 0
    shorter = table.merge(source(spark, "id int, c string", [(1, "a")]), "t.id = s.id").whenMatchedUpdate(set={"c": "s.c"})
    assert shorter.skipUnchanged().run().updated == 1


def test_the_commit_has_the_conditions_that_were_given(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, [(1, "a", 1.0)])
    merge = table.merge(source(spark, SCHEMA, [(1, "b", 1.0)]), "t.id = s.id").whenMatchedUpdateAll("s.x > 0")
    merge.skipUnchanged().execute()
    parameters = table.history(1).collect()[0]["operationParameters"]
    assert parameters["matchedPredicates"] == '[{"predicate":"s.x > 0","actionType":"update"}]'
