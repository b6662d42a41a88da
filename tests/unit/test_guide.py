"""The guide can be read, and its blocks can be pasted: short lines, whole outputs, pages that can be found."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.examples import PLACE, examples_of

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
MOST_CHARACTERS = 120
# Background, for those who change the library; the rules for prose do not hold for these pages.
BACKGROUND = ("architecture.md", "benchmarks.md", "internals.md")
GUIDE = [
    ROOT / "README.md",
    *(path for path in sorted(DOCS.rglob("*.md")) if "decisions" not in path.parts and path.name not in BACKGROUND),
]
_FENCE = re.compile(r"^[ ]*```(?P<language>\w*)")
_TABLE = re.compile(rf"{re.escape(PLACE)}/(\w+)")
_MAKES_SESSION = "spark = SparkSession.builder.getOrCreate()"


def name_of(path: Path) -> str:
    return path.relative_to(DOCS if DOCS in path.parents else ROOT).as_posix()


every_page = pytest.mark.parametrize("path", GUIDE, ids=map(name_of, GUIDE))


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def lines_of(page: str) -> Iterator[tuple[int, str, str]]:
    """Each line of a page with its number and its kind: the language of its fence, `none` without one, '' for prose."""
    kind = ""
    for number, line in enumerate(page.splitlines(), 1):
        fence = _FENCE.match(line)
        if fence:
            kind = "" if kind else fence["language"] or "none"
            continue
        yield number, line, kind


def long_lines(page: str) -> list[int]:
    """The numbers of the lines of prose and Python that are too long. Rows of tables and outputs are as long as they are."""
    found = ((number, line) for number, line, kind in lines_of(page) if kind in ("", "python") and not line.startswith("|"))
    return [number for number, line in found if len(line) > MOST_CHARACTERS]


def shortened_outputs(page: str) -> list[int]:
    """The numbers of the lines of outputs in which three dots stand for what was really printed."""
    return [number for number, line, kind in lines_of(page) if kind == "text" and "..." in line]


def test_there_is_a_guide_to_look_at() -> None:
    assert {"index.md", "merge/clauses.md", "integrations.md", "troubleshooting.md"} <= set(map(name_of, GUIDE))


@every_page
def test_lines_are_short(path: Path) -> None:
    assert long_lines(text_of(path)) == []


@every_page
def test_outputs_are_shown_as_they_are(path: Path) -> None:
    assert shortened_outputs(text_of(path)) == []


@every_page
def test_blocks_are_of_a_known_kind(path: Path) -> None:
    kinds = {kind for _, _, kind in lines_of(text_of(path))}
    assert kinds <= {"", "none", "python", "shell", "text"}


@every_page
def test_a_reader_sees_all_that_runs(path: Path) -> None:
    """The blocks of a page run when they are pasted: the first one makes the session."""
    examples = list(examples_of(text_of(path)))
    assert not examples or _MAKES_SESSION in examples[0].text


def test_pages_have_tables_of_their_own() -> None:
    """Readers run one page after the other: none finds a table that another page has made."""
    pages: dict[str, list[str]] = {}
    for path in GUIDE:
        code = "\n".join(example.text for example in examples_of(text_of(path)))
        for table in set(_TABLE.findall(code)):
            pages.setdefault(table, []).append(name_of(path))
    assert len(pages) > 20
    assert {table: names for table, names in pages.items() if len(names) > 1} == {}


def test_each_page_is_in_the_navigation() -> None:
    navigation = set(re.findall(r"[\w/-]+\.md", text_of(ROOT / "mkdocs.yml").split("nav:")[1].split("not_in_nav:")[0]))
    pages = {name_of(path) for path in DOCS.rglob("*.md") if "decisions" not in path.parts}
    assert pages - navigation == set()
    assert navigation - set(map(name_of, DOCS.rglob("*.md"))) == set()


PAGE = f"""
{"a" * 121}
| {"a" * 121} |

```python
{"a" * 121}
print(1)
```

```text
{"a" * 121}
1...
```
"""


def test_what_a_page_does_wrong_is_found() -> None:
    assert long_lines(PAGE) == [2, 6]
    assert shortened_outputs(PAGE) == [12]
