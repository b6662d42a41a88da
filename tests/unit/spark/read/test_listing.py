"""What a catalog says of a table, and where it says too little or more than one thing."""

from __future__ import annotations

import re
from typing import Any

import pytest

from deltamerge.spark.read.listing import Listed, described, pattern, shown

STORAGE = "Serde Library: org.apache\nInputFormat: org.apache\nPartition Provider: Catalog\n"
NAMES = "Catalog: spark_catalog\nDatabase: db\nTable: t\nOwner: me\n"
MANAGED = f"{NAMES}Type: MANAGED\nProvider: delta\nLocation: file:/w/t\n{STORAGE}"
TABLE = Listed(("spark_catalog", "db", "t"), "delta", "file:/w/t", is_read_by_spark=False, is_managed=True)


def row(text: str = MANAGED, name: str = "t", temporary: bool = False) -> dict[str, Any]:
    return {"namespace": "db", "tableName": name, "isTemporary": temporary, "information": text}


def test_a_table_is_listed_with_its_whole_name_format_and_place() -> None:
    assert shown(("t",), [row()]) == TABLE
    assert shown(("DB", "T"), [row()]) == TABLE
    assert shown(("db", "t"), [row(name="tx"), row(), row(name="xt")]) == TABLE
    assert TABLE.is_delta


@pytest.mark.parametrize(
    "rows",
    [[], [row(name="other")], [row(temporary=True)], [row(name="T"), row(name="T")]],
    ids=["none", "another", "a temporary view", "two"],
)
def test_what_is_not_surely_the_table_is_none(rows: list[dict[str, Any]]) -> None:
    assert shown(("db", "t"), rows) is None


def test_of_names_that_differ_by_case_the_exact_one_counts() -> None:
    assert shown(("T",), [row(name="t"), row(MANAGED.replace("/w/t", "/w/T"), "T")]) == Listed(
        TABLE.name, "delta", "file:/w/T", is_read_by_spark=False, is_managed=True
    )


def test_a_view_lies_nowhere() -> None:
    found = shown(("t",), [row(f"{NAMES}Type: VIEW\nProvider: delta\nView Text: SELECT 1\nLocation: /x\nSchema: root")])
    assert found is not None
    assert (found.is_view, found.is_delta) == (True, False)


@pytest.mark.parametrize(
    "said",
    [
        "Comment: see\nLocation: Berlin\nProvider: parquet\n",
        "Comment: x\nCatalog: other\nTable: other\nType: VIEW\n",
        "Table Properties: [a=\nLocation: s3://elsewhere\n, b=c]\n",
    ],
)
def test_other_text_does_not_pass_for_the_format_or_the_place(said: str) -> None:
    assert shown(("t",), [row(MANAGED.replace("Location: file", f"{said}Location: file"))]) == TABLE


def test_where_the_place_can_not_be_told_from_other_text_nothing_is_known() -> None:
    forged = "Comment: x\nLocation: s3://elsewhere\nSerde Library: y\n"
    assert shown(("t",), [row(MANAGED.replace("Location: file", f"{forged}Location: file"))]) is None


@pytest.mark.parametrize("end", ["", "\n", f"\n{STORAGE}", "\nSchema: root\n |-- Location: string\n"])
def test_a_place_is_found_whatever_follows(end: str) -> None:
    text = MANAGED.partition("\nSerde")[0] + end
    assert shown(("t",), [row(text)]) == TABLE


def test_a_description_is_read_behind_the_columns() -> None:
    columns = [("Location", "string", None), ("Provider", "string", None), ("Type", "int", None)]
    details = [("# Detailed Table Information", "", ""), ("Catalog", "c", ""), ("Database", "db", ""), ("Table", "t", "")]
    rest = [("Type", "EXTERNAL", ""), ("Provider", "Delta", ""), ("Location", "s3://b/t", "")]
    assert described(("t",), [*columns, *details, *rest]) == Listed(("c", "db", "t"), "delta", "s3://b/t", is_external=True)
    assert described(("t",), columns) == Listed(("t",), is_view=True)  # a temporary one
    named = [("# Detailed Table Information", "", ""), ("Name", "c.db.t", ""), *rest]
    assert described(("t",), named) == Listed(("c", "db", "t"), "delta", "s3://b/t", is_external=True)
    assert described(("x", "t"), [named[0], ("Name", "c.`d-b`.t", ""), *rest]).name == ("x", "t")


@pytest.mark.parametrize("name", ["t_x", "a-b", "it's", "a|b", "w*", "ä", "a.b`c", "(", "\\"])
def test_a_pattern_fits_its_name_and_needs_no_quotes(name: str) -> None:
    found = pattern(name)
    assert re.fullmatch(r"[\w*]*", found, re.ASCII)
    assert re.fullmatch(found.replace("*", ".*"), name)
