"""What the message says of a mistake: the name that is wrong, not the expression around it, and what was probably meant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession

import deltamerge
from deltamerge.errors import DeltaMergeError
from deltamerge.tables import DeltaTable
from tests.e2e.refusals import refused
from tests.e2e.tables import make

Try = Callable[[DeltaTable, DataFrame], object]
ON = "t.id = s.id"
UNRESOLVED = "DELTA_MERGE_UNRESOLVED_EXPRESSION"
COLUMN = "UNRESOLVED_COLUMN"
EVOLUTION = ".withSchemaEvolution(), in SQL MERGE WITH SCHEMA EVOLUTION INTO"


@pytest.fixture(scope="module")
def path(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table that the tests share, since none of them changes it."""
    folder = tmp_path_factory.mktemp("messages") / "t"
    make(spark, folder, "id int, name string, n int", [(1, "a", 10)])
    return folder


@pytest.fixture
def changes(spark: SparkSession) -> Iterator[DataFrame]:
    """A source without alias and its view, which fail when they are evaluated."""
    frame = spark.sql("SELECT CAST(raise_error('evaluated') AS INT) AS id, 'x' AS name, 1 AS n")
    frame.createOrReplaceTempView("changes")
    yield frame
    spark.catalog.dropTempView("changes")


MISTAKES: dict[str, tuple[Try, str, str, str | None]] = {
    "no alias on either side": (
        lambda t, s: t.merge(s, ON).whenMatchedDelete(),
        UNRESOLVED,
        "Cannot resolve t.id in search condition given columns id, name, n.",
        'Give the table or the source this alias: .alias("t"), in SQL AS t.',
    ),
    "no alias of the source": (
        lambda t, s: t.alias("t").merge(s, ON).whenMatchedDelete(),
        UNRESOLVED,
        "Cannot resolve s.id in search condition",
        'Give the table or the source this alias: .alias("s"), in SQL AS s.',
    ),
    "another alias": (
        lambda t, s: t.alias("t").merge(s.alias("s"), "t.id = u.id").whenMatchedDelete(),
        UNRESOLVED,
        "Cannot resolve u.id in search condition",
        "Nothing is called u here. The names are t and s.",
    ),
    "a column in a long condition": (
        lambda t, s: t.alias("t").merge(s.alias("s"), f"{ON} AND t.n > 1 AND upper(t.name) = s.nothing").whenMatchedDelete(),
        UNRESOLVED,
        "Cannot resolve s.nothing in search condition given",
        None,
    ),
    "a column that the source lacks under *": (
        lambda t, s: t.alias("t").merge(s.drop("n").alias("s"), ON).whenMatchedUpdateAll(),
        UNRESOLVED,
        "Cannot resolve n in UPDATE clause given columns s.id, s.name.",
        EVOLUTION,
    ),
    "a column that the table lacks": (
        lambda t, s: t.alias("t").merge(s.selectExpr("*", "1 AS more").alias("s"), ON).whenMatchedUpdate(set={"more": "s.more"}),
        UNRESOLVED,
        "Cannot resolve more in UPDATE clause given columns t.id, t.name, t.n.",
        f"Schema evolution adds it: {EVOLUTION}",
    ),
    "a column that neither has": (
        lambda t, s: t.alias("t").merge(s.alias("s"), ON).whenNotMatchedInsert(values={"nam": "s.name"}),
        UNRESOLVED,
        "Cannot resolve nam in INSERT clause",
        "Did you mean t.name?",
    ),
    "a text without quotes": (
        lambda t, s: t.alias("t").merge(s.alias("s"), ON).whenMatchedUpdate(set={"name": "active"}),
        UNRESOLVED,
        "Cannot resolve active in UPDATE clause",
        "A text stands in quotes of its own: 'active'.",
    ),
    "two words without quotes": (
        lambda t, s: t.alias("t").merge(s.alias("s"), ON).whenMatchedUpdate(set={"name": "New York"}),
        UNRESOLVED,
        "Cannot resolve New in UPDATE clause",
        "A text stands in quotes of its own: 'New York'.",
    ),
    "three words without quotes": (
        lambda t, s: t.alias("t").merge(s.alias("s"), ON).whenMatchedUpdate(set={"name": "far too late"}),
        "PARSE_SYNTAX_ERROR",
        "'far too late' is no SQL expression",
        "A text stands in quotes of its own: 'far too late'.",
    ),
    "a column that the clause does not see": (
        lambda t, s: t.alias("t").merge(s.alias("s"), ON).whenNotMatchedInsert(values={"name": "t.name"}),
        UNRESOLVED,
        "Cannot resolve t.name in INSERT clause",
        "Did you mean s.name? This clause does not see t.",
    ),
    "a function": (
        lambda t, s: t.alias("t").merge(s.alias("s"), ON).whenMatchedUpdate(set={"name": "uper(s.name)"}),
        "UNRESOLVED_ROUTINE",
        "`uper`",
        "Did you mean upper?",
    ),
}


