"""Merges with schema evolution as data: tables, sources and clauses in SQL."""

from __future__ import annotations

from dataclasses import dataclass

SET_ALL = "WHEN MATCHED THEN UPDATE SET *"
INSERT_ALL = "WHEN NOT MATCHED THEN INSERT *"
UPSERT = f"{SET_ALL} {INSERT_ALL}"
WIDENING = "TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"
NAMED = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"


@dataclass(frozen=True)
class Evolution:
    """A merge by id of `source` into a table of `columns` that holds `rows`.

    `differs` is how it fails here where delta-spark does otherwise.
    """

    title: str
    columns: str
    rows: tuple[str, ...]
    source: str
    clauses: str
    options: str = ""
    changes: tuple[str, ...] = ()
    evolves: bool = True
    differs: str | None = None


FLAT = ("id INT, a INT", ("(1, 10)", "(2, 20)"))
STRUCT = (
    "id INT, st STRUCT<a: INT, b: STRING>",
    ("(1, named_struct('a', 1, 'b', 'x'))", "(2, NULL)", "(3, named_struct('a', 3, 'b', NULL))"),
)
DEEP = (
    "id INT, st STRUCT<a: INT, n: STRUCT<p: INT, q: INT>>",
    (
        "(1, named_struct('a', 1, 'n', named_struct('p', 1, 'q', 2)))",
        "(2, NULL)",
        "(3, named_struct('a', 3, 'n', CAST(NULL AS STRUCT<p: INT, q: INT>)))",
    ),
)
NESTED_SOURCE = (
    "VALUES (1, named_struct('c', 7, 'a', 5)), (2, named_struct('c', 8, 'a', 6)), (3, NULL), (4, NULL), "
    "(5, named_struct('c', 9, 'a', NULL)) AS v(id, st)"
)
DEEP_SOURCE = (
    "VALUES (1, named_struct('n', named_struct('r', 5, 'p', 6))), (2, NULL), "
    "(3, named_struct('n', CAST(NULL AS STRUCT<r: INT, p: INT>))), (4, NULL), "
    "(5, named_struct('n', CAST(NULL AS STRUCT<r: INT, p: INT>))) AS v(id, st)"
)
LISTS = (
    "id INT, ar ARRAY<STRUCT<a: INT, b: INT>>, m MAP<STRING, STRUCT<a: INT, b: INT>>",
    (
        "(1, array(named_struct('a', 1, 'b', 2)), map('k', named_struct('a', 1, 'b', 2)))",
        "(2, NULL, NULL)",
        "(3, array(NULL), map('k', NULL))",
    ),
)
LISTS_SOURCE = (
    "VALUES (1, array(named_struct('c', 5, 'a', 6), NULL), map('l', named_struct('c', 5, 'a', 6))), "
    "(4, NULL, map('x', NULL)) AS v(id, ar, m)"
)


def _of(table: tuple[str, tuple[str, ...]], title: str, source: str, clauses: str, **more: object) -> Evolution:
    return Evolution(title, table[0], table[1], source, clauses, **more)  # type: ignore[arg-type]


TWO = "VALUES (1, 'x', 11), (3, 'y', 33) AS v(id, extra, a)"
WITHOUT_A = "VALUES (1, 'x'), (3, 'y') AS v(id, extra)"
MIXED = "SELECT 1 AS id, 5 AS a, 'p' AS Extra, 2 AS z, 1L AS b"

