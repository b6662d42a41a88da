from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamerge.errors import ParseError
from deltamerge.merge.statement.clauses import Action, ClauseKind
from deltamerge.merge.statement.parse import SqlClause, Statement, parse_merge


def parsed(text: str) -> Statement:
    found = parse_merge(text)
    assert found is not None
    return found


def clauses(text: str) -> tuple[SqlClause, ...]:
    return parsed(f"MERGE INTO t USING s ON t.id = s.id {text}").clauses


def test_a_whole_statement() -> None:
    found = parsed(
        """-- nightly
        WITH a AS (SELECT 1), b AS (SELECT 2)
        MERGE WITH SCHEMA EVOLUTION INTO delta.`/data/it's here` AS t /* the target */
        USING (SELECT * FROM (VALUES (1)) AS v(id)) s
        ON t.id <=> s.id AND s.x = 'WHEN MATCHED THEN DELETE'
        WHEN MATCHED AND CASE WHEN s.a THEN true ELSE false END THEN UPDATE SET t.a.b = DEFAULT, `c d` = f(s.a, s.b)
        WHEN NOT MATCHED BY TARGET THEN INSERT (id, `c d`) VALUES (s.id, default)
        WHEN NOT MATCHED BY SOURCE AND t.old THEN DELETE;"""
    )
    assert found == Statement(
        target=("delta", "/data/it's here"),
        target_alias="t",
        source="SELECT * FROM (VALUES (1)) AS v(id)",
        source_is_query=True,
        source_alias="s",
        condition="t.id <=> s.id AND s.x = 'WHEN MATCHED THEN DELETE'",
        clauses=(
            SqlClause(
                ClauseKind.MATCHED,
                Action.UPDATE,
                "CASE WHEN s.a THEN true ELSE false END",
                (("t.a.b", None), ("`c d`", "f(s.a, s.b)")),
            ),
            SqlClause(ClauseKind.NOT_MATCHED, Action.INSERT, None, (("id", "s.id"), ("`c d`", None))),
            SqlClause(ClauseKind.BY_SOURCE, Action.DELETE, "t.old"),
        ),
        ctes="WITH a AS (SELECT 1), b AS (SELECT 2)",
        with_schema_evolution=True,
    )


def test_stars_and_what_they_leave_out() -> None:
    update, insert = clauses("when matched then update set * except (a, `b.c`) when not matched then insert *")
    assert update == SqlClause(ClauseKind.MATCHED, Action.UPDATE, None, star=True, excluded=("a", "`b.c`"))
    assert insert == SqlClause(ClauseKind.NOT_MATCHED, Action.INSERT, None, star=True)


def test_names_without_aliases() -> None:
    found = parsed("MERGE INTO db.t USING cat.db.s ON db.t.id = s.id WHEN MATCHED THEN DELETE")
    assert (found.target, found.target_alias, found.source, found.source_alias) == (("db", "t"), None, "cat.db.s", None)


def test_words_that_are_names_after_a_dot_end_nothing() -> None:
    (clause,) = clauses("WHEN MATCHED AND s.end > t.case THEN UPDATE SET a = s.then")
    assert (clause.condition, clause.assignments) == ("s.end > t.case", (("a", "s.then"),))


@pytest.mark.parametrize(
    "condition",
    [
        "(end > 1)",
        "end > 1",
        "t.then > s.when",
        "when.n > case.n + then.n",
        "CASE WHEN (t.end > 1) THEN array(end, 1)[0] ELSE .5 END > 0",
        "(:end + :case) > :when AND :then",
        "CASE .5 WHEN 1. THEN .5 END > 0",
    ],
)
def test_keywords_that_are_names_begin_and_end_nothing(condition: str) -> None:
    first, second = clauses(f"WHEN MATCHED AND {condition} THEN UPDATE SET end = ({condition}), b = 1 WHEN MATCHED THEN DELETE")
    assert (first.condition, first.assignments) == (condition, (("end", f"({condition})"), ("b", "1")))
    assert second.action is Action.DELETE


def test_a_name_that_is_a_keyword_in_the_search_condition() -> None:
    assert parsed("MERGE INTO t USING s ON t.when = s.then WHEN MATCHED THEN DELETE").condition == "t.when = s.then"


def test_a_number_that_begins_with_a_dot_follows_a_keyword() -> None:
    assert parsed("MERGE INTO t USING s ON .5 < t.n WHEN MATCHED AND .5 < s.n THEN DELETE").condition == ".5 < t.n"