@pytest.mark.parametrize(("mistake", "condition", "message", "hint"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_of_the_builder(
    spark: SparkSession, path: Path, changes: DataFrame, mistake: Try, condition: str, message: str, hint: str | None
) -> None:
    with refused(path, AnalysisException, condition, message, hint=hint) as caught:
        mistake(DeltaTable.forPath(spark, str(path)), changes).execute()  # type: ignore[attr-defined]
    assert (caught.value.hint is None) == (hint is None)  # type: ignore[attr-defined]


def test_mistakes_of_sql_text(spark: SparkSession, path: Path, changes: DataFrame) -> None:
    into, delete = f"MERGE INTO delta.`{path}`", "WHEN MATCHED THEN DELETE"
    for text, condition, message, hint in (
        (f"{into} USING changes ON t.id = changes.id {delete}", UNRESOLVED, "resolve t.id", "Nothing is called t here."),
        (f"{into} t USING (SELECT 1 AS id) ON t.id = s.id {delete}", UNRESOLVED, "resolve s.id", "in SQL AS s."),
        (f"{into} t USING chanes s ON t.id = s.id {delete}", "TABLE_OR_VIEW_NOT_FOUND", "`chanes`", "Did you mean changes?"),
        (
            f"{into} t USING (SELECT * FROM nodb.changes) s ON t.id = s.id {delete}",
            "TABLE_OR_VIEW_NOT_FOUND",
            "`nodb`.`changes`",
            "There is no database nodb.",
        ),
        (
            f"{into} t USING changes s ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = far too late",
            "PARSE_SYNTAX_ERROR",
            "'far too late' is no SQL expression",
            "A text stands in quotes of its own: 'far too late'.",
        ),
        (
            f"MERGE INTO chanes t USING changes s ON t.id = s.id {delete}",
            "TABLE_OR_VIEW_NOT_FOUND",
            "chanes",
            "Did you mean changes?",
        ),
        (
            f"MERGE INTO changes t USING changes s ON t.id = s.id {delete}",
            "DELTA_TABLE_ONLY_OPERATION",
            "it is a view",
            "delta.`path`",
        ),
        (
            f"{into} t USING (SELECT 1 AS id, 2 AS n, 3 AS n) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = s.n",
            "AMBIGUOUS_REFERENCE",
            "`n`",
            "Source or target has several columns of this name",
        ),
        (f"DELETE FROM delta.`{path}` WHERE nam = 'x'", f"{COLUMN}.WITH_SUGGESTION", "resolve nam in", "Did you mean name?"),
        (f"UPDATE delta.`{path}` SET nam = 'x'", f"{COLUMN}.WITH_SUGGESTION", "resolve nam in", "Did you mean name?"),
        (
            f"{into} t USING (SELECT 1 AS id, 2 AS s) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = s.idd",
            "INVALID_EXTRACT_BASE_FIELD_TYPE",
            "in UPDATE clause: s.idd",
            "There is no column s.idd, so that s is taken for the column of this name. Did you mean s.id?",
        ),
        (f"UPDATE delta.`{path}` WHERE id = 1 SET n = 2", "PARSE_SYNTAX_ERROR", "SET expected before WHERE", "SET .. WHERE"),
    ):
        with refused(path, AnalysisException, condition, message, hint=hint):
            deltamerge.sql(spark, text)


def test_a_misspelt_statement_is_answered_with_what_it_may_be(spark: SparkSession, path: Path) -> None:
    table = f"delta.`{path}`"
    for text, meant in (
        (f"UPDAT {table} SET n = 1", "UPDATE"),
        (f"DELET FROM {table}", "DELETE FROM"),
        (f"DELETE FORM {table}", "DELETE FROM"),
        (f"MERG INTO {table} t USING changes s ON t.id = s.id WHEN MATCHED THEN DELETE", "MERGE INTO"),
        (f"OPTIMISE {table}", "OPTIMIZE"),
        (f"VACUM {table}", "VACUUM"),
        (f"DESCRIBE HISTROY {table}", "DESCRIBE HISTORY"),
        (f"RESTOR {table} TO VERSION AS OF 0", "RESTORE"),
        (f"ALTR TABLE {table} SET TBLPROPERTIES ('a' = 'b')", "ALTER TABLE"),
    ):
        with refused(path, ParseException, "PARSE_SYNTAX_ERROR", hint=f"Did you mean {meant}?"):
            deltamerge.sql(spark, text)


def test_errors_of_other_statements_stay_sparks(spark: SparkSession) -> None:
    for text, condition in (("SELECT 1 +", "PARSE_SYNTAX_ERROR"), ("DESCRIBE not_there", "TABLE_OR_VIEW_NOT_FOUND")):
        with pytest.raises(AnalysisException, match=condition) as caught:
            deltamerge.sql(spark, text)
        assert not isinstance(caught.value, DeltaMergeError)


def test_files_of_no_table_are_made_one_first(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    spark.range(3).write.parquet(str(tmp_path / "files"))
    for text in ("DELETE FROM parquet.`{}`", "UPDATE parquet.`{}` SET id = 1"):
        with refused(path, AnalysisException, "TABLE_OR_VIEW_NOT_FOUND", hint="CONVERT TO DELTA parquet.`path` makes"):
            deltamerge.sql(spark, text.format(tmp_path / "files"))


def test_a_clause_out_of_order_is_pointed_at(spark: SparkSession, path: Path, changes: DataFrame) -> None:
    merge = f"MERGE INTO delta.`{path}` t USING changes s ON t.id = s.id"
    clauses = ["WHEN NOT MATCHED THEN INSERT *", "  WHEN MATCHED THEN DELETE", "WHEN NOT MATCHED BY SOURCE THEN DELETE"]
    with refused(path, ParseException, "PARSE_SYNTAX_ERROR", "WHEN MATCHED must come before WHEN NOT MATCHED") as caught:
        deltamerge.sql(spark, "\n".join((merge, *clauses)))
    assert "at or near 'WHEN' (line 3, position 2).\n  WHEN MATCHED THEN DELETE\n  ^^^" in str(caught.value)
