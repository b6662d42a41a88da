"""What the text of an analyzed plan tells of a view: whether it shows all of what stands below an alias."""

from __future__ import annotations

import pytest

from deltamerge.spark.plans.whole_views import shown_alias

MARKED = ("Project [id#1, n#2L]", "SubqueryAlias mark_7")
VIEW = ("SubqueryAlias v", "View (`v`, [id#1, n#2L])")
CASTS = "Project [cast(id#1 as int) AS id#3, cast(n#2L as bigint) AS n#4L]"


def plan(*nodes: str) -> str:
    """A plan of nodes with one child each above a scan."""
    scan = "Relation [id#1,n#2L] parquet"
    return "\n".join(("" if not n else "   " * (n - 1) + "+- ") + node for n, node in enumerate((*nodes, scan)))


@pytest.mark.parametrize(
    ("above", "expected"),
    [
        (VIEW, (False, True)),
        (("SubqueryAlias global_temp.v", "View (`global_temp`.`v`, [id#1, n#2L])"), (False, True)),
        ((*VIEW, "SubqueryAlias x", "Project [id#1, n#2L]"), (False, True)),
        (("SubqueryAlias v", "View (`v`, [id#3, n#4L])", CASTS, *VIEW), (False, True)),
        (("SubqueryAlias v", "View (`v`, [n#2L, id#1])", "Project [n#2L, id#1]"), (False, False)),
        (("SubqueryAlias v", "View (`v`, [id#1])", "Project [id#1]"), (False, False)),
        (("SubqueryAlias v", "View (`v`, [id#1, m#3L])", "Project [id#1, n#2L AS m#3L]"), (False, False)),
        (("SubqueryAlias v", "View (`v`, [id#3, m#4L])", CASTS.replace("AS n", "AS m"), *VIEW), (False, False)),
        (("SubqueryAlias v", "View (`v`, [id#3, n#4L])", CASTS.replace("id#1", "id#9"), *VIEW), (False, False)),
        (("SubqueryAlias v", "View (`v`, [id#1,n#2L])"), (False, True)),
        (("SubqueryAlias v", "View (`v`, [id#3,n#4L])", CASTS, "SubqueryAlias v", "View (`v`, [id#1,n#2L])"), (False, True)),
        (("SubqueryAlias v", "View (`v`, [n#2L,id#1])", "Project [n#2L, id#1]"), (False, False)),
        ((*VIEW, "Filter (id#1 > 0)"), (True, True)),
        ((*VIEW, "Deduplicate [id#1, n#2L]"), None),
        ((*VIEW, "GlobalLimit 5", "LocalLimit 5"), None),
    ],
)
def test_what_is_shown(above: tuple[str, ...], expected: tuple[bool, bool] | None) -> None:
    for title in ("", "id: int, n: bigint\n"):
        shown = shown_alias(title + plan(*above, *MARKED), r"mark_(\d+)")
        assert (shown and (shown.is_filtered, shown.has_all_columns)) == expected
        assert shown is None or shown.alias[1] == "7"


@pytest.mark.parametrize(
    "text",
    [
        "",
        plan(*VIEW),
        plan(*VIEW, "SubqueryAlias mark_7"),
        plan("Union false, false", *MARKED) + "\n+- Project [id#1, n#2L]\n   +- SubqueryAlias mark_7",
        "Union false, false\n:- Project [id#1]\n:  +- SubqueryAlias mark_7\n+- Project [id#1]",
        plan(*VIEW, "Project [a\n+- SubqueryAlias b#1, n#2L]", *MARKED),
    ],
)
def test_what_cannot_be_told(text: str) -> None:
    assert shown_alias(text, r"mark_(\d+)") is None