EVOLUTIONS = [
    _of(FLAT, "a column by stars", TWO, UPSERT),
    _of(FLAT, "a column by SET * alone", TWO, SET_ALL),
    _of(FLAT, "a column by INSERT * alone", TWO, INSERT_ALL),
    _of(FLAT, "stars without a target column", WITHOUT_A, UPSERT),
    _of(FLAT, "stars in source order", MIXED, UPSERT),
    _of(FLAT, "names in another case", "SELECT 1 AS ID, 5 AS A, 6 AS B", UPSERT),
    _of(FLAT, "an assigned new column", TWO, "WHEN MATCHED THEN UPDATE SET extra = concat(s.extra, '!'), a = s.a"),
    _of(FLAT, "an assigned new column with its own case", TWO, "WHEN MATCHED THEN UPDATE SET EXTRA = s.extra"),
    _of(FLAT, "an assigned new column of the source's type", TWO, "WHEN MATCHED THEN UPDATE SET extra = t.a"),
    _of(FLAT, "an inserted new column", TWO, "WHEN NOT MATCHED THEN INSERT (id, extra) VALUES (s.id, s.extra)"),
    _of(FLAT, "a new column with the target's alias", TWO, "WHEN MATCHED THEN UPDATE SET t.extra = s.extra"),
    _of(FLAT, "a new column with the source's alias", TWO, "WHEN MATCHED THEN UPDATE SET s.extra = s.extra"),
    _of(FLAT, "an old column with the source's alias", TWO, "WHEN MATCHED THEN UPDATE SET s.a = s.a + 1"),
    _of(FLAT, "a column that is nowhere", TWO, "WHEN MATCHED THEN UPDATE SET nowhere = s.extra"),
    _of(FLAT, "a new column twice", TWO, "WHEN MATCHED THEN UPDATE SET extra = 'a', EXTRA = 'b'"),
    _of(FLAT, "an inserted new column twice", TWO, "WHEN NOT MATCHED THEN INSERT (id, extra, extra) VALUES (1, 'a', 'b')"),
    _of(FLAT, "a column that no clause assigns", TWO, "WHEN MATCHED THEN UPDATE SET a = s.a"),
    _of(FLAT, "delete only", TWO, "WHEN MATCHED THEN DELETE"),
    _of(FLAT, "delete and insert", TWO, f"WHEN MATCHED THEN DELETE {INSERT_ALL}"),
    _of(FLAT, "by source adds nothing", TWO, "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET extra = 'a'"),
    _of(FLAT, "by source beside a star", TWO, f"{UPSERT} WHEN NOT MATCHED BY SOURCE THEN UPDATE SET a = 0"),
    _of(FLAT, "by source sees no new column", TWO, f"{UPSERT} WHEN NOT MATCHED BY SOURCE THEN UPDATE SET extra = 'a'"),
    _of(FLAT, "by source deletes", TWO, f"{UPSERT} WHEN NOT MATCHED BY SOURCE THEN DELETE"),
    _of(FLAT, "conditions see no new column", TWO, "WHEN MATCHED AND t.extra = 'x' THEN UPDATE SET *"),
    _of(FLAT, "some rows, others copied", "SELECT 2 AS id, 5 AS extra", "WHEN MATCHED AND t.a > 0 THEN UPDATE SET *"),
    _of(FLAT, "no row changes", "SELECT 9 AS id, 5 AS extra", SET_ALL),
    _of(FLAT, "no clause applies", "SELECT 1 AS id, 5 AS extra", "WHEN MATCHED AND false THEN UPDATE SET *"),
    _of(FLAT, "an empty source", "SELECT 1 AS id, 5 AS extra WHERE false", UPSERT),
    _of(FLAT, "nothing to evolve, nothing changed", "SELECT 9 AS id, 5 AS a", SET_ALL),
    _of(
        FLAT,
        "clauses assign different new columns",
        "SELECT explode(array(1, 7)) AS id, 'u' AS u, 'i' AS i, 'n' AS n",
        "WHEN MATCHED THEN UPDATE SET u = s.u WHEN NOT MATCHED THEN INSERT (id, i) VALUES (s.id, s.i)",
    ),
    _of(FLAT, "off: the column is ignored", TWO, UPSERT, evolves=False),
    _of(FLAT, "off: a missing column", WITHOUT_A, UPSERT, evolves=False),
    _of(FLAT, "off: an assigned new column", TWO, "WHEN MATCHED THEN UPDATE SET extra = s.extra", evolves=False),
    _of(FLAT, "a void column", "SELECT 1 AS id, NULL AS extra", UPSERT, differs="DELTA_MERGE_ADD_VOID_COLUMN"),
    _of(
        FLAT,
        "a void field",
        "SELECT 1 AS id, named_struct('v', NULL, 'w', 1) AS extra",
        UPSERT,
        differs="DELTA_MERGE_ADD_VOID_COLUMN",
    ),
    _of(FLAT, "void for a column that is there", "SELECT 1 AS id, NULL AS a", UPSERT),
    _of(FLAT, "a new struct", "SELECT 1 AS id, named_struct('v', 2, 'w', named_struct('x', 1)) AS extra", UPSERT),
    _of(
        FLAT,
        "a field of a new struct",
        "SELECT 1 AS id, named_struct('v', 2, 'w', 3) AS extra",
        "WHEN MATCHED THEN UPDATE SET extra.v = 9",
    ),
    _of(
        FLAT,
        "all types",
        "SELECT 1 AS id, 1Y AS by, 1S AS sh, 1L AS lo, 1.5F AS fl, 1.5D AS do, 1.25 AS de, true AS bo, "
        "X'0102' AS bi, DATE'2020-01-01' AS da, TIMESTAMP'2020-01-01 10:00:00' AS ti, array(1, NULL) AS ar, map('a', 1) AS ma",
        UPSERT,
    ),
    _of(FLAT, "a timestamp without time zone", "SELECT 1 AS id, TIMESTAMP_NTZ'2020-01-01 10:00:00' AS n", UPSERT),
    _of(
        FLAT,
        "a timestamp without time zone where it is known",
        "SELECT 1 AS id, TIMESTAMP_NTZ'2020-01-01 10:00:00' AS n",
        UPSERT,
        options="TBLPROPERTIES ('delta.feature.timestampNtz' = 'supported')",
    ),
    _of(FLAT, "a name with a space", "SELECT 1 AS id, 2 AS `a b`", UPSERT),
    _of(FLAT, "a name with a space under column mapping", "SELECT 1 AS id, 2 AS `a b`", UPSERT, options=NAMED),
    _of(FLAT, "a name with a dot", "SELECT 1 AS id, 2 AS `a.b`", UPSERT),
    _of(
        FLAT,
        "column mapping",
        "SELECT 1 AS id, named_struct('v', 2) AS extra, array(named_struct('w', 1)) AS ar",
        UPSERT,
        options=NAMED,
    ),
    _of(
        FLAT,
        "column mapping by id",
        "SELECT 1 AS id, named_struct('v', 2) AS extra",
        UPSERT,
        options="TBLPROPERTIES ('delta.columnMapping.mode' = 'id')",
    ),
    _of(FLAT, "partitioned by an old column", TWO, UPSERT, options="PARTITIONED BY (a)"),
    _of(FLAT, "narrower and wider numbers", "SELECT 1L AS id, 7L AS a, 1 AS b", UPSERT),
    _of(FLAT, "a number that does not fit", "SELECT 1 AS id, 5000000000L AS a", UPSERT),
    _of(FLAT, "text for a number", "SELECT 1 AS id, '12' AS a", UPSERT),
    _of(FLAT, "text that is no number", "SELECT 1 AS id, 'xy' AS a", UPSERT),
    _of(FLAT, "a boolean for a number", "SELECT 1 AS id, true AS a", UPSERT),
    _of(FLAT, "a struct for a number", "SELECT 1 AS id, named_struct('v', 2) AS a", UPSERT),
    _of(
        FLAT,
        "an unfit column that another value is assigned to",
        "SELECT 1 AS id, true AS a",
        "WHEN MATCHED THEN UPDATE SET a = 7",
    ),
    _of(
        FLAT, "an unfit column that no clause assigns", "SELECT 1 AS id, true AS a, 1 AS b", "WHEN MATCHED THEN UPDATE SET b = 7"
    ),
    _of(STRUCT, "new and missing fields by SET *", NESTED_SOURCE, SET_ALL),
    _of(STRUCT, "new and missing fields by INSERT *", NESTED_SOURCE, INSERT_ALL),
    _of(STRUCT, "new and missing fields by stars", NESTED_SOURCE, UPSERT),
    _of(STRUCT, "a struct assigned whole", NESTED_SOURCE, "WHEN MATCHED THEN UPDATE SET st = s.st"),
    _of(STRUCT, "a struct inserted whole", NESTED_SOURCE, "WHEN NOT MATCHED THEN INSERT (id, st) VALUES (s.id, s.st)"),
    _of(STRUCT, "a new field assigned", NESTED_SOURCE, "WHEN MATCHED THEN UPDATE SET st.c = s.st.c + 1"),
    _of(
        STRUCT, "a new field assigned with an old one", NESTED_SOURCE, "WHEN MATCHED THEN UPDATE SET t.st.b = 'n', st.C = s.st.c"
    ),
    _of(
        STRUCT,
        "a field that is nowhere",
        NESTED_SOURCE,
        "WHEN MATCHED THEN UPDATE SET st.nowhere = 1",
        differs="DELTA_MERGE_UNRESOLVED_EXPRESSION",
    ),
    _of(
        STRUCT,
        "a struct of another shape without its column",
        NESTED_SOURCE,
        "WHEN MATCHED THEN UPDATE SET st = named_struct('a', 1, 'zz', 2)",
    ),
    _of(STRUCT, "missing fields only", "VALUES (1, named_struct('a', 9)), (2, NULL), (3, NULL), (4, NULL) AS v(id, st)", UPSERT),
    _of(
        STRUCT,
        "new fields only",
        "VALUES (1, named_struct('a', 9, 'b', 'y', 'c', 1)), (2, NULL), (3, NULL), (4, NULL) AS v(id, st)",
        UPSERT,
    ),
    _of(STRUCT, "an unfit field", "SELECT 1 AS id, named_struct('a', true) AS st", UPSERT),
    _of(STRUCT, "fields in another case and type", "SELECT 1 AS id, named_struct('A', 5L, 'B', 'y', 'C', 1) AS st", UPSERT),
    _of(STRUCT, "a nested field in an INSERT", NESTED_SOURCE, "WHEN NOT MATCHED THEN INSERT (id, st.c) VALUES (s.id, 1)"),
    _of(
        STRUCT,
        "by source beside new fields",
        NESTED_SOURCE.replace("(3, NULL), ", ""),
        f"{UPSERT} WHEN NOT MATCHED BY SOURCE THEN UPDATE SET st.a = 0",
    ),
    _of(STRUCT, "off: missing fields", "SELECT 1 AS id, named_struct('a', 9) AS st", UPSERT, evolves=False),
    _of(DEEP, "fields in a struct in a struct", DEEP_SOURCE, UPSERT),
    _of(DEEP, "a struct in a struct assigned whole", DEEP_SOURCE, "WHEN MATCHED THEN UPDATE SET st.n = s.st.n"),
    _of(DEEP, "a new field in a struct in a struct", DEEP_SOURCE, "WHEN MATCHED THEN UPDATE SET st.n.r = s.st.n.r"),
    _of(LISTS, "fields in arrays and maps", LISTS_SOURCE, UPSERT),
    _of(LISTS, "an array and a map assigned", LISTS_SOURCE, "WHEN MATCHED THEN UPDATE SET ar = s.ar, m = s.m"),
    _of(LISTS, "a field of an array", LISTS_SOURCE, "WHEN MATCHED THEN UPDATE SET ar.c = 1"),
    _of(
        ("id INT, a SMALLINT, n STRUCT<x: FLOAT>", ("(1, 10, named_struct('x', 1.5))", "(2, 20, NULL)")),
        "widened by stars",
        "VALUES (1, 70000, named_struct('x', 0.1D)), (3, 1, NULL) AS v(id, a, n)",
        UPSERT,
        options=WIDENING,
    ),
    _of(
        ("id INT, a SMALLINT, b SMALLINT", ("(1, 10, 10)", "(2, 20, 20)")),
        "widened where assigned",
        "VALUES (1, 70000, 1), (3, 1, 2) AS v(id, a, b)",
        "WHEN MATCHED THEN UPDATE SET a = s.a",
        options=WIDENING,
    ),
    _of(
        ("id INT, a SMALLINT", ("(1, 10)", "(2, 20)")),
        "widened by the source's type for another value",
        "SELECT 1 AS id, 5L AS a",
        "WHEN MATCHED THEN UPDATE SET a = 7S",
        options=WIDENING,
    ),
    _of(
        ("id INT, ar ARRAY<INT>, m MAP<INT, DECIMAL(5,2)>", ("(1, array(1, NULL), map(1, 1.25))", "(2, NULL, NULL)")),
        "widened elements, keys and values",
        "SELECT 1 AS id, array(5000000000L) AS ar, map(1L, CAST(1 AS DECIMAL(10,4))) AS m",
        UPSERT,
        options=WIDENING,
    ),
    _of(
        ("id INT, a INT, d DATE, i INT, l BIGINT", ("(1, 1, DATE'2020-01-01', 1, 1)", "(2, 2, NULL, 2, 2)")),
        "widened across families",
        "SELECT 1 AS id, 1.5D AS a, TIMESTAMP_NTZ'2021-01-01 01:00:00' AS d, CAST(1 AS DECIMAL(10,0)) AS i, "
        "CAST(1 AS DECIMAL(20,0)) AS l",
        UPSERT,
        options="TBLPROPERTIES ('delta.enableTypeWidening' = 'true', 'delta.feature.timestampNtz' = 'supported')",
    ),
    _of(
        ("id INT, a BIGINT", ("(1, 1)", "(2, 2)")),
        "narrowed on a widening table",
        "SELECT 1 AS id, 5 AS a",
        UPSERT,
        options=WIDENING,
    ),
    _of(
        ("id INT, p SMALLINT, a INT", ("(1, 1, 1)", "(2, 2, 2)")),
        "a widened partition column",
        "SELECT 1 AS id, 70000 AS p, 5 AS a",
        UPSERT,
        options=f"PARTITIONED BY (p) {WIDENING}",
    ),
    _of(
        ("id INT, a SMALLINT", ("(1, 1)", "(2, 2)")),
        "a widened column in a constraint",
        "SELECT 1 AS id, 5 AS a",
        UPSERT,
        options=WIDENING,
        changes=("ADD CONSTRAINT small CHECK (a < 100)",),
    ),
    _of(
        ("id INT, a SMALLINT, g INT GENERATED ALWAYS AS (a + 1)", ("(1, 1, 2)", "(2, 2, 3)")),
        "a widened column in a generated one",
        "SELECT 1 AS id, 5 AS a",
        UPSERT,
        options=WIDENING,
    ),
    _of(
        ("id INT, a SMALLINT", ("(1, 1)", "(2, 2)")),
        "off: nothing widens",
        "SELECT 1 AS id, 70000 AS a",
        UPSERT,
        options=WIDENING,
        evolves=False,
    ),
    _of(
        ("id INT, n INT, g INT GENERATED ALWAYS AS (n * 2)", ("(1, 1, 2)", "(2, 2, 4)")),
        "stars without a generated column",
        "VALUES (1, 7, 'x'), (3, 8, 'y') AS v(id, n, extra)",
        UPSERT,
    ),
    _of(
        ("id INT, n INT DEFAULT 7, plain INT", ("(1, 1, 1)", "(2, 2, 2)")),
        "stars without a default column",
        "VALUES (1, 'x'), (3, 'y') AS v(id, extra)",
        UPSERT,
        options="TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')",
    ),
    _of(
        ("id INT, n INT NOT NULL", ("(1, 1)", "(2, 2)")),
        "stars without a column that must not be null",
        "VALUES (1, 'x'), (3, 'y') AS v(id, extra)",
        UPSERT,
    ),
    _of(
        ("id INT, n INT", ("(1, 1)", "(2, 2)")),
        "a constraint beside a new column",
        "VALUES (1, 5, 'x'), (3, 6, 'y') AS v(id, n, extra)",
        UPSERT,
        changes=("ADD CONSTRAINT positive CHECK (n > 0)",),
    ),
    Evolution("a table without columns", "", (), "SELECT 1 AS id, 2 AS a", "WHEN NOT MATCHED THEN INSERT *"),
]
