"""Who is told how far a statement is, when, and in which words."""

from __future__ import annotations

import io
import logging
import sys
import threading
import types
from typing import Any

import pytest
from rich.console import Console

from deltamerge.progress import Progress, operation, reporting
from deltamerge.progress.bars import NotebookBar, TerminalBar, bar_here, html_of, line_of
from deltamerge.progress.operation import advancing, begin, current
from deltamerge.progress.operation import operation as running
from deltamerge.progress.value import Amount, seconds_text

HALF = Progress("MERGE", "t", "writing", Amount(8, 4_000_000, 50), Amount(16, 8_000_000, 100), 1, 2, 12.4, 12.4)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs is looked at often, and at once."""
    monkeypatch.setattr(operation, "SHOWN_AFTER", 0.01)
    monkeypatch.setattr(operation, "EVERY", 0.01)


def test_steps_are_told_when_they_begin() -> None:
    told: list[Progress] = []
    with running("MERGE", "file:/t", told.append):
        begin("matching", lambda: Amount(files=3))
        begin("committing")
    assert [(progress.operation, progress.table, progress.step) for progress in told] == [
        ("MERGE", "file:/t", "matching"),
        ("MERGE", "file:/t", "committing"),
    ]
    assert told[0].total == Amount(files=3)


@pytest.mark.usefixtures("quick")
def test_tasks_of_jobs_tell_the_share_while_they_run() -> None:
    told: list[Progress] = []
    half = threading.Event()

    def tell(progress: Progress) -> None:
        told.append(progress)
        if progress.tasks:
            half.set()

    with running("MERGE", "t", tell):
        begin("writing", lambda: Amount(4, 400, 40))
        found = current()
        assert found is not None
        with found.job(lambda: None, lambda: (1, 2)):
            assert half.wait(10)
    last = told[-1]
    assert (last.done, last.share, last.tasks, last.all_tasks) == (Amount(2, 200, 20), 0.5, 1, 2)
    assert last.remaining is not None


@pytest.mark.usefixtures("quick")
def test_what_threads_have_done_is_added_up() -> None:
    told: list[Progress] = []
    done = threading.Event()
    with running("OPTIMIZE", "t", lambda progress: (told.append(progress), progress.done.files == 2 and done.set())):
        begin("writing files again", lambda: Amount(2, 30))
        advance = advancing()
        threads = [threading.Thread(target=advance, args=(lambda size=size: Amount(1, size),)) for size in (10, 20)]
        for thread in threads:
            thread.start()
        assert done.wait(10)
    assert told[-1].done == Amount(2, 30)


def test_where_nobody_is_told_nothing_is_counted() -> None:
    def never() -> Amount:
        raise AssertionError

    with reporting(False), running("MERGE", "t"):
        begin("matching", never)
        advancing()(never)
    begin("outside of all statements", never)
    advancing()(never)


@pytest.mark.parametrize("to", [None, list[Progress]().append])
def test_a_merge_that_is_to_tell_nobody_tells_nobody(monkeypatch: pytest.MonkeyPatch, to: Any) -> None:
    """`run(progress=False)`, whatever is around it."""
    monkeypatch.setattr("deltamerge.progress.reporters.bar_here", lambda: pytest.fail("a bar is looked for"))
    with reporting(to), running("MERGE", "t", False):
        found = current()
        assert found is not None
        assert not found.is_watched


def test_a_part_of_a_statement_is_none_by_itself() -> None:
    told: list[Progress] = []
    with reporting(told.append), running("MERGE", "t"), running("OPTIMIZE", "t"):
        begin("choosing files")
    assert [progress.operation for progress in told] == ["MERGE"]


def test_a_function_that_fails_is_not_called_again(caplog: pytest.LogCaptureFixture) -> None:
    calls = []

    def fails(progress: Progress) -> None:
        calls.append(progress)
        raise ValueError("no")

    with caplog.at_level(logging.WARNING), running("MERGE", "t", fails):
        begin("matching")
        begin("writing")
    assert len(calls) == 1
    assert "not called again" in caplog.text


def test_only_functions_are_told() -> None:
    with (
        pytest.raises(TypeError, match="'to' in reporting must be a function, True, False or None, found to be of type"),
        reporting("x"),
    ):  # type: ignore[arg-type]
        pass


def test_the_words() -> None:
    assert str(HALF) == "MERGE: writing, 8 of 16 files, 4.0 MB of 8.0 MB, 50 rows, 12 s, about 12 s left"
    assert line_of(HALF).startswith(f"MERGE {'█' * 12}{'░' * 12} writing, 8 of 16 files")
    assert (
        str(Progress("MERGE", "t", "reading the source", all_tasks=4, tasks=1)) == "MERGE: reading the source, 1 of 4 tasks, 0 s"
    )
    assert [seconds_text(seconds) for seconds in (0.4, 59.4, 125, 3609)] == ["0 s", "59 s", "2:05", "1:00:09"]
    assert "width:50%" in html_of(HALF)
    assert "<script>" not in html_of(Progress("MERGE", "t", "<script>"))


@pytest.mark.usefixtures("quick")
def test_a_terminal_has_one_bar_that_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = io.StringIO()
    monkeypatch.setattr("deltamerge.progress.reporters.bar_here", lambda: TerminalBar)
    monkeypatch.setattr(TerminalBar, "__init__", _on(printed))
    seen = threading.Event()
    show = TerminalBar.show

    def shown(bar: TerminalBar, progress: Progress) -> None:
        show(bar, progress)
        seen.set()

    monkeypatch.setattr(TerminalBar, "show", shown)
    with running("MERGE", "t"):
        begin("writing", lambda: Amount(2))
        assert seen.wait(10)
        other = threading.Thread(target=_run_another)
        other.start()
        other.join()
    text = printed.getvalue()
    assert "writing, 0 of 2 files" in text
    assert "another" not in text
    assert text.rstrip().endswith("\x1b[2K")  # the line is wiped out
    with running("MERGE", "t", None, lambda in_terminal: not in_terminal):
        found = current()
        assert found is not None
        assert not found.is_watched


def _on(file: io.StringIO) -> Any:
    init = TerminalBar.__init__

    def made(bar: TerminalBar) -> None:
        init(bar)
        bar._live.console = Console(file=file, force_terminal=True, width=100)

    return made


def _run_another() -> None:
    with running("MERGE", "another"):
        found = current()
        assert found is not None
        assert not found.is_watched


def test_where_there_is_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert bar_here() is None
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert bar_here() is TerminalBar
    monkeypatch.setenv("TERM", "dumb")
    assert bar_here() is None
    shell = types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))  # type: ignore[arg-type]
    assert bar_here() is NotebookBar


def test_a_notebook_has_one_element(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    handle = types.SimpleNamespace(update=shown.append)

    def display(html: str, display_id: bool) -> Any:
        shown.append(html)
        return handle

    monkeypatch.setitem(sys.modules, "IPython.display", types.SimpleNamespace(display=display, HTML=str))  # type: ignore[arg-type]
    bar = NotebookBar()
    bar.show(HALF)
    bar.show(HALF)
    bar.close()
    assert shown == [html_of(HALF), html_of(HALF), ""]
