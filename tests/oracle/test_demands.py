"""Constraints, generated columns and defaults: merges and appends end as delta-spark's do."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import deltamerge
from tests.oracle.engines import copy_table
from tests.oracle.readers import by_delta_spark, by_deltamerge

CHECKED = (
    "id INT, n INT, name STRING",
    "",
    [
        "ALTER TABLE {t} ADD CONSTRAINT positive CHECK (n > 0)",
        "ALTER TABLE {t} ADD CONSTRAINT named CHECK (name <> 'bad' OR id = 1)",
    ],
)
GENERATED = (
    "id INT, ts TIMESTAMP, day DATE GENERATED ALWAYS AS (CAST(ts AS DATE)), twice INT GENERATED ALWAYS AS (id * 2)",
    "PARTITIONED BY (day)",
    [],
)
DEFAULTED = (
    "id INT, n INT DEFAULT 7, name STRING DEFAULT concat('a', 'b'), plain INT",
    "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')",
    [],
)
T0, T1 = "TIMESTAMP'2020-01-01 10:00:00'", "TIMESTAMP'2021-05-05 00:00:00'"

CASES = [
    (
        "all fit",
        CHECKED,
        ["(1, 5, 'x')", "(2, 6, 'y')"],
        "VALUES (1, 9, 'q'), (3, 1, 'r') AS v(id, n, name)",
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    ),
    (
        "an updated row violates",
        CHECKED,
        ["(1, 5, 'x')"],
        "VALUES (1, 0, 'q') AS v(id, n, name)",
        "WHEN MATCHED THEN UPDATE SET *",
    ),
    ("a null violates", CHECKED, ["(1, 5, 'x')"], "VALUES (1, 1) AS v(id, n)", "WHEN MATCHED THEN UPDATE SET n = NULL"),
    (
        "an inserted row violates",
        CHECKED,
        ["(1, 5, 'x')"],
        "VALUES (2, 5, 'bad') AS v(id, n, name)",
        "WHEN NOT MATCHED THEN INSERT *",
    ),
    (
        "a partial update violates by a column that it leaves",
        CHECKED,
        ["(1, 5, 'bad')"],
        "VALUES (1, 2) AS v(id, n)",
        "WHEN MATCHED THEN UPDATE SET id = 2",
    ),
    (
        "a partial update fits",
        CHECKED,
        ["(1, 5, 'bad')", "(2, 5, 'c')"],
        "VALUES (1, 2), (2, 3) AS v(id, n)",
        "WHEN MATCHED THEN UPDATE SET n = s.n",
    ),
    ("deleted rows demand nothing", CHECKED, ["(1, 5, 'x')"], "VALUES (1, 0) AS v(id, n)", "WHEN MATCHED THEN DELETE"),
    (
        "by source violates",
        CHECKED,
        ["(1, 5, 'x')"],
        "VALUES (9, 1) AS v(id, n)",
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET n = t.n - 5",
    ),
    (
        "generated when left out",
        GENERATED,
        [f"(1, {T0}, DATE'2020-01-01', 2)"],
        f"VALUES (5, {T1}) AS v(id, ts)",
        "WHEN NOT MATCHED THEN INSERT (id, ts) VALUES (s.id, s.ts)",
    ),
    (
        "recomputed by a partial update, which moves the row",
        GENERATED,
        [f"(1, {T0}, DATE'2020-01-01', 2)"],
        f"VALUES (1, {T1}) AS v(id, ts)",
        "WHEN MATCHED THEN UPDATE SET ts = s.ts",
    ),
    (
        "given and right",
        GENERATED,
        [f"(1, {T0}, DATE'2020-01-01', 2)"],
        f"VALUES (1, {T1}, DATE'2021-05-05', 2) AS v(id, ts, day, twice)",
        "WHEN MATCHED THEN UPDATE SET *",
    ),
    (
        "given and wrong",
        GENERATED,
        [f"(1, {T0}, DATE'2020-01-01', 2)"],
        f"VALUES (1, {T1}, DATE'2021-05-05', 3) AS v(id, ts, day, twice)",
        "WHEN MATCHED THEN UPDATE SET *",
    ),
    (
        "star without the generated column",
        GENERATED,
        [f"(1, {T0}, DATE'2020-01-01', 2)"],
        f"VALUES (1, {T1}) AS v(id, ts)",
        "WHEN MATCHED THEN UPDATE SET *",
    ),
    (
        "defaults for columns left out",
        DEFAULTED,
        ["(1, 1, 'x', 1)"],
        "VALUES (2) AS v(id)",
        "WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)",
    ),
]


@pytest.mark.parametrize("vectors", [False, True], ids=["rewritten", "marked"])
@pytest.mark.parametrize(("table", "rows", "source", "clauses"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_merge_ends_as_delta_sparks(
    spark: SparkSession,
    tmp_path: Path,
    table: tuple[str, str, list[str]],
    rows: list[str],
    source: str,
    clauses: str,
    vectors: bool,
) -> None:
    columns, options, changes = table
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    spark.sql(f"CREATE TABLE delta.`{theirs}` ({columns}) USING delta {options}")
    if vectors:
        spark.sql(f"ALTER TABLE delta.`{theirs}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    for change in changes:
        spark.sql(change.format(t=f"delta.`{theirs}`"))
    spark.sql(f"INSERT INTO delta.`{theirs}` VALUES {', '.join(rows)}")
    copy_table(theirs, ours)
    statement = f"MERGE INTO delta.`{{path}}` t USING (SELECT * FROM {source}) s ON t.id = s.id {clauses}"
    outcomes = []
    for path, run in ((theirs, spark.sql), (ours, lambda text: deltamerge.sql(spark, text))):
        try:
            outcomes.append(run(statement.format(path=path)).collect())
        except Exception as error:
            violated = "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES" in str(error) or "CHECK constraint" in str(error)
            outcomes.append("violated" if violated else "failed")
    assert outcomes[1] == outcomes[0]
    assert by_delta_spark(spark, ours) == by_delta_spark(spark, theirs) == by_deltamerge(spark, ours)


def test_an_append_fills_generates_and_checks(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id INT, n INT DEFAULT 7, twice INT GENERATED ALWAYS AS (id * 2)) USING delta "
        "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    )
    spark.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT small CHECK (id < 10)")
    deltamerge.write(spark.sql("SELECT 4 AS id"), path, mode="append")
    assert [tuple(row) for row in spark.read.format("delta").load(path).collect()] == [(4, 7, 8)]
    for wrong in ("SELECT 10 AS id", "SELECT 1 AS id, 3 AS twice"):
        with pytest.raises(Exception, match="DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"):
            deltamerge.write(spark.sql(wrong), path, mode="append")
    assert spark.read.format("delta").load(path).count() == 1


def test_the_word_default_is_the_columns_default(spark: SparkSession, tmp_path: Path) -> None:
    """By path delta-spark fails on it; the expectation is what it does for catalog tables."""
    columns, options, _ = DEFAULTED
    path = str(tmp_path / "t")
    spark.sql(f"CREATE TABLE delta.`{path}` ({columns}) USING delta {options}")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, 1, 'x', 1)")
    deltamerge.sql(
        spark,
        f"""MERGE INTO delta.`{path}` t USING (SELECT * FROM VALUES (1), (2) AS v(id)) s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET n = DEFAULT, plain = DEFAULT
        WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, DEFAULT)""",
    )
    rows = spark.read.format("delta").load(path).orderBy("id").collect()
    assert [tuple(row) for row in rows] == [(1, 7, "x", None), (2, 7, "ab", None)]