@pytest.mark.parametrize(
    "ctes",
    [
        "WITH merge AS (SELECT 1)",
        "WITH merge(into) AS (SELECT 1), b (SELECT merge FROM merge)",
        "WITH RECURSIVE r(id) MAX RECURSION LEVEL 10 AS (SELECT 1 UNION ALL SELECT id + 1 FROM r), max AS (SELECT 1)",
    ],
)
def test_queries_of_any_name_stand_before_a_merge(ctes: str) -> None:
    assert parsed(f"{ctes} MERGE INTO t USING merge ON true WHEN MATCHED THEN DELETE").ctes == ctes


def test_several_semicolons_end_a_statement() -> None:
    assert clauses("WHEN MATCHED THEN DELETE ; ;\n;") == clauses("WHEN MATCHED THEN DELETE")


def test_a_function_is_no_source() -> None:
    with pytest.raises(ParseError, match=r"PARSE_SYNTAX_ERROR.*'\('") as error:
        parse_merge("MERGE INTO t USING range(5) s ON true WHEN MATCHED THEN DELETE")
    assert "FROM range(5)) s" in (error.value.hint or "")


def test_identifiers_are_left_to_whoever_evaluates_them() -> None:
    found = parsed("MERGE INTO IDENTIFIER('t') t USING s ON true WHEN MATCHED THEN UPDATE SET t.IDENTIFIER('n') = 1")
    assert (found.target, found.clauses[0].assignments) == ((), (("t.IDENTIFIER('n')", "1"),))


def test_nested_cases_keep_their_whens() -> None:
    value = "CASE WHEN s.a THEN CASE s.b WHEN 1 THEN 2 END WHEN s.c THEN 3 END"
    first, second = clauses(f"WHEN MATCHED AND s.x THEN UPDATE SET a = {value} WHEN MATCHED THEN DELETE")
    assert first.assignments == (("a", value),)
    assert second.action is Action.DELETE


@pytest.mark.parametrize("begin", ["/* why */ EXPLAIN EXTENDED ", "-- a \\\n b\nexplain", "/* /* */ */ EXPLAIN--\nCOST\u3000"])
def test_explain(begin: str) -> None:
    found = parsed(f"{begin} MERGE INTO t USING s ON true WHEN MATCHED THEN DELETE")
    assert found.explain
    assert found.condition == "true"


def test_a_clause_in_a_comment_is_none() -> None:
    """A backslash continues a comment on the next line; a hint in a comment has no end of its own."""
    (first,) = clauses("WHEN MATCHED AND s.a THEN UPDATE SET a = 1 -- or \\\nWHEN MATCHED THEN DELETE\n")
    assert first.assignments == (("a", "1"),)
    assert parsed("MERGE INTO t USING s ON a -- b \\\nAND c\n WHEN MATCHED THEN DELETE").condition == "a"
    (first,) = clauses("WHEN MATCHED /* /*+ */ THEN DELETE -- */ THEN UPDATE SET *")
    assert first.action is Action.DELETE


def test_blanks_are_sparks() -> None:
    assert clauses("WHEN\u3000MATCHED\u00a0THEN\x0bDELETE") == clauses("WHEN MATCHED THEN DELETE")
    with pytest.raises(ParseError):
        clauses("WHEN\x85MATCHED THEN DELETE")


@pytest.mark.parametrize(
    ("text", "near", "hint"),
    [
        ("WHEN MATCHED AND s.a = 'x THEN DELETE", "'''", "quote is not closed"),
        ("WHEN MATCHED AND s.a = 'x\\' THEN DELETE", "'''", "quote is not closed"),
        ("WHEN MATCHED /* /* */ THEN DELETE", "'/*'", "comment is not closed"),
        ("WHEN MATCHED AND s.naïve THEN DELETE", "'ï'", "between backquotes"),
        ("WHEN MATCHED AND s.a = $$x$$ THEN DELETE", "'$'", "between quotes"),
    ],
)
def test_what_spark_has_no_token_for_is_shown_with_its_place(text: str, near: str, hint: str) -> None:
    with pytest.raises(ParseError) as error:
        clauses(text)
    assert f"near {near}" in error.value.detail
    assert hint in (error.value.hint or "")


def test_equal_signs_and_exclamation_marks_are_what_they_are_for_spark() -> None:
    first, second = clauses("WHEN MATCHED THEN UPDATE SET a == b == c WHEN ! MATCHED THEN INSERT (a) VALUES (! b)")
    assert first.assignments == (("a", "b == c"),)
    assert (second.kind, second.assignments) == (ClauseKind.NOT_MATCHED, (("a", "! b"),))


