"""Statements get the target's place, errors their condition."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases.running import condition_of, statement_for


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("MERGE INTO t USING s ON true", "MERGE INTO delta.`/x` AS t USING s ON true"),
        ("MERGE INTO t AS o USING s u ON true", "MERGE INTO delta.`/x` AS o USING s u ON true"),
        ("merge into t o using s ON true", "merge into delta.`/x` o using s ON true"),
        ("MERGE INTO t USING (SELECT * FROM {t}) s", "MERGE INTO delta.`/x` AS t USING (SELECT * FROM delta.`/x`) s"),
        ("MERGE INTO t -- a remark\nUSING s", "MERGE INTO delta.`/x` AS t -- a remark\nUSING s"),
        ("MERGE INTO t AS `values` USING s", "MERGE INTO delta.`/x` AS `values` USING s"),
    ],
)
def test_the_target_is_put_into_a_statement(text: str, expected: str) -> None:
    assert statement_for(text, Path("/x")) == expected


class Named(Exception):
    """An error with a condition, as PySpark has them."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = name

    def getCondition(self) -> str:
        return self.name


@pytest.mark.parametrize(
    ("error", "condition"),
    [
        (Named("DIVIDE_BY_ZERO", "[DIVIDE_BY_ZERO] ..."), "DIVIDE_BY_ZERO"),
        (Named("TASK_WRITE_FAILED", "[TASK_WRITE_FAILED] x\nCaused by: [CAST_INVALID_INPUT] y"), "CAST_INVALID_INPUT"),
        (Named("UNRESOLVED_COLUMN.WITH_SUGGESTION", "..."), "UNRESOLVED_COLUMN.WITH_SUGGESTION"),
        (RuntimeError("[INTERNAL_ERROR] Cannot find main error class 'DELTA_X_Y.PART' SQLSTATE"), "DELTA_X_Y.PART"),
        (ValueError("no condition at all"), "ValueError"),
    ],
)
def test_the_condition_of_an_error_is_its_causes(error: Exception, condition: str) -> None:
    assert condition_of(error) == condition
