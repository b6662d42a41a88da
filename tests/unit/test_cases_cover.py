"""What shows what a merge does: the list in `tests/cases/README.md` names cases and tests that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from tests.cases.conditions import caught_as
from tests.cases.format import case_files, load_cases
from tests.unit.test_docs import catalogue, page

TESTS = Path(__file__).parents[1]
LIST = (TESTS / "cases" / "README.md").read_text(encoding="utf-8").partition("## What shows what\n")[2]
ROWS = [row.strip("| ").split(" | ") for row in re.findall(r"^\| (?!sentence).+\|$", LIST, re.MULTILINE)]
CASES = [case for file in case_files() for case in load_cases(file)]
_TEST = re.compile(r"(\S+\.py)::(\w+)")


@cache
def names_in(file: str) -> frozenset[str]:
    path = TESTS / file
    tree = ast.parse(path.read_text(encoding="utf-8")) if path.is_file() else ast.Module([], [])
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def exists(reference: str) -> bool:
    test = _TEST.fullmatch(reference)
    return test[2] in names_in(test[1]) if test else any(case.id == reference for case in CASES)


def test_each_sentence_is_shown_and_said_once() -> None:
    assert len(ROWS) > 100
    assert [row for row in ROWS if len(row) != 2 or not re.fullmatch(r"`[^`]+`(, `[^`]+`)*", row[1])] == []
    assert len({sentence for sentence, _ in ROWS}) == len(ROWS)


def test_what_shows_it_exists() -> None:
    named = [reference for _, shown in ROWS for reference in re.findall(r"`([^`]+)`", shown)]
    assert [reference for reference in named if not exists(reference)] == []


def test_each_condition_of_a_wrong_statement_is_raised_by_a_case_or_test() -> None:
    files = [path for path in TESTS.rglob("*.py") if path.name not in ("conditions.py", Path(__file__).name)]
    texts = "\n".join(path.read_text(encoding="utf-8") for path in files)
    raised = {case.expected.error for case in CASES} | set(re.findall(r"[A-Z][A-Z0-9_.]+", texts))
    sections = re.split(r"^#+ ", page("errors.md"), flags=re.MULTILINE)
    statements = [part for part in sections if part.startswith(("The statement", "Types and schema", "DeltaParseException"))]
    assert len(statements) == 3
    named = {name for part in statements for name in re.findall(r"^\| `([A-Z_.]+)`", part, re.MULTILINE)}
    assert named - raised == {"DELTAMERGE_ANALYSIS_FAILED"}, "no way to it is known"


def test_the_classes_of_conditions_are_those_of_the_documentation() -> None:
    classes = {name: kinds for name, kinds in catalogue().items() if len(kinds) == 1}
    wrong = []
    for case in CASES:
        (name,) = classes.get(case.expected.error or "", {""})
        kind = caught_as(case.expected.error or "")
        if name and kind.__name__ not in _bases(name):
            wrong.append((case.expected.error, name, kind.__name__))
    assert wrong == []


def _bases(name: str) -> set[str]:
    from deltamerge import exceptions

    return {base.__name__ for base in getattr(exceptions, name).__mro__}
