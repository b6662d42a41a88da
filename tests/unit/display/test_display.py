"""Pages as HTML, as text and as JSON: whatever is in a table, they are short, and nothing in them is code."""

from __future__ import annotations

import copy
import datetime
import decimal
import json
import pickle
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from deltamerge.commands.table.describe import detail_page, history_table, history_view
from deltamerge.display.data import json_text
from deltamerge.display.html import MOST_BYTES, html_of
from deltamerge.display.shown import Explanation
from deltamerge.display.text import text_of
from deltamerge.display.views import Bar, Bars, Cell, Grid, Node, Page, Pairs, Tree, grid_of, size_text, time_text, value_text
from deltamerge.log.replay.table import open_log
from deltamerge.merge.plan.prune import FunnelStep
from deltamerge.merge.report import MergeReport
from deltamerge.merge.views import sample_view
from tests.unit.log.building import add, commit, create, info

HOSTILE = """<script>alert("x")</script><img src=x onerror='y'>&amp;\u202e\x00"""
VOID = ("img", "br")


class Checked(HTMLParser):
    """A page's elements: each is closed, and what their texts are."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def page_with(text: str) -> Page:
    """A page in which a text stands wherever one can."""
    return Page(
        text,
        text,
        (
            Grid(text, (text, "n"), ((Cell(text), Cell(text, True)),), frozenset({"n"}), text),
            Pairs(text, ((text, text),)),
            Bars(text, (text,), (Bar(text, 1.0, (text,)), Bar(text, 0.0, (text,)))),
            Tree(text, (Node(text, text, (Node(text, text, chosen=False),)),)),
        ),
    )


def test_texts_are_never_code() -> None:
    found = Checked(html_of(page_with(HOSTILE)))
    assert found.names <= {"style", "div", "b", "span", "table", "thead", "tbody", "tr", "th", "td", "i", "ul", "li"}
    assert found.attributes <= {"class", "style"}
    assert sum(text.startswith('<script>alert("x")</script><img') for text in found.texts) == 18
    assert not re.search("[\u202e\x00]", "".join(found.texts))


def test_nothing_comes_from_elsewhere() -> None:
    assert not re.search(r"https?:|//|url\(|@import|<script|<link", html_of(page_with("x")))


def test_both_themes_have_colours_and_the_notebook_decides() -> None:
    found = html_of(page_with("x"))
    for rule in ("prefers-color-scheme:dark", '[data-jp-theme-light="true"]', '[data-jp-theme-light="false"]'):
        assert rule in found
    assert (found.count("color-scheme:light"), found.count("color-scheme:dark;")) == (2, 2)  # of scrollbars, too


def test_a_notebook_s_own_styles_of_tables_and_lists_do_not_win() -> None:
    """Jupyter's rules have two classes and a tag: `.jp-OutputArea-output.jp-RenderedHTMLCommon table`."""
    style = html_of(page_with("x")).partition("</style>")[0]
    parts = [each.strip() for rule in re.findall(r"([^{}<>]+)\{", style) for each in rule.split(",")]
    inner = [each for each in parts if re.search(r"\s(?!\.deltamerge$)", each)]
    assert len(inner) > 20
    assert [each for each in inner if not each.startswith("div.deltamerge.deltamerge ")] == []


@pytest.mark.parametrize(
    "page",
    [
        page_with("&" * 1_000_000),
        Page("wide", "", (grid_of("rows", [{f"c{n}": "&" * 1_000_000 for n in range(1000)}], [f"c{n}" for n in range(1000)]),)),
        Page("long", "", tuple(grid_of("&" * 999, [{"a": "&" * 999}] * 50, ["a"]) for _ in range(100))),
        Page("sample", "", (sample_view("c", 5, [({f"c{n}": n for n in range(1000)}, {f"c{n}": -n for n in range(1000)})] * 5),)),
    ],
    ids=["megabytes", "wide", "long", "changes"],
)
def test_a_page_stays_small(page: Page) -> None:
    found = html_of(page)
    assert Checked(found)
    assert len(found.encode()) <= MOST_BYTES
    assert len(text_of(page)) <= MOST_BYTES


def test_what_is_left_out_is_told() -> None:
    names = [f"c{n}" for n in range(31)]
    assert grid_of("", [dict.fromkeys(names, 1)] * 3, names, most_rows=1).note == "1 more column. 2 more rows."
    assert "More is not shown here." in html_of(
        Page("", "", tuple(grid_of("", [{"a": "&" * 999}] * 90, ["a"]) for _ in range(9)))
    )


