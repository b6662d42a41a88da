"""What a task ends its job with comes to the driver as the same value, in whatever text Spark wraps it."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from deltamerge.spark.session.jobs import translated
from deltamerge.worker.scan.outcomes import AttemptEnded, KeysRepeated, NotThisWay, SourceUnreadable, TooLarge, outcome_in


@pytest.mark.parametrize("outcome", [TooLarge("more than 5 MB"), SourceUnreadable('a "file" \n of [ours]'), KeysRepeated("x")])
def test_an_outcome_survives_the_text_of_a_failure(outcome: NotThisWay) -> None:
    text = f"Job aborted: Traceback\n  File x\ndeltamerge.worker.AttemptEnded: {AttemptEnded(outcome)}\n\tat java.lang"
    assert outcome_in(text) == outcome
    found = translated(PySparkException(text))
    assert isinstance(found, AttemptEnded)
    assert found.outcome == outcome


def test_other_failures_carry_no_outcome() -> None:
    assert outcome_in("Job aborted due to stage failure") is None
