"""Which statements this library runs, and which go to Spark as they are."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

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
