"""A specification's shape: at least one clause, and only the last of its kind without a condition."""

from __future__ import annotations

import pytest

from deltamerge.errors import AnalysisError
from deltamerge.merge.statement.clauses import Action, Clause, ClauseKind, MergeSpec, verify
from tests.unit.merge.merges import FRAME, expression

YES = expression("true")


def spec_of(*clauses: Clause) -> MergeSpec:
    return MergeSpec(FRAME, expression("t.id = s.id"), clauses)


def test_a_merge_without_clauses_is_refused() -> None:
    with pytest.raises(AnalysisError) as error:
        verify(spec_of())
    assert error.value.condition == "DELTA_MERGE_MISSING_WHEN"


@pytest.mark.parametrize(
    ("kind", "action", "condition"),
    [
        (ClauseKind.MATCHED, Action.DELETE, "DELTA_NON_LAST_MATCHED_CLAUSE_OMIT_CONDITION"),
        (ClauseKind.NOT_MATCHED, Action.INSERT, "DELTA_NON_LAST_NOT_MATCHED_CLAUSE_OMIT_CONDITION"),
        (ClauseKind.BY_SOURCE, Action.UPDATE, "DELTA_NON_LAST_NOT_MATCHED_BY_SOURCE_CLAUSE_OMIT_CONDITION"),
    ],
)
def test_a_clause_that_hides_later_ones_of_its_kind_is_refused(kind: ClauseKind, action: Action, condition: str) -> None:
    with pytest.raises(AnalysisError) as error:
        verify(spec_of(Clause(kind, action), Clause(kind, action, YES)))
    assert error.value.condition == condition
    assert kind.value in error.value.detail
    assert verify(spec_of(Clause(kind, action, YES), Clause(kind, action))).clauses


def test_unconditional_clauses_of_different_sides_stand_side_by_side_in_any_order() -> None:
    clauses = (
        Clause(ClauseKind.BY_SOURCE, Action.DELETE),
        Clause(ClauseKind.NOT_MATCHED, Action.INSERT),
        Clause(ClauseKind.MATCHED, Action.DELETE),
    )
    spec = spec_of(*clauses)
    assert verify(spec) is spec
    assert [spec.of(kind) for kind in ClauseKind] == [(clauses[2],), (clauses[1],), (clauses[0],)]
