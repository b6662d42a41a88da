"""What the options of a merge mean, before Spark starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer

from deltamerge.cli.options import pairs_of
from deltamerge.cli.statement import Clauses, condition_of, source_files
from deltamerge.errors import DeltaMergeError


class Noted:
    """Stands for a builder, and notes the clauses."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        def call(*given: Any) -> Noted:
            self.calls.append((name, *given))
            return self

        return call


def clauses(**options: Any) -> list[tuple[Any, ...]]:
    given = Clauses(**options)
    given.check()
    return given.on(Noted()).calls  # type: ignore[arg-type, attr-defined, no-any-return]


def test_deletes_come_before_updates_and_conditions_before_none() -> None:
    found = clauses(
        update={"n": "s.n"}, delete_when="s.op = 'D'", insert_all=True, delete_by_source=True, update_by_source={"n": "0"},
        update_by_source_when="t.n > 0",
    )  # fmt: skip
    assert found == [
        ("whenMatchedDelete", "s.op = 'D'"),
        ("whenMatchedUpdate", None, {"n": "s.n"}),
        ("whenNotMatchedInsertAll", None),
        ("whenNotMatchedBySourceUpdate", "t.n > 0", {"n": "0"}),
        ("whenNotMatchedBySourceDelete",),
    ]
    found = clauses(update_all=True, update_when="a", insert={"n": "1"}, insert_when="b", delete_by_source_when="c")
    assert found == [
        ("whenMatchedUpdateAll", "a"),
        ("whenNotMatchedInsert", "b", {"n": "1"}),
        ("whenNotMatchedBySourceDelete", "c"),
    ]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, "clauses"),
        ({"update_all": True, "update": {"n": "1"}}, "--update-all / --update"),
        ({"insert_all": True, "insert": {"n": "1"}}, "--insert-all / --insert"),
        ({"delete_by_source": True, "delete_by_source_when": "x"}, "--delete-by-source / --delete-by-source-when"),
        ({"update_when": "x", "insert_all": True}, "--update-when"),
        ({"insert_when": "x", "update_all": True}, "--insert-when"),
        ({"update_by_source_when": "x", "update_all": True}, "--update-by-source-when"),
    ],
)
def test_options_that_do_not_go_together(options: dict[str, Any], named: str) -> None:
    with pytest.raises(typer.BadParameter) as caught:
        Clauses(**options).check()
    assert caught.value.param_hint == named


def test_the_condition() -> None:
    assert condition_of("t.a = s.b", ()) == "t.a = s.b"
    assert condition_of(None, ["id", "a`b"]) == "t.`id` = s.`id` AND t.`a``b` = s.`a``b`"
    for on, keys in ((None, ()), ("t.a = s.a", ["a"])):
        with pytest.raises(typer.BadParameter):
            condition_of(on, keys)


@pytest.mark.parametrize("text", ["t.id = s.id AND", "t.id = s.id or /* more */", "NOT", "t.id = s.id day"])
def test_an_expression_that_is_cut_off_is_refused(text: str) -> None:
    """Spark takes the last word for a name, and the rest for the expression."""
    with pytest.raises(typer.BadParameter, match="ends with"):
        condition_of(text, ())
    for options in ({"delete_when": text}, {"update": {"n": text}}, {"insert_all": True, "insert_when": text}):
        with pytest.raises(typer.BadParameter, match="ends with"):
            Clauses(**options).check()


@pytest.mark.parametrize(
    "text",
    [
        "t.id = s.id AND s.not",
        "t.id = s.`or`",
        "s.n BETWEEN 1 AND 2",
        "s.v:a.b = 'x' COLLATE UTF8_LCASE",
        "exists(s.a, x -> x > 1) AND s.d > date'2026-01-01'",
        "s.v = 'AND'",
        "s.n IS NOT NULL -- and more",
        "DEFAULT",
        "CASE WHEN s.n > 1 THEN s.n END",
        "s.t + INTERVAL 1 DAY",
    ],
)
def test_whole_expressions_are_taken(text: str) -> None:
    assert condition_of(text, ()) == text
    Clauses(update={"n": text}).check()


def test_pairs() -> None:
    assert pairs_of(["a = t.x = 1", "b=2"], "--update") == {"a": "t.x = 1", "b": "2"}
    assert pairs_of(None, "--update") == {}
    assert pairs_of(["sep=\t", "nullValue="], "--source-option", as_it_is=True) == {"sep": "\t", "nullValue": ""}
    for wrong in (["a"], ["=1"], ["a="], ["a=1", "a=2"]):
        with pytest.raises(typer.BadParameter):
            pairs_of(wrong, "--update")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.parquet", "parquet"),
        ("A.CSV", "csv"),
        ("a.csv.gz", "csv"),
        ("a.tsv", "csv"),
        ("a.jsonl", "json"),
        ("a.orc", "orc"),
        ("folder", "parquet"),
        ("table", "delta"),
    ],
)
def test_files_are_what_their_names_say(tmp_path: Path, name: str, expected: str) -> None:
    (tmp_path / "table" / "_delta_log").mkdir(parents=True)
    (tmp_path / "folder").mkdir()
    if "." in name:
        (tmp_path / name).touch()
    found = source_files(str(tmp_path / name), None, {}, False)
    assert found.format == expected
    assert found.options == ({"sep": "\t"} if name == "a.tsv" else {})


def test_a_source_that_is_not_there_or_unknown(tmp_path: Path) -> None:
    with pytest.raises(DeltaMergeError, match="DELTAMERGE_NO_SOURCE"):
        source_files(str(tmp_path / "*.parquet"), None, {}, False)
    (tmp_path / "a.parquet").touch()
    assert source_files(str(tmp_path / "*.parquet"), None, {}, False).format == "parquet"
    (tmp_path / "changes").touch()
    with pytest.raises(typer.BadParameter, match="--source-format"):
        source_files(str(tmp_path / "changes"), None, {}, False)
    assert source_files(str(tmp_path / "changes"), "CSV", {}, False).format == "csv"
    assert source_files("/only/there.parquet", None, {}, True).path == "/only/there.parquet"