def test_what_is_left_out_of_a_table_has_its_name(tmp_path: Path) -> None:
    create(tmp_path, add("a"))
    commit(tmp_path, 1, info(operation="MERGE"), add("b"))
    log = open_log(str(tmp_path))
    _, columns = detail_page(log.snapshot(), 1).views
    assert isinstance(columns, Grid)
    assert re.fullmatch(r"\d+ more columns?\.", columns.note)
    assert history_view(history_table(log), 1).note == "1 more commit."


def test_changed_values_are_marked_and_keys_come_along() -> None:
    changes: list[Any] = [({"id": 1, "n": 2, "m": 5}, {"n": 3, "m": 5}), (None, {"id": 2, "n": None}), ({"id": 3}, None)]
    found = sample_view("WHEN x", 7, changes)
    assert found.title == "WHEN x: 7 rows, 3 of them shown"
    lines = [[f"{cell.text}{'*' * cell.marked}" for cell in row] for row in found.rows]
    assert [line[:3] for line in lines] == [
        ["before", "1", "2"],
        ["after", "1", "3*"],
        ["inserted", "2", "NULL"],
        ["deleted", "3", ""],
    ]


def test_text_is_aligned() -> None:
    page = Page("Merge", "done", (grid_of("Rows", [{"id": 1, "name": "Ada"}, {"id": 10, "name": None}], ["id", "name"], ["id"]),))
    assert text_of(page) == "Merge done\n\nRows\n  id  name\n   1  Ada\n  10  NULL"


def test_values() -> None:
    assert [value_text(v) for v in (None, b"\x01\xff", 1.5, "a\nb", "x" * 999)] == [
        "NULL",
        "01 ff",
        "1.5",
        "a\N{OPEN BOX}b",
        "x" * 159 + "\N{HORIZONTAL ELLIPSIS}",
    ]
    assert [size_text(n) for n in (0, 999, 1500, 2_000_000)] == ["0 B", "999 B", "1.5 kB", "2.0 MB"]
    assert [time_text(n) for n in (999, 1200)] == ["999 ms", "1.2 s"]


def test_json_has_every_value() -> None:
    day = datetime.date(2026, 3, 1)
    value = {
        "d": day,
        "t": datetime.time(1),
        "n": decimal.Decimal("1.50"),
        "b": b"\xff",
        "f": float("nan"),
        "m": {1: [day]},
        "s": (1,),
    }
    assert json.loads(json_text(value)) == {
        "d": "2026-03-01",
        "t": "01:00:00",
        "n": "1.50",
        "b": "/w==",
        "f": "nan",
        "m": {"1": ["2026-03-01"]},
        "s": [1],
    }


def test_an_explanation_is_a_text() -> None:
    found = Explanation("MERGE INTO t", page_with("x"))
    assert found == "MERGE INTO t"
    assert isinstance(found, str)
    assert type(str(found)) is str
    assert Checked(found._repr_html_()).names
    for same in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert (same, same._repr_html_()) == (found, found._repr_html_())


METRICS = dict.fromkeys(
    [
        "numTargetRowsUpdated", "numTargetRowsDeleted", "numTargetRowsInserted", "numTargetRowsCopied", "numTargetFilesAdded",
        "numTargetBytesAdded", "numTargetDeletionVectorsAdded", "materializeSourceTimeMs", "scanTimeMs", "rewriteTimeMs",
    ],
    0,
)  # fmt: skip


@pytest.mark.parametrize(
    ("report", "line"),
    [
        (
            MergeReport(
                4,
                {
                    **METRICS,
                    "numTargetRowsUpdated": 3,
                    "numTargetRowsInserted": 1,
                    "numTargetFilesRemoved": 2,
                    "executionTimeMs": 1234,
                },
                (FunnelStep("in the table", 16, 1000),),
                touched_files=2,
            ),
            "committed version 4 of /t: 3 updated, 1 inserted, 2 of 16 files rewritten, 1.2 s",
        ),
        (
            MergeReport(None, {**METRICS, "numTargetFilesRemoved": 0, "executionTimeMs": 5}),
            "nothing committed to /t: no row changed, no file changed, 5 ms",
        ),
        (MergeReport(None, {}, merged_before=True), "nothing committed to /t: the transaction was merged before"),
    ],
)
def test_the_line_of_a_report(report: MergeReport, line: str) -> None:
    assert report.line("/t") == line
    assert str(report).startswith("Merge " + line.replace(" of /t", "").replace(" to /t", ""))
    assert Checked(report._repr_html_()).names
