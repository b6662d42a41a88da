"""What a Spark Connect client's plan tells of its aliases, which needs no session."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.connect import functions as F
from pyspark.sql.connect import plan as P
from pyspark.sql.connect.proto import Relation

from deltamerge.spark.plans.aliases import plan_aliases

ROWS = P.SubqueryAlias(P.Range(0, 3, 1), "mark")


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (ROWS, (["mark"], True)),
        (P.Filter(P.SubqueryAlias(ROWS, "a"), F.expr("id > 1")), (["a", "mark"], True)),
        (P.SetOperation(ROWS, ROWS, "union"), (["mark"], True)),
        (P.Read("t"), ([], False)),
        (P.SetOperation(ROWS, P.Read("t"), "union"), (["mark"], False)),
        (P.SQL("SELECT * FROM t"), ([], False)),
        (P.CachedRelation(Relation()), ([], False)),
        (P.Filter(ROWS, F.expr("id IN (SELECT id FROM t)")), (["mark"], False)),
        (P.Project(ROWS, [F.struct(F.col("id"), F.expr("(TABLE t)"))]), (["mark"], False)),
    ],
)
def test_a_plan_tells_its_aliases_and_whether_those_are_all(plan: Any, expected: tuple[list[str], bool]) -> None:
    assert plan_aliases(plan) == expected
