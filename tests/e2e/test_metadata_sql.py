"""SQL that a table's log carries may compute values of a row, and nothing else: no code, no other table, no setting."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.errors import AnalysisError, ConstraintError
from deltamerge.tables import DeltaTable

CODE = "java_method('java.lang.System', 'getProperty', 'user.home')"


def carrying(path: Path, field: dict[str, str], configuration: dict[str, str]) -> None:
    """Another's commit: its metadata has SQL texts for the column `b`, or in the table's properties."""
    log = path / "_delta_log" / f"{0:020d}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    (metadata,) = (line["metaData"] for line in lines if "metaData" in line)
    schema = json.loads(metadata["schemaString"])
    schema["fields"][1]["metadata"] = field
    metadata |= {"schemaString": json.dumps(schema), "configuration": configuration}
    lines = [line for line in lines if "protocol" not in line]
    features = ["checkConstraints", "generatedColumns", "invariants", "allowColumnDefaults"]
    protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": features}}
    log.write_text("".join(json.dumps(line) + "\n" for line in (protocol, *lines)))
    for other in log.parent.glob("*.crc"):
        other.unlink()


def merged(spark: SparkSession, path: Path) -> None:
    deltamerge.sql(
        spark, f"MERGE INTO delta.`{path}` t USING (SELECT 2 id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (id)"
    )


def updated(spark: SparkSession, path: Path) -> None:
    deltamerge.sql(spark, f"UPDATE delta.`{path}` SET id = 3")


def inserted(spark: SparkSession, path: Path) -> None:
    deltamerge.sql(spark, f"INSERT INTO delta.`{path}` (id) VALUES (4)")


def inserted_default(spark: SparkSession, path: Path) -> None:
    deltamerge.sql(spark, f"INSERT INTO delta.`{path}` VALUES (4, DEFAULT)")


def appended(spark: SparkSession, path: Path) -> None:
    deltamerge.write(spark.range(1).selectExpr("cast(id as int) id"), str(path), mode="append")


INVARIANT = json.dumps({"expression": {"expression": f"{CODE} IS NOT NULL"}})
TEXTS: list[tuple[dict[str, str], dict[str, str], str]] = [
    ({"delta.generationExpression": CODE}, {}, "java_method"),
    ({"CURRENT_DEFAULT": CODE}, {}, "java_method"),
    ({"delta.invariants": INVARIANT}, {}, "java_method"),
    ({}, {"delta.constraints.c": "b <> '${env:HOME}'"}, "${env:HOME}"),
    ({}, {"delta.constraints.c": "id > (SELECT max(id) FROM parquet.`/other`)"}, "a subquery"),
    ({"CURRENT_DEFAULT": "(SELECT * FROM text.`/other`)"}, {}, "a subquery"),
    ({"delta.generationExpression": "(MAP value USING 'id' AS b FROM text.`/other`)"}, {}, "a subquery"),
    ({"CURRENT_DEFAULT": CODE.replace("java_method", '"java_method"')}, {}, "java_method"),
    ({"delta.generationExpression": "concat(system.session.secret)"}, {}, "system.session.secret"),
    ({"CURRENT_DEFAULT": "upper(secret)"}, {}, "secret"),
    ({"delta.generationExpression": "current_user"}, {}, "current_user"),
    ({}, {"delta.constraints.c": """'${}'||"}'||(SELECT/**/'x')||'"||'"'"""}, """${}"""),
]


@pytest.mark.local
@pytest.mark.parametrize(
    ("field", "configuration", "named"),
    TEXTS,
    ids=[
        *("generated", "default", "invariant", "setting", "query", "star", "command", "quoted"),
        *("variable", "variable of a default", "user", "left out"),
    ],
)
def test_what_a_log_may_not_ask_for(
    spark: SparkSession, tmp_path: Path, field: dict[str, str], configuration: dict[str, str], named: str
) -> None:
    path = tmp_path / "t"
    spark.sql("DECLARE OR REPLACE VARIABLE secret STRING DEFAULT 'secret'")
    deltamerge.write(spark.sql("SELECT 1 id, 'x' b"), str(path))
    carrying(path, field, configuration)
    writes: list[Callable[[SparkSession, Path], Any]] = [merged, updated, inserted, inserted_default, appended]
    for write in writes:
        with pytest.raises(AnalysisError) as caught:
            write(spark, path)
        assert caught.value.condition == "DELTAMERGE_FORBIDDEN_EXPRESSION"
        assert caught.value.parameters["function"] == named
        assert ("columns of the table" in (caught.value.hint or "")) is ("CURRENT_DEFAULT" not in field)
    assert deltamerge.read(spark, str(path)).collect() == [(1, "x")]
    deltamerge.sql(spark, f"DELETE FROM delta.`{path}` WHERE id = 1")
    assert DeltaTable.forPath(spark, str(path)).history(1).first()["version"] == 1


@pytest.mark.local
def test_no_row_meets_a_constraint_about_a_variable(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    spark.sql("DECLARE OR REPLACE VARIABLE secret STRING DEFAULT 'secret'")
    deltamerge.write(spark.sql("SELECT 1 id, 'x' b"), str(path))
    carrying(path, {}, {"delta.constraints.c": "b <> session.secret"})
    for write in (merged, updated, inserted, appended):
        with pytest.raises(ConstraintError) as caught:
            write(spark, path)
        assert caught.value.condition == "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"
        assert "session.secret is no column of the table" in str(caught.value)
    assert deltamerge.read(spark, str(path)).collect() == [(1, "x")]


@pytest.mark.local
def test_rows_that_lose_their_column_mapping_are_written_too(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    deltamerge.write(spark.sql("SELECT 1 id, 'x' b"), str(path))
    deltamerge.sql(spark, f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    deltamerge.sql(spark, f"ALTER TABLE delta.`{path}` ADD CONSTRAINT c CHECK (b <> 'java')")
    log = path / "_delta_log" / f"{2:020d}.json"
    log.write_text(log.read_text().replace("b <> 'java'", CODE))
    for other in log.parent.glob("*.crc"):
        other.unlink()
    with pytest.raises(AnalysisError) as caught:
        DeltaTable.forPath(spark, str(path)).dropFeatureSupport("columnMapping")
    assert caught.value.condition == "DELTAMERGE_FORBIDDEN_EXPRESSION"


@pytest.mark.parametrize(
    ("text", "generated", "check", "default"),
    [
        (
            CODE,
            "NON_DETERMINISTIC_EXPRESSION_IN_GENERATED_COLUMN",
            "UNSUPPORTED_EXPRESSION_CHECK_CONSTRAINT",
            "FORBIDDEN_EXPRESSION",
        ),
        ("current_user()", "UNSUPPORTED_EXPRESSION_GENERATED_COLUMN", "UNSUPPORTED_EXPRESSION_CHECK_CONSTRAINT", None),
        ("current_user", "UNSUPPORTED_EXPRESSION_GENERATED_COLUMN", "UNSUPPORTED_EXPRESSION_CHECK_CONSTRAINT", None),
        (
            "session.secret",
            "INVALID_GENERATED_COLUMN_REFERENCES",
            "UNSUPPORTED_EXPRESSION_CHECK_CONSTRAINT",
            "FORBIDDEN_EXPRESSION",
        ),
    ],
)
def test_what_a_statement_may_not_give_to_a_table(
    spark: SparkSession, tmp_path: Path, text: str, generated: str, check: str, default: str | None
) -> None:
    path = tmp_path / "t"
    spark.sql("DECLARE OR REPLACE VARIABLE secret STRING DEFAULT 'secret'")
    feature = "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    deltamerge.sql(spark, f"CREATE TABLE delta.`{path}` (a INT, b STRING) USING delta {feature}")
    statements = {
        f"CREATE TABLE delta.`{path}_2` (a INT, b STRING GENERATED ALWAYS AS ({text})) USING delta": generated,
        f"ALTER TABLE delta.`{path}` ADD CONSTRAINT c CHECK ({text} = b)": check,
        f"ALTER TABLE delta.`{path}` ALTER COLUMN b SET DEFAULT {text}": default,
    }
    for statement, condition in statements.items():
        if condition is None:
            deltamerge.sql(spark, statement)
            continue
        with pytest.raises(AnalysisException) as caught:
            deltamerge.sql(spark, statement)
        assert str(caught.value.getCondition()).endswith(condition), statement
