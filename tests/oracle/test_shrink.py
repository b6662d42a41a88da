"""A failing merge becomes small, and stays one that fails for the same reason."""

from __future__ import annotations

from tests.oracle.cases import Clause, Column, Merge
from tests.oracle.shrink import shrunk, without_column

MERGE = Merge(
    seed=3,
    columns=(Column("k", "int"), Column("a b", "string"), Column("c", "int"), Column("d", "date")),
    rows=tuple((str(n), "'x'", str(n), "null") for n in range(20)),
    files=3,
    source_columns=(Column("d", "date"), Column("k", "int"), Column("a b", "string"), Column("c", "int")),
    source_rows=tuple(("null", str(n), "'y'", str(n)) for n in range(10)),
    on=("t.k = s.k", "t.c > 1"),
    clauses=(
        Clause("MATCHED", "UPDATE", "s.c < 3", (("c", "s.c"), ("`a b`", "'z'"))),
        Clause("MATCHED", "DELETE", "t.c = 5"),
        Clause("NOT MATCHED", "INSERT"),
    ),
    partition_by=("d",),
    properties=(("delta.constraints.c", "c < 100"),),
    vectors="on",
    deleted="c = 2",
)


def failing(merge: Merge) -> str | None:
    """Something is wrong with source row 7 when there is a DELETE; without target rows, something else."""
    if not any(row[1] == "7" for row in merge.source_rows) or "DELETE" not in {c.action for c in merge.clauses}:
        return None
    return "rows differ" if merge.rows else "error of another kind"


def test_a_failing_merge_shrinks_to_what_matters() -> None:
    small, problem = shrunk(MERGE, failing)
    assert problem == "rows differ"
    assert [(c.side, c.action, c.condition) for c in small.clauses] == [("MATCHED", "DELETE", None)]
    assert (len(small.rows), len(small.source_rows), small.files) == (1, 1, 1)
    assert (small.partition_by, small.properties, small.vectors, small.deleted) == ((), (), None, None)
    assert len(str(small).splitlines()) < 12


def test_a_column_goes_from_both_sides_unless_something_names_it() -> None:
    found = without_column(MERGE, "d")
    assert found is None
    bare = Merge(0, MERGE.columns, MERGE.rows, 1, MERGE.source_columns, MERGE.source_rows, ("t.k = s.k",), MERGE.clauses[2:])
    smaller = without_column(bare, "d")
    assert smaller is not None
    assert [c.name for c in smaller.columns] == ["k", "a b", "c"]
    assert [c.name for c in smaller.source_columns] == ["k", "a b", "c"]
    assert smaller.source_rows[0] == ("0", "'y'", "0")
    assert without_column(bare, "k") is None


def test_a_merge_is_written_as_a_case() -> None:
    assert str(MERGE).splitlines()[:3] == ["## seed 3", "target", "    k int | `a b` string | c int | d date"]
    assert "    whenMatchedUpdate(s.c < 3): c = s.c, `a b` = 'z'" in str(MERGE)
    assert MERGE.statement.splitlines() == [
        "MERGE INTO t USING s ON t.k = s.k AND t.c > 1",
        "WHEN MATCHED AND s.c < 3 THEN UPDATE SET c = s.c, `a b` = 'z'",
        "WHEN MATCHED AND t.c = 5 THEN DELETE",
        "WHEN NOT MATCHED THEN INSERT *",
    ]
