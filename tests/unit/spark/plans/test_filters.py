"""What the text of an analyzed plan tells of the rows that are read below it."""

from __future__ import annotations

import pytest

from deltamerge.spark.plans.filters import Comparison, comparisons_above

SCAN = (
    "Project [id#26, p#27, k#28L, day#29]",
    "SubqueryAlias mark_0",
    "Project [id#26, p#27, k#28L, day#29]",
    "Relation [id#26,p#27,k#28L,day#29] parquet",
)


def plan(*above: str) -> str:
    """A plan of nodes with one child each above the scan."""
    return "\n".join(("" if not n else "   " * (n - 1) + "+- ") + node for n, node in enumerate((*above, *SCAN)))


def found(text: str) -> list[list[Comparison]]:
    return comparisons_above(text, r"mark_(\d+)")


P, DAY = Comparison("p", "=", ("a",)), Comparison("day", ">=", ("2024-01-01",))


@pytest.mark.parametrize(
    ("above", "expected"),
    [
        ((), []),
        (("Filter (p#27 = a)",), [P]),
        (("Filter ((p#27 = a) AND (day#29 >= cast(2024-01-01 as date)))",), [P, DAY]),
        (("Filter (((p#27 = a) AND isnotnull(day#29)) AND (day#29 >= 2024-01-01))",), [P, DAY]),
        (("Filter k#28L IN (1,cast(2 as bigint))",), [Comparison("k", "=", ("1", "2"))]),
        (("Filter between(k#28L, -1, 5)",), [Comparison("k", ">=", ("-1",)), Comparison("k", "<=", ("5",))]),
        (("Sort [id#26 ASC], true", "Filter (p#27 = a)"), [P]),
        (("Project [id#26]", "Filter (p#27 = a)", "SubqueryAlias v", "View (`v`, [id#26, p#27])"), [P]),
        # Not next to the scan: other rows may have been joined, or left out by their number.
        (("Filter (p#27 = a)", "GlobalLimit 5", "LocalLimit 5"), []),
        (("Filter (p#27 = a)", "Aggregate [p#27], [p#27]"), []),
        (("Filter (p#27 = a)", "Window [row_number() windowspecdefinition(p#27)]"), []),
        # Another column.
        (("Filter (p#30 = a)", "Project [upper(p#27) AS p#30]"), []),
        # Whose text isn't known for certain.
        (("Filter (p#27 = x y)",), []),
        (("Filter (p#27 = a) AND (p#27 = b)",), []),
        (("Filter ((id#26 = x) AND (p#27 = a) AND (id#26 = y))",), []),
        (("Filter ((p#27 = a) OR (p#27 = b))",), []),
        (("Filter (NOT (p#27 = a))",), []),
        (("Filter ((p#27 = a) AND rand(5) > 1)",), []),
        (("Filter (cast(p#27 as int) = 5)",), []),
        (("Filter p#27 IN (list#5 [])",), []),
    ],
)
def test_filters_next_to_a_scan_are_comparisons(above: tuple[str, ...], expected: list[Comparison]) -> None:
    assert found(plan(*above)) == [expected]


def test_each_place_has_its_own() -> None:
    left, right = plan("Filter (p#27 = a)"), plan()
    lines = [f":- {left.splitlines()[0]}", *(f":  {line}" for line in left.splitlines()[1:])]
    lines += [f"+- {right.splitlines()[0]}", *(f"   {line}" for line in right.splitlines()[1:])]
    assert found("\n".join(["Union false, false", *lines])) == [[P], []]


def test_a_filters_own_query_is_another_place() -> None:
    query = plan("Project [id#26]")
    lines = [f":  +- {query.splitlines()[0]}", *(f":     {line}" for line in query.splitlines()[1:])]
    assert found("\n".join(["Filter (p#27 = a)", *lines, "+- LocalRelation [p#27]"])) == [[]]


def test_nothing_is_told_where_a_text_has_several_lines() -> None:
    assert found(plan("Filter (p#27 = a)", "Filter (id#26 = x\n+- SubqueryAlias mark_0)")) in ([], [[]])
    assert found(plan("Filter (p#27 = a)").replace("SubqueryAlias mark_0", "SubqueryAlias mark_0\n???")) == [[P]]
    assert found(f"{plan('Filter (p#27 = a)')}\nx mark_1") == []
