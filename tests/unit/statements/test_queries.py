"""Statements that are Spark's, with Delta tables in their text."""

from __future__ import annotations

from typing import Any

import pytest

from deltamerge.errors import AnalysisError
from deltamerge.spark.sql.values import Formatted
from deltamerge.statements.queries import run_query

# None of these texts needs anything of a session.
NO_SESSION: Any = None


@pytest.mark.parametrize(
    "text",
    [
        "SET x = SELECT * FROM delta.`/p`",
        "/* why */ set spark.my.query = SELECT * FROM delta.`/p` VERSION AS OF 0",
        "SET var = SELECT * FROM delta.`/p`",
        "SET variable.x = SELECT * FROM delta.`/p`",
        "SET x = SELECT * FROM delta.`/${env:HOME}`",
        "SET x = it's delta.`/p`",
    ],
)
def test_a_settings_text_stays_as_it_is(text: str) -> None:
    assert run_query(NO_SESSION, Formatted(text), None) is None


@pytest.mark.parametrize("word", ["VAR", "variable"])
def test_a_variables_value_is_a_query(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def seen(*_: object) -> None:
        raise AnalysisError("SEEN", "The table was looked for.")

    monkeypatch.setattr("deltamerge.spark.read.views.table_at", seen)
    with pytest.raises(AnalysisError, match="SEEN"):
        run_query(NO_SESSION, Formatted(f"SET {word} x = (SELECT max(a) FROM delta.`/p`)"), None)