def test_types_have_commas_of_their_own() -> None:
    (clause,) = clauses("WHEN MATCHED THEN UPDATE SET a = b::map<int,array<int>> < c, d = e::struct<f:int, g:int>")
    assert clause.assignments == (("a", "b::map<int,array<int>> < c"), ("d", "e::struct<f:int, g:int>"))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 'MERGE'",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "WITH c AS (SELECT 1 AS merge) SELECT merge FROM c",
        "WITH merge AS (SELECT 1 AS a) SELECT * FROM merge",
        "WITH merge(into) AS (SELECT 1) SELECT * FROM merge",
        "WITH (SELECT 1 AS merge) SELECT merge FROM c",
        "EXPLAIN SELECT 1",
        "",
    ],
)
def test_other_statements(text: str) -> None:
    assert parse_merge(text) is None


@pytest.mark.parametrize(
    ("text", "condition", "near"),
    [
        ("", "MERGE_WITHOUT_WHEN", "end of input"),
        ("WHEN MATCHED THEN INSERT *", "PARSE_SYNTAX_ERROR", "'INSERT'"),
        ("WHEN NOT MATCHED THEN DELETE", "PARSE_SYNTAX_ERROR", "'DELETE'"),
        ("WHEN NOT MATCHED BY SOURCE THEN UPDATE SET *", "PARSE_SYNTAX_ERROR", "'*'"),
        ("WHEN MATCHED THEN UPDATE SET a =", "PARSE_SYNTAX_ERROR", "end of input"),
        ("WHEN MATCHED AND THEN DELETE", "PARSE_SYNTAX_ERROR", "'THEN'"),
        ("WHEN MATCHED THEN DELETE DELETE", "PARSE_SYNTAX_ERROR", "'DELETE'"),
        (", true WHEN MATCHED THEN DELETE", "PARSE_SYNTAX_ERROR", "','"),
        (") OR (true WHEN MATCHED THEN DELETE", "PARSE_SYNTAX_ERROR", "')'"),
        ("WHEN MATCHED THEN UPDATE SET a = case, b = 1", "PARSE_SYNTAX_ERROR", "CASE is not closed"),
        ("WHEN NOT MATCHED THEN INSERT (a, b) VALUES (1)", "MERGE_INSERT_VALUE_COUNT_MISMATCH", "1 values"),
        ("WHEN NOT MATCHED THEN INSERT * WHEN MATCHED THEN DELETE", "PARSE_SYNTAX_ERROR", "must come before"),
        ("WHEN MATCHED THEN DELETE WHEN MATCHED THEN DELETE", "NON_LAST_MATCHED_CLAUSE_OMIT_CONDITION", "only the last"),
        (
            "WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED THEN INSERT *",
            "NON_LAST_NOT_MATCHED_BY_TARGET_CLAUSE_OMIT_CONDITION",
            "only the last",
        ),
        (
            "WHEN NOT MATCHED BY SOURCE THEN DELETE WHEN NOT MATCHED BY SOURCE THEN DELETE",
            "NON_LAST_NOT_MATCHED_BY_SOURCE_CLAUSE_OMIT_CONDITION",
            "only the last",
        ),
    ],
)
def test_a_wrong_clause_is_shown_with_its_place(text: str, condition: str, near: str) -> None:
    with pytest.raises(ParseError) as error:
        clauses(text)
    assert error.value.condition == condition
    assert near in error.value.detail


def test_the_line_is_shown_with_a_mark_below_it() -> None:
    with pytest.raises(ParseError) as error:
        parse_merge("MERGE INTO t USING s\nON a WHEN MATCHED THEN\n  UPSERT")
    assert error.value.detail.splitlines()[1:] == ["  UPSERT", "  ^^^"]
    assert error.value.parameters == {"line": 3, "position": 2}


@given(st.text(alphabet="MERGINTOUSWHEAD().,;`'\"=* -/\n", max_size=80))
def test_any_text_parses_or_is_refused_by_name(text: str) -> None:
    with contextlib.suppress(ParseError):
        parse_merge(f"MERGE INTO t USING s ON a {text}")


def test_a_shift_that_spark_takes_for_the_ends_of_two_types_is_refused() -> None:
    with pytest.raises(ParseError, match=r"shiftright") as error:
        clauses("WHEN MATCHED AND array(a)[0] = 1 THEN UPDATE SET b = c >> 1")
    assert "'c'" in error.value.detail


@pytest.mark.parametrize("alias", ["inner", "left", "AS Minus"])
def test_words_of_joins_are_no_aliases(alias: str) -> None:
    with pytest.raises(ParseError, match="between backquotes"):
        parse_merge(f"MERGE INTO t {alias} USING s ON true WHEN MATCHED THEN DELETE")
    assert parsed("MERGE INTO t `left` USING s ON true WHEN MATCHED THEN DELETE").target_alias == "left"


def test_column_aliases_are_refused() -> None:
    with pytest.raises(ParseError, match="COLUMN_ALIASES_NOT_ALLOWED"):
        parse_merge("MERGE INTO t USING s x (a, b) ON true WHEN MATCHED THEN DELETE")
