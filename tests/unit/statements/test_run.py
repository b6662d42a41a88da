"""Which statements this library runs, and which go to Spark as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from deltamerge.errors import AnalysisError, DeltaMergeError
from deltamerge.spark.read.catalog import NamedTable, NotDelta
from deltamerge.statements import run
from deltamerge.statements.run import run_sql

OURS, SPARKS = object(), object()


def session(settings: Mapping[str, str] | None = None) -> Any:
    """A session that has these settings, and is not asked for any where there are none."""
    return SimpleNamespace(conf=SimpleNamespace(get=settings.get) if settings else None)


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """What Spark was given."""
    found: list[tuple[object, ...]] = []

    def plain_sql(spark: object, text: str, arguments: object = None, **values: object) -> object:
        found.append((text, arguments))
        return SPARKS

    monkeypatch.setattr(run, "plain_sql", plain_sql)
    return found


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The statements that were run."""
    found: list[Any] = []

    def noting(parser: Any) -> Any:
        def parse(reader: Any) -> Any:
            found.append(parser(reader))
            return SimpleNamespace(run=lambda spark: OURS)

        return parse

    monkeypatch.setattr(run, "_PARSERS", {words: noting(parser) for words, parser in run._PARSERS.items()})
    return found


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("DELETE FROM t WHERE id = ${x}", "id = 1"),
        ("DELETE FROM t WHERE id = ${hiveconf:x}", "id = 1"),
        ("DELETE ${from} t WHERE id = '${x}'", "id = '1'"),
        ("${all} WHERE id = 2", "id = 2"),
    ],
)
def test_variables_are_put_in_before_a_statement_is_known(
    text: str, condition: str, given: list[object], parsed: list[Any]
) -> None:
    found = run_sql(session({"x": "1", "from": "FROM", "all": "DELETE FROM t"}), text)
    assert found is OURS
    assert parsed[0].condition == condition
    assert not given


def test_settings_are_not_asked_without_variables(given: list[object], parsed: list[Any]) -> None:
    assert run_sql(session(), "DELETE FROM t WHERE id = 1") is OURS
    assert run_sql(session(), "SELECT 1") is SPARKS
    assert given == [("SELECT 1", None)]


def test_sparks_statements_keep_their_variables(given: list[object]) -> None:
    text = "SELECT '${x}'"
    assert run_sql(session({"x": "1"}), text) is SPARKS
    assert given == [(text, None)]


def named(spark: object, name: Sequence[str]) -> NamedTable | NotDelta:
    """A catalog with a Delta table and one of another format."""
    if name[-1] == "of_delta" or name[0] == "delta":
        return NamedTable("/p", tuple(name), is_read_by_spark=False)
    if name[-1] == "other":
        return NotDelta("it is parquet.", None)
    raise AnalysisError("TABLE_OR_VIEW_NOT_FOUND", "It is not there.")


UNREAD = [
    "INSERT INTO {} SELECT :x",
    "INSERT OVERWRITE TABLE {} (a) SELECT :x",
    "WITH c AS (SELECT 1) INSERT INTO {} SELECT :x FROM c",
    "DELETE FROM {} WHERE a = :x",
    "WITH c AS (SELECT 1) DELETE FROM {} WHERE a = :x",
    "UPDATE {} SET a = :x",
    "INSERT INTO {} SELECT :unbound",
    "DELETE FROM {} x y",
    "ALTER TABLE {} SET TBLPROPERTIES ('a' = :x)",
    "COMMENT ON TABLE {} IS 1",
    "UPDATE {} SET",
]


@pytest.mark.parametrize("name", ["other", "a.other", "`a b`.other"])
@pytest.mark.parametrize("text", UNREAD)
def test_what_is_unread_about_another_formats_table_is_sparks(
    text: str, name: str, given: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "delta_named", named)
    arguments = {"x": object()}
    said = text.format(name)
    assert run_sql(session(), said, arguments) is SPARKS
    assert given == [(said, arguments)]


@pytest.mark.parametrize("name", ["of_delta", "delta.`/p`", "not_there", "IDENTIFIER(:t)", "a.IDENTIFIER('other')"])
@pytest.mark.parametrize("text", UNREAD)
def test_what_is_unread_about_a_delta_table_is_refused(
    text: str, name: str, given: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "delta_named", named)
    monkeypatch.setattr(run, "with_identifiers", lambda spark, text: text)
    with pytest.raises(DeltaMergeError):
        run_sql(session(), text.format(name), {"x": object()})
    assert not given


@pytest.mark.parametrize("text", ["INSERT OVERWRITE DIRECTORY '/d' SELECT :x", "CREATE TABLE other USING parquet AS SELECT :x"])
def test_statements_without_a_table_of_deltas_are_sparks_with_any_argument(text: str, given: list[object]) -> None:
    arguments = {"x": object()}
    assert run_sql(session(), text, arguments) is SPARKS
    assert given == [(text, arguments)]
